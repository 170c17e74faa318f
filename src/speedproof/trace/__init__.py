"""Torch's structured trace: from records, live or from files, to breaks, recompiles and captured graphs."""

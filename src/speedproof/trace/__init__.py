"""Torch's structured trace: from records, live or from files, to breaks, recompiles and captured graphs."""

from __future__ import annotations

from .breaks import parse_break
from .file import read_file, read_folder, read_ranks, read_stream
from .fold import TraceFold

__all__ = ["TraceFold", "parse_break", "read_file", "read_folder", "read_ranks", "read_stream"]

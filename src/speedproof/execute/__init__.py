"""The edge: where sessions run. Local processes, or a script of recorded events."""

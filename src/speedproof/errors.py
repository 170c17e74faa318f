"""Errors that reach the user: what happened, the evidence, what to do next; and the exit codes of the contract."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the command line, as documented for CI."""

    VERDICT = 0
    REGRESSION = 1
    USAGE = 2
    SCRIPT_FAILED = 3
    NO_STEPS = 4
    INCONCLUSIVE = 5
    INTERNAL = 6
    INTERRUPTED = 130


class SpeedproofError(Exception):
    """An error with a name, a message and a hint; caught in one place, the command line.

    ``slug`` names it for machines, ``message`` says what happened with the evidence, ``hint`` what to do next.
    """

    def __init__(self, slug: str, message: str, hint: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.slug, self.message, self.hint, self.code = slug, message, hint, code

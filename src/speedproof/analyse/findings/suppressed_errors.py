"""Errors of the compiler are suppressed

With `torch._dynamo.config.suppress_errors = True` a function that fails to compile runs in eager, and nobody is told.

## What it means

The script seems to run compiled, and a part of it, or all, does not.

## How it is found

Torch keeps a record of each compile that failed; those under `suppress_errors` are listed with their error.

## What to do

- Remove the setting, and see what fails: the error has a cause that can be mended, or reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding, Place
from ..evidence import Evidence

SLUG = "suppressed-errors"
HINTS = ("remove suppress_errors = True, and mend or report what fails",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each function that fell back."""
    seen = set()
    for _, log in evidence.logs:
        for text in log.fallbacks:
            if text in seen:
                continue
            seen.add(text)
            found = re.match(r"(?P<file>[^:]+):(?P<line>\d+) (?P<function>[^:]+): (?P<error>.*)", text, re.S)
            where = Place(found["file"], int(found["line"]), found["function"]) if found else None
            error = found["error"] if found else text
            why = f"This function failed to compile and runs in eager, silently: {error[:300]}"
            yield Finding(SLUG, "warning", where, 1, None, why, HINTS, "user_code")

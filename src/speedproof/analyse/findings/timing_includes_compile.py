"""The script's own timing contains the compile

The first call of a compiled function compiles it, which takes seconds to minutes. A clock around that call, or
around the
first epoch, measures the compiler.

## What it means

"Compiled is slower" is then true of the first call and says nothing about the steps after it.

## How it is found

In the diagnosis pass every interval that the script takes between two readings of a clock is compared with the time
that the
compiler was at work in it.

## What to do

- Call the compiled function a few times before the clock starts (every shape and mode that will be timed).
- Take many calls, and the median.
- On an accelerator, synchronise before each reading.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Severity
from ..evidence import Evidence

SLUG = "timing-includes-compile"
HINTS = (
    "call the compiled function a few times, in every shape and mode, before the clock starts",
    "time many calls and take the median",
)
SHARE = 0.1
ROUNDS = 3  # an interval that is taken more often than this is a log of steps, whose first line is odd


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each pair of lines between which the compiler was at work."""
    for seen in evidence.sighted("clock"):
        share = float(seen.detail.get("share", "0"))
        if share < SHARE:
            continue
        single = seen.count <= ROUNDS
        first = seen.detail.get("first", "?")
        why = f"The time from line {first} to here contains compiling, {100 * share:.0f}% of it in the diagnosis pass"
        why += ", and more where code is generated." if single else f", in the first of {seen.count} rounds."
        severity: Severity = "warning" if single else "info"
        yield Finding(SLUG, severity, seen.where, seen.count, None, why, HINTS, "user_code")

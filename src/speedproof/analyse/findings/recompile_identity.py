"""A new object takes the place of the one that was compiled

Some objects are recognised by identity: functions, modules, optimizers, parameters without a shape of their own. A
new
lambda or a new module for each call is a new program.

## What it means

Every new object compiles anew, up to the limit of eight; then eager.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real.

## What to do

- Make the object once, outside the loop.
- Pass data, not functions, into the compiled function.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import recompiles
from ..evidence import Evidence

SLUG = "recompile-identity"
HINTS = ("make the object once, outside the loop", "pass data instead of functions and modules")


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each object that is replaced."""
    for group in recompiles.groups(evidence):
        if group.cause.kind == "identity":
            why = f"{group.cause.name or 'An object'} is another object than when this was compiled."
            benign = recompiles.few(group)
            yield recompiles.finding(evidence, group, SLUG, group.source, why, HINTS, benign=benign)

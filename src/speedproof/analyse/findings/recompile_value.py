"""A Python number or flag that varies is an argument

Numbers passed in from Python are constants to the compiler at first. A whole number or a float that changes is left
open
at the second compile; a flag, a string, or a number that decides a branch is compiled for each value.

## What it means

One more compile where the number is left open. One for each value otherwise: step counters, batch indices and names
passed
into forward reach the recompile limit within a few steps.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real.

## What to do

- Do not pass what the computation does not need (a batch index for logging).
- Pass a tensor: `torch.tensor(step)`.
- Keep branches on it outside the compiled function.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import recompiles
from ..evidence import Evidence
from ..origin import origin_of_argument

SLUG = "recompile-value"
HINTS = (
    "pass it as a tensor, or not at all if the computation does not need it",
    "keep branches on it outside the compiled function",
)
KINDS = ("value", "global-state")


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each value that varies."""
    for group in recompiles.groups(evidence):
        if group.cause.kind in KINDS:
            seen = f" (seen: {', '.join(group.cause.values[:8])})" if group.cause.values else ""
            why = f"The value of {group.cause.name or 'a global setting'} is compiled in, and it changes{seen}."
            where = group.source or origin_of_argument(evidence.sources, group.caller, group.cause.name)
            benign = recompiles.few(group)
            yield recompiles.finding(evidence, group, SLUG, where, why, HINTS, benign=benign)

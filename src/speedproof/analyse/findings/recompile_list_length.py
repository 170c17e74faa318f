"""A list of varying length is an argument

The length of a Python list is part of what was compiled: the loop over it is unrolled, one copy of the body for each
element. Another length is another program.

## What it means

Each new length compiles anew, and takes longer the longer the list is. After eight the function runs in eager for the
rest of the run, silently. Detection models, which take a list of images, are the usual case.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real.

## What to do

- Stack or pad the elements into one tensor, with a mask for what is padding, and drop the loop.
- Or compile only what is done to one element (`self.encoder.compile()`), and leave the loop over the list in eager.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Place
from .. import recompiles
from ..evidence import Evidence
from ..origin import loop_over

SLUG = "recompile-list-length"
HINTS = (
    "stack or pad the elements into one tensor with a mask, and drop the loop",
    "or compile only what is done to each element, and leave the loop over the list in eager",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each list whose length varies."""
    for group in recompiles.groups(evidence):
        if group.cause.kind != "length":
            continue
        if group.stack and evidence.own(group.stack) == () and group.source is None:
            continue
        where = group.source or _loop(evidence, group)
        seen = f" (seen: {', '.join(group.cause.values[:8])})" if group.cause.values else ""
        why = f"The length of {group.cause.name} varies{seen}, and the loop over it is unrolled for each length."
        yield recompiles.finding(evidence, group, SLUG, where, why, HINTS, benign=recompiles.few(group, 1))


def _loop(evidence: Evidence, group: recompiles.RecompileGroup) -> Place | None:
    place = group.frame if group.frame is not None and evidence.is_user(group.frame) else None
    return loop_over(evidence.sources, place, group.cause.name) if place is not None else None

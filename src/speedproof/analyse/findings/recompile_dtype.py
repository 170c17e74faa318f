"""The type, device or layout of an input varies

Data type, device, strides and memory layout are part of what was compiled.

## What it means

One compile for each combination. Half precision in training and full precision in evaluation make two; batches that
are
sometimes channels-last make two more.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real.

## What to do

- Convert at one place, before the compiled call.
- Settled after one or two: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import recompiles
from ..evidence import Evidence
from ..origin import origin_of_argument

SLUG = "recompile-dtype"
HINTS = ("convert inputs at one place, before the compiled call", "nothing needs to be done where it settles")


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each input whose type varies."""
    for group in recompiles.groups(evidence):
        if group.cause.kind == "dtype":
            where = origin_of_argument(evidence.sources, group.caller, group.cause.name)
            why = f"The data type, device or layout of {group.cause.name} varies."
            yield recompiles.finding(evidence, group, SLUG, where, why, HINTS, benign=recompiles.few(group))

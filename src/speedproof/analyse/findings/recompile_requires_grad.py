"""Whether an input needs gradients varies

The first layer gets data, the next ones get activations: one needs no gradient, the others do. Where one compiled
function
serves all of them, it is compiled for both. This is most often a follow-up of a graph break.

## What it means

One more compile for each piece, at the start only.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real.

## What to do

- Nothing by itself: mend the graph breaks, and it goes away with them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import recompiles
from ..evidence import Evidence

SLUG = "recompile-requires-grad"
HINTS = ("nothing by itself: it goes away with the graph breaks that cut the model into pieces",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each function that meets both."""
    for group in recompiles.groups(evidence):
        if group.cause.kind == "requires_grad":
            why = "The same compiled piece gets inputs with and without gradients."
            yield recompiles.finding(
                evidence, group, SLUG, group.frame_place(evidence), why, HINTS, benign=recompiles.few(group, 6)
            )

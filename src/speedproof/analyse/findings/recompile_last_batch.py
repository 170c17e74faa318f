"""The last batch of an epoch is shorter, and compiles once more

A dataset that the batch size does not divide ends with a short batch. Its first dimension differs from what was
compiled, so the network is compiled a second time, with that dimension left open.

## What it means

One more compile in the first epoch, none later. It does no harm to a long run. It does distort any timing of a first
epoch, and it doubles the compile time of a short run.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real. A change of the first dimension alone, to a smaller size, once, is the last batch.

## What to do

- `drop_last=True` in the training loader, where losing a few samples an epoch does not matter.
- Otherwise nothing: it settles by itself. Time epochs from the second one on.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Place
from .. import recompiles
from ..evidence import Evidence
from ..origin import origin_of_argument

SLUG = "recompile-last-batch"
HINTS = (
    "nothing needs to be done: it settles after the first epoch",
    "drop_last=True in the training loader saves this compile, where a few samples an epoch do not matter",
    "time epochs from the second one on",
)


def is_last_batch(evidence: Evidence, group: recompiles.RecompileGroup) -> bool:
    """Whether one shorter first dimension is all that varied."""
    cause = group.cause
    if cause.kind != "shape" or cause.dim != 0 or len(cause.values) != 2 or not recompiles.few(group, 1):
        return False
    if "parameter" in group.first.reason or cause.name.startswith(("self.", "___")):
        return False  # the layers of the network differ, not its batches
    sizes = [loader.batch_size for loader in evidence.anatomy.loaders] if evidence.anatomy is not None else []
    old, new = int(cause.values[0]), int(cause.values[1])
    return new < old and (old in sizes or not sizes)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each network that met a short batch."""
    for group in recompiles.groups(evidence):
        if is_last_batch(evidence, group):
            old, new = group.cause.values
            where = _loader(evidence, int(old)) or origin_of_argument(evidence.sources, group.caller, group.cause.name)
            why = f"The last batch has {new} samples where the others have {old}."
            yield recompiles.finding(evidence, group, SLUG, where, why, HINTS, benign=True)


def _loader(evidence: Evidence, size: int) -> Place | None:
    loaders = evidence.anatomy.loaders if evidence.anatomy is not None else ()
    return next((known.where for known in loaders if known.batch_size == size and known.where is not None), None)

"""The shape of an input varies from call to call

The compiled code is made for the shapes it has seen. Torch compiles once for the first shape and, when a dimension
differs, once more with that dimension left open (`dynamic=None`); then it is usually quiet. It is not quiet where the
size decides what the code does, or where `dynamic=False` forbids open dimensions.

## What it means

A recompile or two at the start are the price of varying sizes. A recompile for each new size, up to the limit of
eight,
means that a run spends minutes compiling and then goes on in eager without saying so.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real. The line shown is where the tensor with the varying size is made, as far as the
assignments above the call tell.

## What to do

- Settled after one or two: leave it. Padding everything to one length costs more than it saves.
- One for each size: `torch.compile(dynamic=True)`, `torch._dynamo.mark_dynamic(x, dim)` on the input, or a few
  buckets
  of sizes.
- Sizes below 2 are always compiled on their own: torch treats 0 and 1 as constants.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import recompiles
from ..evidence import Evidence
from ..origin import origin_of_argument
from .recompile_last_batch import is_last_batch

SLUG = "recompile-shape"
SETTLED = (
    "nothing needs to be done: that dimension is open from the second size on",
    "padding to one length is not advised: the padding costs more than this compile",
)
OPEN = (
    "try dynamic=True, or torch._dynamo.mark_dynamic(x, dim) on the input, so that sizes are not compiled one by one",
    "group inputs into a few buckets of sizes",
    "avoid Python branches on sizes inside the compiled function: each is a guard",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each input dimension that varies."""
    for group in recompiles.groups(evidence):
        if group.cause.kind not in ("shape", "rank") or is_last_batch(evidence, group):
            continue
        where = origin_of_argument(evidence.sources, group.caller, group.cause.name)
        benign = recompiles.few(group)
        hints = SETTLED if benign else OPEN
        yield recompiles.finding(evidence, group, SLUG, where, _why(group.cause), hints, benign=benign)


def _why(cause: recompiles.Cause) -> str:
    of = f"dimension {cause.dim} of {cause.name}" if cause.dim is not None else f"the shape of {cause.name}"
    if len(cause.values) > 1:
        return f"{of[0].upper()}{of[1:]} varies: {', '.join(cause.values[:6])}."
    return f"{of[0].upper()}{of[1:]} varies, and the code depends on it."

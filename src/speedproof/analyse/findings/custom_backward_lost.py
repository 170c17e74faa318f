"""A custom backward is lost under torch.func.grad

A custom `autograd.Function` that is applied straight to the argument of `torch.func.grad` is inlined by the
compiler: its
forward is traced, and its own backward is never called.

## What it means

A straight-through estimator, whose forward has gradient zero by itself, trains nothing any more. No break, no
warning; the
first loss is right. Seen in torch 2.14.1.

## How it is found

In the eager steps, each call of a custom function inside a compiled one is looked at: is its input the very tensor
that the
transform differentiates by?

## What to do

- Put another operation in front: `Rounded.apply(w * 1)` keeps the backward.
- Or use `loss.backward()` and `torch.autograd.grad` instead of `torch.func.grad`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from ..evidence import Evidence

SLUG = "custom-backward-lost"
HINTS = (
    "put another operation in front of it, such as Rounded.apply(w * 1): then its backward is kept",
    "or use loss.backward() instead of torch.func.grad",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each such call."""
    for seen in evidence.sighted("custom_function"):
        if seen.detail.get("functorch") == "yes" and _compiled(evidence):
            name = seen.detail.get("name", "The function")
            why = (
                f"{name} is applied straight to the argument of a torch.func transform. Compiled, its forward is traced"
                " and its backward never called: the gradient is that of the plain operations inside."
            )
            yield Finding(SLUG, "error", seen.where, seen.count, None, why, HINTS, "compiler")


def _compiled(evidence: Evidence) -> bool:
    observed = evidence.ledger.observed
    return observed is None or observed.log.graphs > 0

"""The learning rate is compiled in as a constant

A compiled `optimizer.step` reads the learning rate as a Python number. A scheduler changes it, and the step is
compiled
anew: for SGD at every change, until the limit of eight is reached. Adam's recompiles once and is then quiet.

## What it means

With a scheduler that moves every step, the first nine steps compile, and the rest of the run has an eager optimizer.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real.

## What to do

- Make the rate a tensor: `torch.optim.SGD(params, lr=torch.tensor(0.1))`; schedulers work with it.
- Or leave `optimizer.step` uncompiled: its fused and foreach versions gain most of what there is.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Place
from .. import recompiles
from ..evidence import Evidence

SLUG = "recompile-learning-rate"
HINTS = (
    "make the learning rate a tensor: lr=torch.tensor(0.1)",
    "or do not compile optimizer.step: foreach and fused versions have most of the gain",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each compiled optimizer step."""
    for group in recompiles.groups(evidence):
        if group.cause.kind == "learning-rate":
            why = "The compiled optimizer step has the learning rate as a constant, and a scheduler changes it."
            yield recompiles.finding(
                evidence, group, SLUG, _where(evidence), why, HINTS, benign=recompiles.few(group, 1)
            )


def _where(evidence: Evidence) -> Place | None:
    """Where the step is compiled, else where the optimizer is made."""
    anatomy = evidence.anatomy
    if anatomy is None:
        return None
    sites = [s.where for s in anatomy.sites if s.name.endswith("step")]
    return next(iter([*sites, *(o.where for o in anatomy.optimizers)]), None)

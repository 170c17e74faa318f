"""Calls with and without autocast are compiled separately

The state of autocast is part of what was compiled. A model that trains under `torch.autocast` and is validated
without it
is compiled twice; a third way of calling it is a third program.

## What it means

Some more compiles in the first epoch, none later. Results in bfloat16 differ from eager by rounding, since fused
kernels
kept float32 in between: that is no error.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real.

## What to do

- Nothing, where it settles.
- Validate under the same autocast as training, unless you want full precision there.
- Autocast around the compiled call is right; inside of it works, too, and keeps the two ways of calling from
  differing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import recompiles
from ..evidence import Evidence

SLUG = "recompile-autocast"
HINTS = (
    "nothing needs to be done: each way of calling keeps its program",
    "use the same autocast in training and validation, unless full precision is wanted there",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each function that is called with and without autocast."""
    for group in recompiles.groups(evidence):
        if group.cause.kind == "autocast":
            seen = [s.where for s in evidence.sighted("autocast") if s.where is not None]
            where = seen[0] if seen else None
            why = "The same function is called with autocast on and off, and compiled for each."
            yield recompiles.finding(evidence, group, SLUG, where, why, HINTS, benign=recompiles.few(group, 4))

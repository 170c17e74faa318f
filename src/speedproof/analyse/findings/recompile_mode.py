"""Training and evaluation are two compiled programs

Whether a module is in training mode, and whether gradients are on, is part of what was compiled. The first evaluation
compiles a second program; later changes between the two find both ready.

## What it means

One or two more compiles in the first epoch, none later. It is a fault only where the mode changes within a step in
ever
new ways, which ends at the recompile limit.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real.

## What to do

- Nothing, where it settles.
- Leave evaluation in eager if it is short: call the module that you compiled from, not the compiled one.
- Keep to one of `torch.no_grad()` and `torch.inference_mode()`: they are two programs as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Place
from .. import recompiles
from ..evidence import Evidence
from ..origin import with_around

SLUG = "recompile-mode"
HINTS = (
    "nothing needs to be done: both programs are kept",
    "use either torch.no_grad() or torch.inference_mode() throughout: they are two programs as well",
    "if evaluation is short, call the uncompiled module there",
)
KINDS = ("grad-mode", "mode")


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each function that changes its mode."""
    for group in recompiles.groups(evidence):
        if group.cause.kind in KINDS:
            why = "Training and evaluation are compiled separately: " + (
                "gradients are switched on and off."
                if group.cause.kind == "grad-mode"
                else "train() and eval() differ."
            )
            yield recompiles.finding(
                evidence, group, SLUG, _where(evidence, group), why, HINTS, benign=recompiles.few(group, 4)
            )


def _where(evidence: Evidence, group: recompiles.RecompileGroup) -> Place | None:
    """The line that switches to evaluation, else the ``no_grad`` around the call."""
    modes = [s for s in evidence.sighted("mode") if s.detail.get("mode") == "eval" and s.where is not None]
    if modes:
        return max(modes, key=lambda s: s.count).where
    for site in evidence.sighted("call_site"):
        if site.detail.get("grad") == "no" and site.where is not None:
            return with_around(evidence.sources, site.where, "no_grad|inference_mode") or site.where
    return group.caller

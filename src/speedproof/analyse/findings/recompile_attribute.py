"""A Python attribute that changes is compiled in as a constant

Numbers, flags and strings on `self` are constants to the compiler. A counter that goes up in each call, a schedule
kept
as a float, a name that differs between layers: each value is another program.

## What it means

A counter recompiles in every step until the limit of eight is reached; from then on the function is eager for the
rest
of the run, without a word. What was a compiled model is a slow start and an eager run.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real. The line shown is the one that changes or reads the attribute.

## What to do

- Count outside the compiled function, and pass the value in as a tensor.
- Keep it in a buffer that is replaced, not changed in place: `self.calls = self.calls + 1` with a tensor. `self.calls
  += 1`
  on a buffer gives wrong gradients in 2.14 where the loss depends on it.
- `torch._dynamo.config.allow_unspec_int_on_nn_module = True` lets whole numbers vary without a recompile.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Place
from .. import recompiles
from ..evidence import Evidence
from ..origin import assignments_to

SLUG = "recompile-attribute"
HINTS = (
    "count outside the compiled function and pass the value in as a tensor",
    "or keep it in a buffer that is replaced (self.n = self.n + 1), not changed in place: that would spoil gradients",
    "for whole numbers, torch._dynamo.config.allow_unspec_int_on_nn_module = True stops these recompiles",
)
LAYERS = ("the compiled function is shared by layers that differ in it: give each its own, or compile the whole model",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each attribute that varies."""
    for group in recompiles.groups(evidence):
        if group.cause.kind != "attribute":
            continue
        where = _where(evidence, group)
        seen = f" (seen: {', '.join(group.cause.values[:8])})" if group.cause.values else ""
        why = f"The attribute {group.cause.name} is compiled in as a constant, and it changes{seen}."
        benign = recompiles.few(group)
        yield recompiles.finding(evidence, group, SLUG, where, why, LAYERS if benign else HINTS, benign=benign)


def _where(evidence: Evidence, group: recompiles.RecompileGroup) -> Place | None:
    """The line that changes the attribute, in the file where it is used; else the line that reads it."""
    files = [p.file for p in (group.source, group.frame, *reversed(group.stack)) if p is not None]
    for file in dict.fromkeys(files):
        changed = assignments_to(evidence.sources, file, group.cause.name)
        if changed:
            return next((c for c in changed if group.source is not None and c.line == group.source.line), changed[0])
    return group.source

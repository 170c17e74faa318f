"""Hooks that come and go are compiled in

Hooks on modules inside the compiled region are part of the program. Registering or removing one leads to a recompile,
where
torch guards on them at all (`skip_nnmodule_hook_guards=False`).

## What it means

One compile for each change. With the default setting there is no recompile, and a late hook never fires: that is
another
finding.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real.

## What to do

- Register hooks before the first call, and leave them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import recompiles
from ..evidence import Evidence

SLUG = "recompile-hooks"
HINTS = ("register hooks before the first compiled call, and leave them there",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each function whose hooks change."""
    for group in recompiles.groups(evidence):
        if group.cause.kind == "hooks":
            seen = [s.where for s in evidence.sighted("hook") if s.where is not None]
            why = "A hook was added or removed after this was compiled."
            benign = recompiles.few(group)
            yield recompiles.finding(evidence, group, SLUG, seen[0] if seen else None, why, HINTS, benign=benign)

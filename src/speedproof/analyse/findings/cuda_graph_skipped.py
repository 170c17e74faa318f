"""CUDA graphs were asked for and not used

`mode="reduce-overhead"` and `max-autotune` record CUDA graphs. They are skipped, without an error, where the graph
does something
that cannot be recorded: work on the CPU, inputs that are changed, shapes that vary.

## What it means

The mode then does what `default` does, plus the time to find that out.

## How it is found

Torch's records of each compile hold the reason.

## What to do

- The reason names the obstacle: move the tensor to the device, do not write to inputs, fix the shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding, Place
from ..evidence import Evidence

SLUG = "cuda-graph-skipped"
HINTS = ("mend what the reason names, or use mode='default': without CUDA graphs it is the same",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each reason."""
    reasons: dict[str, str] = {}
    for arm, log in evidence.logs:
        for reason in log.cudagraph_skips:
            reasons.setdefault(reason, arm)
    for reason, arm in reasons.items():
        where = _line(evidence, reason)
        yield Finding(SLUG, "warning", where, 1, None, f"In {arm}: {reason[:400]}.", HINTS, "compiler")


def _line(evidence: Evidence, reason: str) -> Place | None:
    places = [Place(f, int(n), name) for f, n, name in re.findall(r'File "([^"]+)", line (\d+), in (\S+)', reason)]
    return evidence.innermost(places)

"""A graph break of a rarer kind

The compiler stopped for a reason that has no page of its own here. Torch knows more than five hundred; those that
scripts really meet have pages, and the rest is told in torch's own words.

## What it means

As with any break: the graph ends at the line, Python does what the compiler could not, and a second graph begins
behind it. In a loop, a `with` or a `try` block the whole function is left to eager.

## How it is found

Torch's structured trace lists the break with its reason, an explanation, hints and the user's stack. The hints are
shown as torch gives them, except for those that it gives for every break and those that do harm.

## What to do

- Read torch's explanation and hints, and look at what is called on the line. Common ones: sorting or taking the
  maximum with a tensor as key, `id()` of an object, setting attributes on objects of Python's own types, `state_dict()`
  and `load_state_dict()` in `forward`.
- Move the line out of the compiled function, if it is no computation on tensors.
- Put it in a function of its own under `@torch.compiler.disable`, so that the break is where you want it: before a
  loop or a `with` block, and not inside.
- Where torch calls it a bug of its own, try a newer version, or report it with a small script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-other"
WHY = "The compiler cannot trace this line."
HINTS = (
    "move it out of the compiled function, if it is no computation on tensors",
    "or put it in a function of its own under @torch.compiler.disable, outside of loops and with blocks",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line, in torch's own words."""
    own = breaks.findings
    yield from own(evidence, SLUG, WHY, HINTS, only=lambda g: not _is_torchs_fault(g), use_torchs_hints=True)
    yield from own(evidence, SLUG, WHY, HINTS, only=_is_torchs_fault, use_torchs_hints=True, label="compiler")


def _is_torchs_fault(group: breaks.BreakGroup) -> bool:
    words = " ".join((group.first.reason, *group.first.hints))
    return bool(re.search(r"Backend compiler (?:exception|failed)|likely to be a Dynamo bug|Excessive Restart", words))

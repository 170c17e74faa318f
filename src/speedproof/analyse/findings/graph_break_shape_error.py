"""An operation cannot work as it is traced

Shapes, types or devices do not fit, as far as the compiler can tell without running the code. Either the line fails
in eager too, or it hangs on values that are not there while tracing, or an operator describes its result wrongly.

## What it means

The graph ends here and the line is left to eager. If it works there, all is well but for the break; if not, the error
is the script's own.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; the reason is an error of an operator
run on tensors without data.

## What to do

- Run the line once in eager with the same inputs. If it raises, that is what to mend.
- If the exception is expected (`try: x @ y`, `except RuntimeError`), ask for the shapes instead: `if x.shape[-1] ==
  y.shape[0]`.
- If it works in eager, look at the shapes that are computed from values, and at custom operators: their
  `register_fake` must return what the real one does, in shape, type and device.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-shape-error"
WHY = "As the compiler sees it, the shapes, types or devices of this operation do not fit."
HINTS = (
    "run the line once in eager with the same inputs: if it fails, mend that",
    "ask for shapes instead of catching the exception",
    "check what register_fake of a custom operator returns",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that fails on tensors without data."""
    return breaks.findings(evidence, SLUG, WHY, HINTS, use_torchs_hints=True)

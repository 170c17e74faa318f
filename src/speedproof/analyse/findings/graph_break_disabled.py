"""The code asks the compiler to stop here

`torch.compiler.disable`, `torch._dynamo.graph_break()`, `skip_frame()` or their like are on this line, or in the
function that it calls, in your own code or in a library's. The break is wanted.

## What it means

The function runs in eager, and what is around it is compiled in pieces. As a rule that is right: whoever put it there
knew of code that does not compile, or not correctly. What it costs is told; only if that is much is it worth asking
whether the reason still holds. If nothing at all was compiled, the request may cover more than was meant.

## How it is found

Torch's structured trace says that the break was asked for, and names the function and the reason that was given.

## What to do

- Nothing, in most cases.
- Give a reason, so that the next reader knows: `@torch.compiler.disable(reason="ragged lists")`.
- Disable as little as possible: a small function, not a whole `forward`. Functions that are called from a disabled
  one stay in eager as well; `@torch.compiler.disable(recursive=False)` leaves them to the compiler.
- Take it away and measure again, if it was put there for an older torch. `torch.compiler.allow_in_graph` and
  `torch.library.custom_op` are other ways to keep the compiler out of a function, without a break.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-disabled"
WHY = "The compiler was told to stop here, by this code or a library."
HINTS = (
    "nothing needs to be done if that is still wanted",
    "disable as small a function as possible; recursive=False leaves the functions it calls to the compiler",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """A note for each line, or a warning if nothing was compiled at all."""
    yield from breaks.findings(
        evidence, SLUG, WHY, HINTS, only=lambda g: not g.captured_nothing, label="benign", severity="info"
    )
    yield from breaks.findings(evidence, SLUG, WHY, HINTS, only=lambda g: g.captured_nothing, severity="warning")

"""A function that the compiler does not trace is called

The compiler leaves this function alone: a builtin without a counterpart (`open`, `breakpoint`, `os.getpid`), a
function that torch's developers put on the list of those to be skipped (`torch.save`, `inspect`), or a method of an
object that is not traced (locks, files, executors).

## What it means

The graph ends at the call, Python makes the call, and a second graph begins behind it. In a loop, a `with` or a `try`
block the whole function is left to eager.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it says that a function is marked as
skipped, or that a call or method is not supported. Calls with a page of their own (print, logging, clocks, deepcopy,
random numbers, numpy) are told under that.

## What to do

- Files, processes, locks and environment do not belong in a step: do them before or after the compiled call.
- Compute settings once, in `__init__`, and keep the result on `self`.
- Leave out what only serves debugging while compiling: `if not torch.compiler.is_compiling(): ...`.
- Where the function is pure and its result does not change, `torch.compiler.assume_constant_result(fn)` lets the
  compiler call it once while tracing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-skipped-function"
WHY = "A function is called here that the compiler does not trace, so the graph ends at the call."
HINTS = (
    "move the call before or after the compiled function",
    "compute it once in __init__ and keep the result",
    "leave debugging calls out with: if not torch.compiler.is_compiling()",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each such call."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

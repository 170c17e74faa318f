"""Python randomness is frozen when the function is compiled

Python's `random` and `numpy.random` run while the compiler traces, not while the compiled code runs. What they drew
then
(an order, a crop, a choice) is a constant from then on. There is no break, no recompile and no warning.

## What it means

Every call of the compiled function uses the same draw: shuffled negatives are always the same, augmentation stands
still,
layers are dropped always or never. The loss still goes down, towards something else.

## How it is found

The calls are seen in the eager steps. In the diagnosis pass the state of the generator is compared before and after
each
compiled call: if it never moves, the draw is frozen.

## What to do

- Draw with torch: `torch.randperm`, `torch.rand`, `torch.randint` are part of the graph and draw anew in each call.
- Or draw outside the compiled function and pass the result in as a tensor.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Place
from .. import breaks
from ..evidence import Evidence

SLUG = "random-frozen"
HINTS = (
    "draw with torch instead: torch.randperm(n), torch.rand(()), torch.randint(...)",
    "or draw outside the compiled function and pass the result in as a tensor",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that draws, where the generator was seen to stand still."""
    still = sum(s.count for s in evidence.sighted("random_still") if s.detail.get("which") == "random")
    for seen in evidence.sighted("inside"):
        if seen.detail.get("kind") == "random" and still >= 2 and not _breaks_there(evidence, seen.where):
            call = seen.detail.get("call", "random")
            why = (
                f"{call} ran once, while the function was compiled; in {still} compiled calls after that the generator "
                "did not move, so the first draw is used for ever. Eager draws anew in every call."
            )
            yield Finding(SLUG, "error", seen.where, seen.count, None, why, HINTS, "user_code")


def _breaks_there(evidence: Evidence, where: Place | None) -> bool:
    """A graph break at the line leaves it to Python, which draws as it should."""
    lines = {(g.where.file, g.where.line) for g in breaks.groups(evidence) if g.where is not None}
    nothing = evidence.ledger.observed is not None and evidence.ledger.observed.log.graphs == 0
    return nothing or (where is not None and (where.file, where.line) in lines)

"""The distributed wrapper is inside of what is compiled

`torch.compile(DDP(model))` compiles the wrapper. Its forward breaks the graph by design, and the compiler goes on
with the
module inside only if its forward is your own code: an `nn.Sequential`, or a model from a library, is skipped.

## What it means

In the worst case nothing is compiled at all. Otherwise there are some breaks in the wrapper, which are harmless.

## How it is found

The script's request names the module that it compiles; the diagnosis pass counts what was captured.

## What to do

- `DDP(torch.compile(model))`, or `model.compile()` before `DDP(model)`: one graph, split at the gradient buckets.
- The same holds for `DataParallel`, which is better replaced by DDP.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from ..evidence import Evidence

SLUG = "ddp-inside-compile"
WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")
HINTS = ("compile first, wrap then: DDP(torch.compile(model)), or model.compile() before DDP(model)",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each wrapper that the script compiles."""
    anatomy, observed = evidence.anatomy, evidence.ledger.observed
    for site in anatomy.sites if anatomy is not None else ():
        if site.name in WRAPPERS:
            nothing = observed is not None and observed.log.graphs == 0
            result = "and nothing of it was captured" if nothing else "which breaks the graph by design"
            why = f"{site.name} itself is compiled, {result}."
            yield Finding(SLUG, "error" if nothing else "info", site.where, 1, None, why, HINTS, "user_code")

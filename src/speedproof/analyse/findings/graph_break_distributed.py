"""Distributed wrappers and collectives break the graph

`DistributedDataParallel` keeps books in Python before and after the network's forward, and the compiler stops there by
design. Collectives called by hand (`dist.barrier()`, `dist.broadcast`, `async_op=True`, object collectives) break too;
a plain `dist.all_reduce(x)` or `dist.all_gather` is traced.

## What it means

Breaks inside the wrapper cost next to nothing, as long as the network within is compiled: it is split at the gradient
buckets, so that communication overlaps with the backward pass. They are listed as notes. If nothing at all was
captured, the wrapper stands in the way: with `torch.compile(DDP(net))` and a `net` of torch's own classes, such as
`nn.Sequential`, the compiler looks at the wrapper, stops, and never comes to the network.

## How it is found

Torch's structured trace lists the break; its innermost frames are in `torch/nn/parallel` or `torch/distributed`, or it
names a collective, a process group or the handle of one.

## What to do

- Compile the network first and wrap it then. That captures it whatever its class:

```python
net = DDP(torch.compile(net))        # or net.compile(), then DDP(net)
```

- Call barriers, broadcasts of settings and object collectives outside the compiled function.
- `async_op=True` and `handle.wait()` are not traced; the plain call is, and Inductor may overlap it by itself.
- Ask for `dist.get_rank()` and `get_world_size()` freely: they are constants to the compiler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-distributed"
WRAPPED = "The distributed wrapper does its own bookkeeping here, where the compiler stops by design."
CALLED = "A collective is called here in a form that the compiler does not trace."
WRAPPER_HINTS = (
    "compile the network, then wrap it: DDP(torch.compile(net))",
    "nothing needs to be done where the network itself is compiled",
)
CALL_HINTS = (
    "call barriers, broadcasts and object collectives outside the compiled function",
    "use the plain collective without async_op=True; the compiler may overlap it by itself",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line: a note where a wrapper breaks by design and the network is compiled."""
    own = breaks.findings
    yield from own(evidence, SLUG, WRAPPED, WRAPPER_HINTS, only=_harmless, label="benign", severity="info")
    yield from own(evidence, SLUG, WRAPPED, WRAPPER_HINTS, only=lambda g: _in_wrapper(g) and not _harmless(g))
    yield from own(evidence, SLUG, CALLED, CALL_HINTS, only=lambda g: not _in_wrapper(g))


def _in_wrapper(group: breaks.BreakGroup) -> bool:
    own_words = f"{group.first.reason} {group.first.explanation}"
    files = " ".join(place.file for place in group.first.stack)
    return "/torch/nn/parallel/" in files or bool(re.search(r"FSDP|DistributedDataParallel|fsdp", own_words + files))


def _harmless(group: breaks.BreakGroup) -> bool:
    return _in_wrapper(group) and not group.captured_nothing

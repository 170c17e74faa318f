"""A parameter or layer is made in compiled code

`nn.Parameter(...)`, `nn.Linear(...)` or another layer with weights is constructed in `forward`, or a lazy module is
still without its weights. Layers without weights, such as `nn.MSELoss()`, do not break.

## What it means

The graph ends here in every call. The optimizer has usually never seen such a parameter, so it is not trained; if the
layer is kept on `self`, the guards of the compiled code fail once it is there.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names the constructor of
`torch.nn.Parameter`; the line is the user's that made the layer.

## What to do

- Make layers and parameters in `__init__`, with sizes from the configuration.
- Where the size is only known from data, run one batch in eager before compiling; that settles `nn.LazyLinear` and
  its like:

```python
model(first_batch)          # eager: lazy modules get their weights
model.compile()
```

- For a tensor of zeros or noise that is not trained, `torch.zeros(..., device=x.device)` does.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-parameter-in-forward"
WHY = "A parameter or a layer with weights is made here, while compiled code runs."
HINTS = (
    "make layers and parameters in __init__",
    "run one eager batch before compiling where sizes come from data",
    "use a plain tensor where nothing is trained",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that makes one."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

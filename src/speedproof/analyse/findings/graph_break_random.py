"""Random numbers outside torch's own stream

A generator object, a seed, or a draw from `random` or `numpy.random` stands in compiled code, in a form that the
compiler does not trace.

## What it means

What torch 2.14 does depends on the call:

- `random.random()`, `uniform`, `randint` and `randrange` are drawn anew in each call, without a break; in an `if`
  they break as a branch does. `random.choice` and `gauss` break.
- `random.shuffle`, `random.sample` and a `random.Random` made outside are drawn once while tracing and **frozen**: no
  break, no warning, and the same numbers ever after (see `random-frozen`).
- A number from `numpy.random` breaks the graph. A numpy array is drawn by torch without a break, so `np.random.seed`
  no longer decides what comes out.
- `torch.manual_seed`, `get_rng_state`, `fork_rng`, `generator=g` and methods of `torch.Generator` break the graph.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names the generator or the function
that draws, or the break reads a number on a line that draws one.

## What to do

- Draw with torch on the device: `torch.rand(())`, `torch.randint(n, ())`, `torch.randperm(n, device=x.device)`, and
  keep the result a tensor.
- Draw Python numbers outside the compiled function, and pass them in as a tensor:

```python
lam = torch.tensor(np.random.beta(a, a))      # before the call
loss = compiled(x, y, lam)
```

- Seed once at the start, never in `forward`. For repeatable noise draw it outside with the generator and pass it in.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-random"
WHY = "A random number, seed or generator that the compiler does not trace is used here."
HINTS = (
    "draw with torch on the device and keep the result a tensor",
    "or draw outside the compiled function and pass the number in as a tensor",
    "seed outside; pass noise of a generator in instead of the generator",
    "check random.shuffle and random.sample nearby: compiled, they are frozen at the first draw",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that draws or seeds."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

"""nn.LSTM, nn.GRU or nn.RNN in compiled code

The compiler does not trace torch's recurrent layers by default (`torch._dynamo.config.allow_rnn` is off), nor the
packing of padded sequences. `nn.LSTMCell` in a loop is traced.

## What it means

From the layer on, all of the function stays in eager, or the whole function does: the compiler cannot resume behind
it. The layer itself is already one fused kernel on an accelerator, so what is lost is the part around it.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it says that RNN, GRU or LSTM is not
supported, or names a function that packs sequences.

## What to do

- Put what comes before and after the layer in modules of their own and compile these:

```python
self.head = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, classes))
self.head.compile()
```

- `torch._dynamo.config.allow_rnn = True` traces the layer: one graph in torch 2.14, and a second one when the
  sequence length varies. It is marked as experimental, and the kernels of the compiled layer need not be faster:
  measure before keeping it.
- If the recurrent layer takes most of the step, leave the model in eager: there is little to gain.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-rnn"
WHY = "The compiler does not trace recurrent layers, and cannot resume behind one: what follows stays in eager."
HINTS = (
    "compile the parts before and after the recurrent layer on their own",
    "or try torch._dynamo.config.allow_rnn = True, which is experimental: measure it",
    "leave the model eager where the recurrent layer is most of the step",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that calls one."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

"""Numpy is used in compiled code

The compiler replaces most of numpy by torch operators, without a break. It stops where numpy has no counterpart
(`np.unwrap`, `np.lexsort`, `np.vectorize`, strings, `astype(object)`, `tobytes`), and where a Python number is taken
from an array (`float(a.mean())`, `.item()`, `np.percentile`).

## What it means

The graph ends here; on an accelerator the data travel to the host and back. The replacement is not always numpy: a
one-element array may stand where numpy gave a scalar, and code that works in eager can raise a TypeError when it is
compiled. The gradient ends at `.numpy()` in any case.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names numpy or an ndarray, or a
number is read off an array on a line that mentions numpy.

## What to do

- Say it in torch: `torch.quantile` for `np.percentile`, `torch.clamp`, `torch.histc`, `torch.linalg`,
  `torch.searchsorted`.

```python
hi = torch.quantile(x.detach().flatten(), 0.95)     # float(np.percentile(x.numpy(), 95))
x = x.clamp(-hi, hi)
```

- Move work that needs numpy to the dataset or the loader's collate function.
- What must stay goes in a function of its own under `@torch.compiler.disable`: still a break, but the code is
  numpy's, and not torch's idea of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-numpy"
WHY = "Numpy is used here in a way that the compiler cannot turn into torch operators."
HINTS = (
    "use the torch counterpart: torch.quantile, clamp, histc, searchsorted, torch.linalg",
    "move preprocessing to the dataset or collate function",
    "keep what must be numpy in a function under @torch.compiler.disable, so that it stays numpy",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that needs numpy itself."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

"""A logger, a warning or a tracker is called in compiled code

`logger.info(...)`, `logging.warning(...)`, `warnings.warn(...)`, or the functions of a package such as wandb,
TensorBoard or loguru in a function that is compiled.

## What it means

The graph ends at the call, even where the level of the logger swallows the message: the compiler does not know levels.
In a loop, a `with` or a `try` block the whole function is left to eager. A value that is logged has to be computed and
fetched first; on an accelerator the host waits for it in every step.

## How it is found

Torch's structured trace names a method of `logging.Logger` or a function of `warnings`, or the innermost frames are in
the logging module or a package for logs.

## What to do

- Return the values and log them outside the compiled function, every so many steps:

```python
out, stats = compiled(x)
if step % 100 == 0:
    logger.info("norm %.3f", stats["norm"])
```

- Keep calls for eager runs with `if not torch.compiler.is_compiling():`.
- Have the compiler leave calls of a logger out altogether; the messages do not appear in compiled code then:

```python
torch._dynamo.config.ignore_logging_functions = {logging.Logger.info, logging.Logger.debug}
```

- Warnings about arguments belong in `__init__`, or before the call.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-logging"
WHY = "A message is logged here, which a graph cannot do, so it ends, also where the level swallows the message."
HINTS = (
    "return the values and log outside the compiled function, every so many steps",
    "keep it for eager runs only: if not torch.compiler.is_compiling(): logger.info(...)",
    "or leave such calls out of compiled code: torch._dynamo.config.ignore_logging_functions = {logging.Logger.info}",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that logs or warns."""
    calls = r"(?:self\.)?_?(?:log|logger|LOGGER|LOG|logging|warnings)\.\w+"
    return breaks.findings(evidence, SLUG, WHY, HINTS, fix=breaks.unless_compiling(evidence, calls))

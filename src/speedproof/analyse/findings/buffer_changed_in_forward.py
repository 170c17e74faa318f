"""A buffer is changed in place and then used for the loss

A counter or a schedule kept in a buffer, `self.step += 1`, and used in the same forward. Compiled, the backward
pass reads the
buffer again instead of the value that the forward used, and finds it changed already.

## What it means

The loss of each step is right and its gradients are wrong: they belong to the next step's value. Training drifts away
without any sign. Seen in torch 2.14.1 with `aot_eager` and Inductor.

## How it is found

In the eager steps, in-place operations on registered buffers are followed to operations whose result needs gradients.
Statistics that torch itself keeps, such as those of BatchNorm, are not meant.

## What to do

- Replace the buffer instead of changing it: `self.step = self.step + 1`.
- Or compute the factor outside and pass it in.
- Check gradients, not losses, after such a change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding
from ..evidence import Evidence

SLUG = "buffer-changed-in-forward"
HINTS = (
    "replace the buffer instead of changing it in place: self.step = self.step + 1",
    "or compute the factor outside the compiled function and pass it in as a tensor",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each buffer and line."""
    for seen in evidence.sighted("buffer_in_loss"):
        name = seen.detail.get("buffer", "a buffer")
        why = (
            f"The buffer {name} is changed in place here and used for the loss afterwards. Compiled, the backward pass "
            "reads it again after the change: the loss is right and the gradients are those of another value."
        )
        line = evidence.sources.line(seen.where)
        yield Finding(SLUG, "error", seen.where, seen.count, None, why, HINTS, "user_code", replaced(line))


def replaced(line: str) -> str | None:
    """``self.step += 1`` as ``self.step = self.step + 1``."""
    found = re.fullmatch(r"(self\.[\w.]+)\s*([-+*/])=\s*(.+)", line)
    return f"{found[1]} = {found[1]} {found[2]} {found[3]}" if found else None

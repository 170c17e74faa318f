"""Inputs of a compiled function share memory that it changes

Two arguments are overlapping views of one buffer, and the function writes to one of them. Graphs are kept in a
cache, and its
key leaves out which inputs share memory: code made for overlapping inputs can be served to a call without, and the
other
way round.

## What it means

Depending on what is in the compile cache, from this process or another one, a call crashes or writes to the wrong
part of the
tensor. Seen in torch 2.14.1.

## How it is found

In the diagnosis pass the memory of the tensors of the first calls is compared, and their version counters tell
whether the call
wrote to one.

## What to do

- Clone one of the views before the call.
- Or switch that cache off: `TORCHINDUCTOR_AUTOGRAD_CACHE=0`.
- Return new tensors instead of writing to arguments.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from ..evidence import Evidence

SLUG = "overlapping-inputs"
HINTS = (
    "clone one of the views before the call, or return a new tensor instead of writing to an argument",
    "or set TORCHINDUCTOR_AUTOGRAD_CACHE=0: the key of that cache leaves out which inputs share memory",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that makes such a call."""
    for seen in evidence.sighted("overlap"):
        names = seen.detail.get("names", "two arguments")
        why = f"{names[0].upper()}{names[1:]} share memory, and the compiled function changes it."
        yield Finding(SLUG, "error", seen.where, seen.count, None, why, HINTS, "compiler")

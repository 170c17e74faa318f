"""A compiled module is copied or pickled

`copy.deepcopy` and `pickle` of what `torch.compile` returned copy a wrapper. The copy is compiled anew at its first
call, and its
names keep the prefix.

## What it means

An EMA or a target network made by deepcopy of the compiled model pays the compile a second time. A pickled wrapper
needs the
same torch to be loaded.

## How it is found

The diagnosis pass sees copies of the wrapper.

## What to do

- Copy the plain module first, and compile the copies you call often.
- `model.compile()` is dropped by deepcopy and pickle: the copy is plain.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from ..evidence import Evidence

SLUG = "copied-compiled"
HINTS = ("copy the plain module, and compile afterwards", "model.compile() in place is left out of copies and pickles")


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that copies."""
    for seen in evidence.sighted("copied"):
        why = f"{seen.detail.get('how', 'A copy')} of the compiled wrapper: the copy compiles anew at its first call."
        yield Finding(SLUG, "info", seen.where, seen.count, None, why, HINTS, "user_code")

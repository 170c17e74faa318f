"""The script's own timing does not wait for the device

On an accelerator a call returns when its work is queued. A clock that is read without `torch.cuda.synchronize()`
measures how
fast Python queues work.

## What it means

Eager and compiled look alike, or the time of one step shows up in another line.

## How it is found

In the diagnosis pass, intervals between two readings of a clock that contain compiled calls and no synchronisation
are noted.
Only on an accelerator.

## What to do

- `torch.cuda.synchronize()` before each reading, or `torch.cuda.Event(enable_timing=True)`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from ..evidence import Evidence

SLUG = "timing-without-sync"
HINTS = ("torch.cuda.synchronize() before each reading of the clock, or CUDA events",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each pair of lines without a synchronisation between them."""
    for seen in evidence.sighted("clock"):
        if seen.detail.get("unsynchronised") == "yes":
            why = f"The time taken from line {seen.detail.get('first', '?')} to here does not wait for the device."
            yield Finding(SLUG, "warning", seen.where, seen.count, None, why, HINTS, "user_code")

"""Loader workers are started anew for every epoch

With `num_workers > 0` and without `persistent_workers`, each `for batch in loader` starts new processes, which
import the
script and copy the dataset.

## What it means

The start of an epoch stalls. With short epochs this is a good part of the run, and no compiler can help.

## How it is found

The diagnosis pass times every start of worker processes.

## What to do

- `DataLoader(..., persistent_workers=True)`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Severity
from ..evidence import Evidence

SLUG = "loader-restarts"
HINTS = ("persistent_workers=True keeps the worker processes from epoch to epoch",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each loader that was started more than once."""
    observed = evidence.ledger.observed
    for seen in evidence.sighted("loader_start"):
        if seen.count < 2 or not seen.ns or observed is None:
            continue
        each_s = seen.ns / seen.count / 1e9
        cost = seen.ns / 1e6 / max(1, observed.steps)
        share = evidence.share_of_step(cost) or 0.0
        why = f"{seen.detail.get('workers', '?')} workers were started {seen.count} times, {each_s:.2g} s each."
        severity: Severity = "warning" if share > 0.02 else "info"
        yield Finding(SLUG, severity, seen.where, seen.count, round(cost, 3), why, HINTS, "user_code")

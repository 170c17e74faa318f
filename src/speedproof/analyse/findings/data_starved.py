"""The loop waits for its data

Most of a step passes in `next()` of the loader: decoding, augmenting, collating. A compiler cannot touch that, and
a faster
network only waits longer.

## What it means

The gain of any variant is bounded by 1 / (wait share): at 90% waiting, an infinitely fast network gains 11%.

## How it is found

The phase clock books the time inside the loader of each eager step. Settings of the loader and the number of cores
come from the
same run.

## What to do

- `num_workers` up to the number of cores, `persistent_workers=True`, `pin_memory=True` on an accelerator.
- Cache what is decoded every epoch anew; vectorise Python loops in `__getitem__` and in the collate function.
- Then measure again: compile may pay off once the data keeps up.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, LoaderFact, Severity
from ..evidence import Evidence

SLUG = "data-starved"
SHARE = 0.3
FIRST = 0.1


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding where the loop waits for its loader for a good part of the step."""
    share = (evidence.baseline.phases or {}).get("data", 0.0)
    if share < FIRST or evidence.anatomy is None or not evidence.anatomy.loaders:
        return
    loader = max(evidence.anatomy.loaders, key=lambda known: known.batch_size or 0)
    wait_ms = None if evidence.step_ms is None else share * evidence.step_ms
    most = 1 / share
    severity: Severity = "warning" if share >= SHARE else "info"
    why = f"{100 * share:.0f}% of a step waits for the loader, so no variant can gain more than {most:.2f}x by itself."
    why += f" {_settings(evidence, loader)}"
    if wait_ms is not None and loader.batch_size:
        why += f" A sample costs about {wait_ms / loader.batch_size:.2g} ms."
    cost = None if wait_ms is None else round(wait_ms, 3)
    yield Finding(SLUG, severity, loader.where, 1, cost, why, _hints(evidence, loader), "user_code")


def _cores(evidence: Evidence) -> int | None:
    text = evidence.ledger.facts.get("cores", "")
    return int(text) if text.isdigit() else None


def _settings(evidence: Evidence, loader: LoaderFact) -> str:
    cores = _cores(evidence)
    of = f" on {cores} cores" if cores else ""
    text = f"It has num_workers={loader.workers}{of}"
    if evidence.anatomy is not None and evidence.anatomy.device == "cuda":
        text += f", pin_memory={loader.pin_memory}"
    return text + "."


def _hints(evidence: Evidence, loader: LoaderFact) -> tuple[str, ...]:
    cores = _cores(evidence) or 4
    hints = []
    if loader.workers == 0:
        hints.append(
            f"num_workers={max(1, min(cores - 1, 8))}, persistent_workers=True: batches are then made beside the step"
        )
    elif loader.workers < cores - 1:
        hints.append(f"num_workers={cores - 1}: {loader.workers} do not keep up")
    if evidence.anatomy is not None and evidence.anatomy.device == "cuda" and not loader.pin_memory:
        hints.append("pin_memory=True and .to(device, non_blocking=True)")
    return (*hints, "cache what is decoded anew in every epoch, and vectorise Python loops in __getitem__")

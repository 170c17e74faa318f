"""Threads that wait for each other eat the gain

On a CPU, compiled code opens a parallel region for each loop. Between regions the threads of OpenMP spin, and where
cores are few
or shared they spin at the cost of those that work. The step times then scatter widely: the shortest is many times
faster than
the usual one.

## What it means

A verdict of "slower" can turn round with a setting of the environment. It says something about the machine, not
about the
model.

## How it is found

The times of single compiled steps in the trial: the 90th percentile far above the 10th, while eager steps of the
same trial do not
scatter so. A session with other settings shows the effect where the budget allows.

## What to do

- Try `GOMP_SPINCOUNT=0` or `OMP_WAIT_POLICY=PASSIVE`, and `OMP_NUM_THREADS=1`, each in a run of its own.
- `torch.set_num_threads(n)` with n at most the number of free cores.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from ..evidence import Evidence

SLUG = "host-threads"
SPREAD = 3.0
HINTS = (
    "set GOMP_SPINCOUNT=0 (or OMP_WAIT_POLICY=PASSIVE) in the environment, and measure again",
    "or OMP_NUM_THREADS=1: many small parallel regions gain nothing from more threads",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding if compiled steps scatter in a way that waiting threads explain, or if threads outnumber cores."""
    yield from _crowded(evidence)
    if evidence.anatomy is None or evidence.anatomy.device != "cpu":
        return
    for variant in evidence.variants:
        spread = _spread(evidence, variant.id, "arm")
        eager = _spread(evidence, variant.id, "base")
        if spread is not None and eager is not None and spread >= SPREAD and spread >= 1.5 * eager:
            why = (
                f"Compiled steps of {variant.label} scatter: the 90th percentile is {spread:.1f} times the 10th, in "
                f"eager {eager:.1f} times. Threads that spin between many small parallel regions do that on few cores."
            )
            yield Finding(SLUG, "warning", None, 1, None, why, HINTS, "compiler")
            return


def _crowded(evidence: Evidence) -> Iterator[Finding]:
    facts = evidence.ledger.facts
    threads, cores = facts.get("threads", ""), facts.get("cores", "")
    if threads.isdigit() and cores.isdigit() and int(threads) > int(cores):
        why = f"torch uses {threads} threads on {cores} cores: each parallel region waits for the last of them."
        hints = (f"torch.set_num_threads({cores}), or OMP_NUM_THREADS={cores}",)
        yield Finding(SLUG, "warning", None, 1, None, why, hints, "user_code")


def _spread(evidence: Evidence, arm: str, side: str) -> float | None:
    record = evidence.ledger.arms.get(arm)
    blocks = record.blocks.values() if record is not None else ()
    times = sorted(ns for pair in blocks if side in pair for ns in pair[side].step_ns)
    if len(times) < 8:
        return None
    low, high = times[len(times) // 10], times[(9 * len(times)) // 10]
    return high / low if low else None

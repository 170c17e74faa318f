"""What compiling costs, and whether this run earns it back

Compiling takes time once, a faster step saves time in each step. A short run ends before the one has made up for
the other.

## What it means

`compile-time-not-earned`: the run that was shown ends before the break-even. `compile-time`: what was compiled, and
how long
each part of the compiler took, for the record.

## How it is found

The seconds come from the compiler's own records of the variant that was tried first with an empty cache; steps and
step times
from the trial. If compiling takes longer than the whole eager run, no gain could earn it back.

## What to do

- Keep the compile cache between runs (`TORCHINDUCTOR_CACHE_DIR`): a warm start costs a fraction.
- Compile one block class instead of the whole network (regional compilation): repeated layers are then compiled once.
- Leave compile out of short runs, tests and debugging.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Place, Severity, Variant
from ..evidence import Evidence

SLUGS = ("compile-time", "compile-time-not-earned")
HINTS = (
    "leave torch.compile out of runs as short as this",
    "keep the compile cache between runs (TORCHINDUCTOR_CACHE_DIR on a disk that stays)",
    "compile the repeated block instead of the whole network: for m in model.layers: m.compile()",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """What the dearest variant compiled, and whether the run is too short for it."""
    compiled = [v for v in evidence.variants if v.compile_s.cold is not None and v.kind == "compile"]
    if not compiled:
        yield from _unfinished(evidence)
        return
    variant = max(compiled, key=lambda v: v.compile_s.cold or 0.0)
    yield from _stages(evidence, variant)
    yield from _not_earned(evidence, variant)


def _not_earned(evidence: Evidence, variant: Variant) -> Iterator[Finding]:
    steps, step_ms, cold = evidence.script_steps, evidence.step_ms, variant.compile_s.cold
    if steps is None or step_ms is None or cold is None or cold < 0.5:
        return
    even = variant.break_even_steps
    run_s = steps * step_ms / 1000
    if cold > run_s:
        why = (
            f"Compiling takes {cold:.3g} s, and all {steps:,} steps of this run take {run_s:.3g} s in eager: no gain a "
            "step could earn that back."
        )
    elif even is not None and even > steps:
        why = f"Compiling takes {cold:.3g} s, earned back after {even:,} steps; this run has {steps:,}."
    else:
        return
    yield _too_short(evidence, why, cold, steps)


def _too_short(evidence: Evidence, why: str, seconds: float, steps: int) -> Finding:
    """A warning where the length was planned: a script that is tried out is often shorter than the job."""
    severity: Severity = "warning"
    if evidence.meta.planned_steps is None:
        severity, why = "info", why + " If the real job is longer, say how long with --steps."
    cost = round(1000 * seconds / steps, 3)
    return Finding("compile-time-not-earned", severity, _site(evidence), 1, cost, why, HINTS, "compiler")


def _unfinished(evidence: Evidence) -> Iterator[Finding]:
    """A compile that was broken off has cost at least what it was given."""
    steps, step_ms = evidence.script_steps, evidence.step_ms
    late = [v for v in evidence.variants if v.outcome == "timed_out" and not evidence.ledger.arm(v.id).ready]
    if not late or steps is None or step_ms is None:
        return
    spent_s, run_s = max(evidence.ledger.arm(v.id).spent_s for v in late), steps * step_ms / 1000
    if spent_s > max(2.0, 1.5 * run_s):
        why = (
            f"Compiling was not done after {spent_s:.3g} s, and all {steps:,} steps of this run take {run_s:.3g} s in "
            "eager: no gain a step could earn that back."
        )
        yield _too_short(evidence, why, spent_s, steps)


def _stages(evidence: Evidence, variant: Variant) -> Iterator[Finding]:
    log = next((log for arm, log in evidence.logs if arm == variant.id), None)
    if log is None or not log.stages_s:
        return
    stages = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in log.stages_s.items())
    biggest = max(log.captured, key=lambda g: g.stages_s.get("frame", 0.0), default=None)
    why = f"{variant.label}: {stages} (frame contains backend, backend contains inductor), {log.graphs} graphs."
    if biggest is not None and biggest.where is not None:
        why += f" The largest graph has {biggest.ops} operations ({biggest.where.function})."
    where = (
        biggest.where if biggest is not None and biggest.where is not None and evidence.is_user(biggest.where) else None
    )
    yield Finding("compile-time", "info", where or _site(evidence), log.graphs, None, why, (), "compiler")


def _site(evidence: Evidence) -> Place | None:
    sites = evidence.anatomy.sites if evidence.anatomy is not None else ()
    return sites[0].where if sites else None

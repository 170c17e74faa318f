"""From the ledger to the figures of the verdict file: baseline, ceiling, noise, variants."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import (
    PHASES,
    Arm,
    ArmReady,
    Baseline,
    Ceiling,
    CompileCost,
    Noise,
    PhasesMeasured,
    Ratio,
    Variant,
)
from .ledger import ArmRecord, Ledger
from .statistics import FEWEST_PAIRS, half_width, mean_of

COMPILABLE = ("forward", "loss", "backward", "optimizer")
OPEN_CEILING = 50.0  # a bound above this says nothing


def baseline_of(ledger: Ledger) -> Baseline:
    """Eager, over every base block of the run, and both sides of the A/A run."""
    means, steps = [], 0
    for record in ledger.arms.values():
        for sides in record.blocks.values():
            for side, block in sides.items():
                if (side == "base" or record.id in ("aa", "verify")) and block.steps:
                    means.append(block.total_ns / block.steps)
                    steps += block.steps
    peaks = [r.peaks["base"] for r in ledger.arms.values() if "base" in r.peaks]
    return Baseline(
        step_ms=mean_of(means),
        steps=steps,
        phases=phase_shares(ledger.phases),
        peak_bytes=min(peaks) if peaks else None,  # the resident peak only ever grows: the first is eager's own
    )


def phase_shares(measured: PhasesMeasured | None) -> dict[str, float] | None:
    """Shares of the step that sum to 1."""
    if measured is None:
        return None
    total = sum(measured.phases_ns.values())
    if total <= 0:
        return None
    return {phase: measured.phases_ns.get(phase, 0) / total for phase in PHASES}


def ceiling_of(phases: dict[str, float] | None) -> Ceiling:
    """What compile could gain at most: nothing outside forward, loss, backward and optimizer gets faster."""
    if phases is None:
        return Ceiling(None, "the parts of the step could not be told apart")
    outside = 1.0 - sum(phases[p] for p in COMPILABLE)
    share = f"{100 * (1 - outside):.0f}% of the step is forward, loss, backward and optimizer"
    if outside <= 1 / OPEN_CEILING:
        return Ceiling(OPEN_CEILING, f"{share}: the rest of the loop sets no limit that matters")
    largest = max((p for p in PHASES if p not in COMPILABLE), key=lambda p: phases[p])
    names = {
        "data": "waiting for data",
        "transfer": "moving data to the device",
        "other": "other code of the loop",
    }
    return Ceiling(
        1.0 / outside,
        f"only {share.replace(' is ', ' is in ')}; {names[largest]} takes {100 * phases[largest]:.0f}%",
    )


def noise_of(ledger: Ledger) -> Noise:
    """Eager against eager: what this machine calls a difference when there is none."""
    aa = ledger.arm("aa").ratio() if "aa" in ledger.arms else None
    if aa is None or aa.low is None or aa.high is None:
        return Noise(aa, None)
    return Noise(aa, max(half_width(aa), abs(aa.low - 1), abs(aa.high - 1)))


def compile_cost(record: ArmRecord, base_ns: float | None) -> CompileCost:
    """Seconds that the warm-up took beyond what its steps take when warm, tracing subtracted."""
    pairs = record.pairs()
    steady = sum(p.arm_ns for p in pairs) / len(pairs) if pairs else base_ns

    def stall(ready: ArmReady | None) -> float | None:
        if ready is None:
            return None
        usual = (steady or 0.0) * ready.warmup_steps
        return max(0.0, ready.warmup_ns - ready.tracing_ns - usual) / 1e9

    return CompileCost(stall(record.cold), stall(record.warm))


def break_even(cost_s: float | None, base_ns: float | None, ratio: Ratio | None) -> int | None:
    """Steps after which the compile cost is earned back; ``None`` where no gain is proven, or the cost not known."""
    if cost_s is None or base_ns is None or ratio is None or (ratio.low or 0.0) <= 1.0:
        return None
    gain_ns = base_ns * (1 - 1 / ratio.ratio)
    return int(cost_s * 1e9 / gain_ns) + 1


def variants_of(ledger: Ledger, arms: Sequence[Arm], baseline: Baseline) -> tuple[Variant, ...]:
    """One row for each arm that a user would call a variant; the eager arms for noise and proof stay out."""
    base_ns = baseline.step_ms.mean * 1e6 if baseline.step_ms is not None else None
    shown = (a for a in arms if a.kind in ("compile", "rival", "as_written") and _applies(ledger, a))
    return tuple(_variant(ledger, arm, base_ns) for arm in shown if not _not_there(ledger.arm(arm.id)))


def _applies(ledger: Ledger, arm: Arm) -> bool:
    """Arms that were never tried are in the verdict too; the script's own requests only where it has any."""
    if arm.id in ledger.arms:
        return True
    return ledger.anatomy is not None and (arm.kind != "as_written" or bool(ledger.anatomy.sites))


def _not_there(record: ArmRecord) -> bool:
    return record.outcome == "cancelled" and record.started > 0 and not record.ready and "does not ask" in record.why


def _variant(ledger: Ledger, arm: Arm, base_ns: float | None) -> Variant:
    record = ledger.arm(arm.id)
    ratio = record.ratio()
    cost = compile_cost(record, base_ns)
    ready = record.cold or (record.ready[0][1] if record.ready else None)
    outcome, why = record.outcome, record.why
    if outcome is None and ratio is not None and ratio.pairs >= FEWEST_PAIRS:
        outcome, why = "completed", "the run ended before it was known more precisely"
    elif outcome is None:
        outcome, why = "cancelled", "the run ended before this variant was measured"
    if outcome == "completed" and ratio is None:
        outcome, why = "cancelled", why or "the script ends before a single pair of blocks could be timed"
    return Variant(
        id=arm.id,
        label=arm.label,
        config=arm.config,
        kind="rival" if arm.kind == "rival" else "compile",
        outcome=outcome,
        why=why,
        speedup=ratio if outcome == "completed" else None,
        compile_s=cost,
        break_even_steps=break_even(cost.cold, base_ns, ratio),
        peak_bytes=record.peaks.get("arm"),
        graphs=ready.log.graphs if ready is not None else None,
        graph_breaks=len(ready.log.breaks) if ready is not None else None,
        recompiles=len(ready.log.recompiles) if ready is not None else None,
        ops=ready.log.ops if ready is not None else None,
        settled=ready.settled if ready is not None else None,
        compiling_share=record.compiling_share(),
    )

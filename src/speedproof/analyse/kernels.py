"""From the profiler passes of both sides to one table: the time of a mean step by kind of kernel."""

from __future__ import annotations

from collections.abc import Iterable

from ..model import KernelRow, KernelsMeasured, KernelTable, Place
from .evidence import Evidence

LARGEST = 8


def table_of(measured: Iterable[KernelsMeasured], best: str | None = None) -> KernelTable | None:
    """The table of ``best``, or of the first arm that was profiled on both sides; ``None`` where none was.

    Where an arm was profiled more than once, the last time counts. Rows are ordered by time, the largest first.
    """
    arms: dict[str, dict[str, KernelsMeasured]] = {}
    for event in measured:
        if event.steps > 0:
            arms.setdefault(event.arm, {})[event.side] = event
    whole = {arm: sides for arm, sides in arms.items() if len(sides) == 2}
    if not whole:
        return None
    arm = best if best in whole else next(iter(whole))
    return _table(arm, whole[arm]["base"], whole[arm]["arm"])


def _table(arm: str, eager: KernelsMeasured, compiled: KernelsMeasured) -> KernelTable:
    rows = (_row(kind, eager, compiled) for kind in {**eager.kinds_ns, **compiled.kinds_ns})
    largest = sorted(compiled.top_ns.items(), key=lambda item: -item[1])[:LARGEST]
    return KernelTable(
        arm=arm,
        rows=tuple(sorted(rows, key=lambda row: -max(row.eager_ms, row.compiled_ms))),
        eager_step_ms=_ms(eager.wall_ns, eager),
        compiled_step_ms=_ms(compiled.wall_ns, compiled),
        eager_gap_ms=_ms(max(0, eager.wall_ns - eager.busy_ns), eager),
        compiled_gap_ms=_ms(max(0, compiled.wall_ns - compiled.busy_ns), compiled),
        largest={name: _ms(ns, compiled) for name, ns in largest},
    )


def _row(kind: str, eager: KernelsMeasured, compiled: KernelsMeasured) -> KernelRow:
    return KernelRow(
        kind,
        _ms(eager.kinds_ns.get(kind, 0), eager),
        _ms(compiled.kinds_ns.get(kind, 0), compiled),
        eager.kinds_count.get(kind, 0) / eager.steps,
        compiled.kinds_count.get(kind, 0) / compiled.steps,
    )


def _ms(ns: int, measured: KernelsMeasured) -> float:
    return ns / measured.steps / 1e6


# --- what grew -----------------------------------------------------------------------------------------------------

HOST = "no kernel at work"
FUSED = "what the compiler fuses"
_FUSIBLE = ("fused", "pointwise", "reduction", "normalisation", "copy and layout", "other")


def parts_of(table: KernelTable) -> dict[str, tuple[float, float]]:
    """Milliseconds of a step, eager and compiled, by parts that mean the same on both sides, the host included.

    Where the compiled kernels have no events of their own, all that they may have come from is one part.
    """
    together = _FUSIBLE if any(row.kind == "fused" for row in table.rows) else ()
    parts: dict[str, tuple[float, float]] = {}
    for row in table.rows:
        part = FUSED if row.kind in together else row.kind
        eager, compiled = parts.get(part, (0.0, 0.0))
        parts[part] = (eager + row.eager_ms, compiled + row.compiled_ms)
    parts[HOST] = (table.eager_gap_ms, table.compiled_gap_ms)
    return parts


def grown(table: KernelTable) -> list[tuple[str, float, float]]:
    """The parts that take longer compiled than eager: name and both times, the largest growth first."""
    longer = [(part, eager, compiled) for part, (eager, compiled) in parts_of(table).items() if compiled > eager]
    return sorted(longer, key=lambda part: part[1] - part[2])


def network_place(evidence: Evidence) -> Place | None:
    """Where the loop calls the network that is compiled: what a finding about its kernels points at."""
    roots = evidence.anatomy.roots if evidence.anatomy is not None else ()
    return next((root.where for root in roots if root.target and root.where is not None), None)

"""Where the time goes below the level of phases, as rows of text: kernels of a step, stages of a compile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from speedproof.model import KernelRow, KernelTable, Variant
from speedproof.report import words

KINDS_SHOWN = 14
LARGEST_SHOWN = 8
STAGES_SHOWN = 16
VARIANTS_SHOWN = 3  # beside the name of a stage, more do not fit on a telephone


@dataclass(frozen=True)
class KernelLine:
    """One row of the kernel table. ``left`` and ``width`` place the bar of the difference, in per cent."""

    kind: str
    eager: str
    compiled: str
    change: str
    launches: str
    tone: str
    left: float = 50.0
    width: float = 0.0


def kernel_lines(table: KernelTable) -> list[KernelLine]:
    """The kinds, the largest first; then the time without a kernel, and the whole step."""
    by_size = sorted(table.rows, key=lambda row: -max(_size(row.eager_ms), _size(row.compiled_ms)))
    shown = [*by_size[:KINDS_SHOWN], *_rest(by_size[KINDS_SHOWN:])]
    gap = (table.eager_gap_ms, table.compiled_gap_ms)
    changes = [_change(row.eager_ms, row.compiled_ms) for row in shown] + [_change(*gap)]
    widest = max((abs(change) for change in changes if change is not None), default=0.0)
    lines = [_kernel_line(words.clean(row.kind), row, widest) for row in shown]
    lines.append(_line("no kernel at work", *gap, "", widest))
    return [*lines, _line("whole step", table.eager_step_ms, table.compiled_step_ms, "", 0.0)]


def largest_kernels(table: KernelTable) -> list[tuple[str, str]]:
    """The largest compiled kernels by name, with their time."""
    ordered = sorted(table.largest.items(), key=lambda item: -_size(item[1]))
    return [(words.short(name, 120), words.milliseconds(ms)) for name, ms in ordered[:LARGEST_SHOWN]]


def _rest(rows: Sequence[KernelRow]) -> list[KernelRow]:
    """What is not shown on its own, as one row."""
    if not rows:
        return []
    sums = (
        sum(_size(getattr(r, name)) for r in rows)
        for name in ("eager_ms", "compiled_ms", "eager_count", "compiled_count")
    )
    return [KernelRow(f"{len(rows)} other kinds", *sums)]


def _kernel_line(kind: str, row: KernelRow, widest: float) -> KernelLine:
    launches = f"{_launches(row.eager_count)} → {_launches(row.compiled_count)}"
    return _line(kind, row.eager_ms, row.compiled_ms, launches, widest)


def _line(kind: str, eager_ms: float, compiled_ms: float, launches: str, widest: float) -> KernelLine:
    change = _change(eager_ms, compiled_ms)
    width = 50 * abs(change) / widest if change is not None and widest > 0 else 0.0
    return KernelLine(
        kind=kind,
        eager=_cell(eager_ms),
        compiled=_cell(compiled_ms),
        change=_signed(change),
        launches=launches or words.DASH,
        tone="even" if not change else "gain" if change < 0 else "loss",
        left=round(50 - width if change is not None and change < 0 else 50, 2),
        width=round(width, 2),
    )


def _change(eager_ms: float, compiled_ms: float) -> float | None:
    eager, compiled = words.finite(eager_ms), words.finite(compiled_ms)
    return None if eager is None or compiled is None else compiled - eager


def _signed(change: float | None) -> str:
    if change is None:
        return words.DASH
    return f"{'+' if change > 0 else '-'}{words.milliseconds(abs(change))}" if change else "0"


def _cell(value: float) -> str:
    known = words.finite(value)
    return words.DASH if known is None else words.milliseconds(known) if known else "0"


def _launches(value: float) -> str:
    return words.scaled(value) if words.finite(value) is not None else words.DASH


def _size(value: float) -> float:
    return words.finite(value) or 0.0


# ------------------------------------------------------------------------------------------------------------
# Stages of compiling
# ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StageTable:
    """Seconds by stage of the compiler, a column for each variant."""

    head: list[str]
    rows: list[tuple[str, list[str]]]


def stage_table(variants: Iterable[Variant], best: str | None) -> StageTable | None:
    """The stages of the recommended variant and of the first others; ``None`` where none was timed."""
    timed = [v for v in variants if any(_size(s) > 0 for s in v.stages_s.values())]
    timed.sort(key=lambda v: (v.id != best, v.outcome != "completed"))
    shown = timed[:VARIANTS_SHOWN]
    if not shown:
        return None
    names = dict.fromkeys(name for v in shown for name in v.stages_s)
    by_size = sorted(names, key=lambda name: -max(_size(v.stages_s.get(name, 0.0)) for v in shown))
    rows = [(words.slug_words(n), [_seconds(v.stages_s.get(n)) for v in shown]) for n in by_size[:STAGES_SHOWN]]
    return StageTable([words.short(v.label or v.id, 32) for v in shown], rows)


def _seconds(value: float | None) -> str:
    return words.DASH if words.finite(value) is None else words.duration(value)

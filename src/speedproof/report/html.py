"""The report as one HTML file: no network, no script, light and dark, readable on a telephone and on paper.

This module turns the result into positions and texts; ``page.html.j2`` turns those into markup. Positions are
percentages of a chart's width or height: charts stretch with the page while their text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import jinja2
from markupsafe import Markup

from speedproof.analyse.source import Sources
from speedproof.model import PHASES, Baseline, Result, Variant
from speedproof.report import words
from speedproof.report.html_findings import finding_cards
from speedproof.report.tables import kernel_lines, largest_kernels, stage_table

VARIANTS_SHOWN = 40
LINES_SHOWN = 6  # eager and the five best: with more, colours can no longer be told apart
ROW_PX = 46
LABEL_CHARS = 28  # what fits beside the figures on a screen of 400 pixels
# Speed-ups worth a label on a logarithmic axis, the plainest first: the axis takes those that have room.
_ROUND_RATIOS = (
    *(1, 2, 0.5, 1.5, 4, 0.25, 10, 0.1, 3, 1.2, 0.8, 1.1, 0.9),
    *(1.3, 0.7, 1.4, 0.6, 1.05, 0.95, 1.02, 0.98, 30, 0.03),
)
_TIME_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


def render(result: Result, *, threshold: float = words.THRESHOLD, sources: Sources | None = None) -> str:
    """The whole page. ``threshold`` is the gain that the chart of the variants marks as worth having.

    ``sources`` is what findings quote.
    """
    variants = result.variants[:VARIANTS_SHOWN]
    segments = _segments(result.baseline)
    return _template().render(
        result=result,
        words=words,
        variants=[(variant, words.cells(variant)) for variant in variants],
        measured=bool(result.baseline.step_ms or segments or result.anatomy or result.variants),
        tiles=_tiles(result),
        segments=segments,
        forest=_forest(result, threshold),
        threshold_text=words.times(1 + threshold),
        horizon=_horizon(result),
        memory=_memory(result),
        findings=finding_cards(result, sources or Sources()),
        kernels=kernel_lines(result.kernels) if result.kernels else [],
        largest=largest_kernels(result.kernels) if result.kernels else [],
        stages=stage_table(result.variants, result.verdict.best),
    )


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    source = resources.files("speedproof.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True,
        finalize=_final,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.from_string(source)


def _final(value: object) -> object:
    """Every expression of the page passes here before it is escaped."""
    if isinstance(value, Markup):  # the output of a macro: already through
        return value
    return words.UNKNOWN if value is None else words.clean(str(value), lines=True)


# ------------------------------------------------------------------------------------------------------------
# The figures at the top, and the step
# ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tile:
    """A figure at the top of the page."""

    name: str
    figure: str
    note: str


def _tiles(result: Result) -> list[Tile]:
    step = result.baseline.step_ms
    tiles = [
        Tile(
            "Eager step",
            words.milliseconds(step.mean if step else None),
            f"{words.plural(result.baseline.steps, 'step')} measured" if step else "",
        ),
        Tile("Ceiling", words.times(result.ceiling.max_speedup), "the most that compiling could gain"),
        Tile("Noise floor", words.effect(result.noise.smallest_effect), "the smallest effect that shows"),
    ]
    variant = _subject(result)
    if variant is None or variant.speedup is None:
        return tiles
    cell = words.cells(variant)
    head = "Speed-up" if variant.id == result.verdict.best else "Fastest variant"
    pays = words.UNKNOWN if cell.break_even == words.DASH else cell.break_even
    steps = "steps, compile time included"
    if result.planned_steps:
        steps = f"steps, of {words.count(result.planned_steps)} planned"
    return [
        Tile(head, cell.ratio, f"{cell.interval} at 95%"),
        Tile("Pays off after", pays, steps if variant.break_even_steps is not None else ""),
        Tile("Compile time", words.duration(variant.compile_s.cold), _warm(variant)),
        *tiles,
    ]


def _warm(variant: Variant) -> str:
    return f"{words.duration(variant.compile_s.warm)} with a filled cache"


def _subject(result: Result) -> Variant | None:
    """The variant that the page is about: the recommended one, else the fastest that was measured."""
    for variant in result.variants:
        if variant.id == result.verdict.best:
            return variant
    measured = [v for v in result.variants if v.kind == "compile" and v.outcome == "completed" and _ratio(v)]
    return max(measured, key=lambda v: _ratio(v) or 0.0, default=None)


def _ratio(variant: Variant) -> float | None:
    """The measured speed-up, where it is one that arithmetic can use."""
    ratio = words.finite(variant.speedup.ratio) if variant.speedup else None
    return ratio if ratio is not None and ratio > 0 else None


@dataclass(frozen=True)
class Segment:
    """One phase in the bar of the step."""

    name: str
    left: float
    width: float
    share: str
    time: str


def _segments(baseline: Baseline) -> list[Segment]:
    known = [(name, words.finite((baseline.phases or {}).get(name))) for name in PHASES]
    parts = [(name, part) for name, part in known if part is not None and part > 0]
    total = math.fsum(part for _, part in parts)
    step = words.finite(baseline.step_ms.mean) if baseline.step_ms else None
    segments, left = [], 0.0
    for name, part in parts:
        width = _pct(part / total * 100)
        time = words.milliseconds(step * part / total if step is not None else None)
        segments.append(Segment(name, left, width, words.share(part / total), time))
        left = _pct(left + width)
    return segments


# ------------------------------------------------------------------------------------------------------------
# Variants and their intervals
# ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tick:
    """A mark on an axis, ``at`` this percentage of the chart."""

    at: float
    text: str


@dataclass(frozen=True)
class ForestRow:
    """A variant's interval. Positions are percentages of the width, ``top`` is in pixels."""

    label: str
    text: str
    top: int
    low: float
    mid: float
    high: float
    tone: str
    best: bool


@dataclass(frozen=True)
class Forest:
    """The chart of speed-ups with their intervals; positions are percentages of its width."""

    rows: list[ForestRow]
    ticks: list[Tick]
    one: float
    threshold: float
    noise: tuple[float, float] | None
    height: int
    summary: str


class LogScale:
    """Speed-ups to percentages of the width: a halving is as far from 1.0 as a doubling."""

    def __init__(self, values: Iterable[float]) -> None:
        logs = [math.log(min(max(value, 1 / 64), 64.0)) for value in values]
        pad = max(0.04, (max(logs) - min(logs)) * 0.08)
        self._low, self._high = min(logs) - pad, max(logs) + pad

    def __call__(self, value: float) -> float:
        at = (math.log(max(value, 1e-9)) - self._low) / (self._high - self._low) * 100
        return _pct(min(max(at, 0.0), 100.0))

    def ticks(self, apart: float = 13.0) -> list[Tick]:
        chosen: list[Tick] = []
        for value in _ROUND_RATIOS:
            inside = self._low < math.log(value) < self._high
            tick = Tick(self(value), f"{value:g}x")
            if inside and all(abs(tick.at - other.at) >= apart for other in chosen):
                chosen.append(tick)
        return chosen


def _forest(result: Result, threshold: float) -> Forest | None:
    measured = [v for v in result.variants[:VARIANTS_SHOWN] if _ratio(v)]
    if not measured:
        return None
    bounds = [_bounds(v) for v in measured]
    scale = LogScale([1.0, 1 + threshold, *(value for bound in bounds for value in bound)])
    rows = [
        _forest_row(v, scale, bound, threshold, i * ROW_PX, v.id == result.verdict.best)
        for i, (v, bound) in enumerate(zip(measured, bounds, strict=True))
    ]
    told = "; ".join(f"{row.label} {row.text}" for row in rows)
    return Forest(
        rows=rows,
        ticks=scale.ticks(),
        one=scale(1.0),
        threshold=scale(1 + threshold),
        noise=_noise_band(result, scale),
        height=len(rows) * ROW_PX,
        summary=f"Speed-up of each variant over eager, logarithmic axis. {told}.",
    )


def _bounds(variant: Variant) -> tuple[float, float, float]:
    """Low, middle and high end of the interval; a missing end falls on the middle."""
    middle = _ratio(variant) or 1.0
    speedup = variant.speedup
    low = words.finite(speedup.low) if speedup else None
    high = words.finite(speedup.high) if speedup else None
    return (
        low if low is not None and low > 0 else middle,
        middle,
        high if high is not None and high > 0 else middle,
    )


def _forest_row(
    variant: Variant,
    scale: LogScale,
    bound: tuple[float, float, float],
    threshold: float,
    top: int,
    best: bool,
) -> ForestRow:
    low, middle, high = bound
    tone = "gain" if low > 1 + threshold else "loss" if high < 1 else "even"
    if variant.numerics.status == "fail":
        tone = "wrong"
    cell = words.cells(variant)
    text = cell.ratio if cell.interval == words.DASH else f"{cell.ratio} ({cell.interval})"
    label = words.short(cell.label, LABEL_CHARS)
    return ForestRow(label, text, top, scale(low), scale(middle), scale(high), tone, best)


def _noise_band(result: Result, scale: LogScale) -> tuple[float, float] | None:
    aa = result.noise.aa
    low, high = (words.finite(aa.low), words.finite(aa.high)) if aa else (None, None)
    if low is None or high is None or not 0 < low <= high:
        return None
    return scale(low), _pct(scale(high) - scale(low))


# ------------------------------------------------------------------------------------------------------------
# Total wall time against steps
# ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """Wall time of a run as a function of its steps: what compiling costs first, then so much a step."""

    label: str
    start_s: float
    step_s: float
    best: bool = False

    def total_s(self, steps: float) -> float:
        return self.start_s + self.step_s * steps


@dataclass(frozen=True)
class Stroke:
    """A course as a line in the chart, in percentages; ``tint`` numbers its colour."""

    label: str
    y1: float
    y2: float
    tint: int
    best: bool


@dataclass(frozen=True)
class Horizon:
    """The chart of total time against steps, where a compile cost is paid back."""

    strokes: list[Stroke]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    mark: tuple[float, float, str] | None
    head: list[str]
    rows: list[tuple[str, list[str]]]
    note: str
    summary: str


def _horizon(result: Result) -> Horizon | None:
    mean = result.baseline.step_ms
    step_ms = words.finite(mean.mean) if mean else None
    if step_ms is None or not 0 < step_ms < 1e12:
        return None
    eager = Course("eager", 0.0, step_ms / 1e3)
    courses = [eager, *_courses(result, eager.step_s)][:LINES_SHOWN]
    even = _break_even(result)
    last = _last_step(result, even, courses)
    if len(courses) < 2 or last is None:
        return None
    top_s = max(course.total_s(last) for course in courses) * 1.04
    stations = _stations(result, even, last)
    best = next((course for course in courses if course.best), courses[1])
    return Horizon(
        strokes=[_stroke(course, i, last, top_s) for i, course in enumerate(courses)],
        x_ticks=[Tick(_pct(at / last * 100), words.scaled(at)) for at in _ticks(last)],
        y_ticks=_time_ticks(top_s),
        mark=_mark(even, last, eager, top_s),
        head=[name for name, _ in stations],
        rows=_totals(courses, stations),
        note=_horizon_note(even, last, best, eager),
        summary=f"Total wall time of eager and of {len(courses) - 1} compiled variants over {last:,} steps.",
    )


def _courses(result: Result, eager_step_s: float) -> list[Course]:
    """The completed compile variants whose cost is known: the recommended one first, then the fastest."""
    courses = []
    for variant in result.variants:
        ratio, cost_s = _ratio(variant), words.finite(variant.compile_s.cold)
        usable = variant.kind == "compile" and variant.outcome == "completed"
        if not usable or ratio is None or cost_s is None or ratio < 1e-6 or cost_s < 0:
            continue
        best = variant.id == result.verdict.best
        label = words.short(variant.label or variant.id, 32)
        courses.append(Course(label, cost_s, eager_step_s / ratio, best))
    return sorted(courses, key=lambda course: (not course.best, course.step_s))


def _break_even(result: Result) -> int | None:
    """The break-even of the variant that the page is about."""
    variant = _subject(result)
    steps = variant.break_even_steps if variant else None
    return steps if steps is not None and 0 < steps < 10**12 else None


def _last_step(result: Result, even: int | None, courses: Sequence[Course]) -> int | None:
    """The planned length; else twice the break-even; else long enough to see the cost of compiling."""
    planned = result.planned_steps
    if planned is not None and 0 < planned < 10**12:
        return planned
    if even is not None:
        return even * 2
    cost_s = max((course.start_s for course in courses), default=0.0)
    steps = math.ceil(4 * cost_s / courses[0].step_s)
    return steps if 0 < steps < 10**12 else None


def _stroke(course: Course, tint: int, last: int, top_s: float) -> Stroke:
    return Stroke(course.label, _up(course.start_s, top_s), _up(course.total_s(last), top_s), tint, course.best)


def _mark(even: int | None, last: int, eager: Course, top_s: float) -> tuple[float, float, str] | None:
    if even is None or even > last:
        return None
    return _pct(even / last * 100), _up(eager.total_s(even), top_s), f"break-even {words.scaled(even)}"


def _stations(result: Result, even: int | None, last: int) -> list[tuple[str, int]]:
    """The step counts that the table gives totals for."""
    stops = {last: "planned" if last == result.planned_steps else "end of the chart", last // 2: "halfway"}
    if even is not None and even <= last:
        stops[even] = "break-even"
    return [(f"{words.count(steps)} ({name})", steps) for steps, name in sorted(stops.items()) if steps > 0]


def _totals(courses: Sequence[Course], stations: list[tuple[str, int]]) -> list[tuple[str, list[str]]]:
    return [(c.label, [words.duration(c.total_s(steps)) for _, steps in stations]) for c in courses]


def _horizon_note(even: int | None, last: int, best: Course, eager: Course) -> str:
    if even is None and best.step_s >= eager.step_s:
        return f"{best.label} is no faster than eager: the time spent compiling is never earned back."
    if even is None:
        return "Whether the time spent compiling is earned back is not known."
    if even > last:
        return f"Break-even lies at {even:,} steps, beyond the {last:,} of this run: too short to pay off."
    return f"From step {even:,} on, the time spent compiling is earned back."


def _time_ticks(top_s: float) -> list[Tick]:
    """Round values in the largest unit that leaves at least two of them."""
    unit_s, name = next((u for u in _TIME_UNITS if top_s >= 2 * u[0]), _TIME_UNITS[-1])
    return [Tick(_up(at * unit_s, top_s), f"{at:.15g} {name}" if at else "0") for at in _ticks(top_s / unit_s)]


def _ticks(limit: float, most: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from 0 to ``limit``, at most ``most`` of them after 0."""
    power = 10.0 ** math.floor(math.log10(limit / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if limit / (power * factor) <= most)
    return [float(f"{i * step:.12g}") for i in range(int(limit / step) + 1)]  # 0.3, not 0.30000000000000004


def _up(value: float, top: float) -> float:
    """A height as a percentage from the top, as SVG counts."""
    return _pct(100 - value / top * 100)


def _pct(value: float) -> float:
    return round(value, 2)


# ------------------------------------------------------------------------------------------------------------
# Tables
# ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryRow:
    """A bar of the memory chart; ``width`` is in per cent of the largest."""

    label: str
    peak: str
    against: str
    width: float


def _memory(result: Result) -> list[MemoryRow]:
    """Peaks, eager first; ``width`` is the share of the largest."""
    base = result.baseline.peak_bytes
    pairs = [
        ("eager", base),
        *((words.cells(v).label, v.peak_bytes) for v in result.variants[:VARIANTS_SHOWN]),
    ]
    known = [(label, peak) for label, peak in pairs if peak is not None and peak > 0]
    largest = max((peak for _, peak in known), default=0)
    return [
        MemoryRow(label, words.size(peak), _against(peak, base), _pct(peak / largest * 100)) for label, peak in known
    ]


def _against(peak: int, base: int | None) -> str:
    if base is None or base <= 0:
        return words.DASH
    percent = round((peak / base - 1) * 100)
    return f"{percent:+,}%" if percent else "the same"

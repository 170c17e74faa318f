"""The report for a terminal: about forty lines of plain text that end with verdict, why and next.

The last three lines are for eyes and for ``tail -3`` alike, so each stays one line, however long.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from speedproof.analyse.source import Sources
from speedproof.model import PHASES, Finding, Result, Variant
from speedproof.report import words
from speedproof.report.excerpts import line_of
from speedproof.report.pieces import SEVERITY_STYLE, WIDTH, Line, told

BAR = 40  # characters for the longest possible phase
VARIANTS_SHOWN = 12
FINDINGS_SHOWN = 5
TRACEBACK_LINES = 12
KIND_STYLE = {
    "worth_it": "bold green",
    "worth_it_after_fix": "bold cyan",
    "not_worth_it": "bold yellow",
    "unsafe": "bold red",
    "inconclusive": "bold magenta",
    "failed": "bold red",
}
NOTHING_COMPILED = "nothing-compiled"
HEADER = (
    "variant",
    "outcome",
    "faster",
    "95% interval",
    "compile cold/warm",
    "pays after",
    "memory",
    "G/B/R",
)


def render(result: Result, *, color: bool = False, sources: Sources | None = None, run: str | None = None) -> str:
    """Plain text, or the same text with colour codes. Ends with a newline.

    ``sources`` is what findings quote, and ``run`` the directory that the report names for more.
    """
    return told(_report(result, sources or Sources(), run), color=color)


def _report(result: Result, sources: Sources, run: str | None) -> Iterator[Line]:
    yield (("command: ", "bold"), (words.command(result), ""))
    yield from _nothing_compiled(result)
    yield from _anatomy(result)
    yield from _failure(result)
    yield from _step(result)
    yield from _variants(result)
    yield from _findings(result, sources, run)
    yield from _files(result)
    yield ()
    yield from _verdict(result)


def _anatomy(result: Result) -> Iterator[Line]:
    """The first fact is a line of its own, the rest share one where they fit."""
    first, *rest = words.anatomy_facts(result.anatomy)
    yield _named(*first)
    joined = "; ".join(f"{name}: {text}" for name, text in rest)
    if not rest:
        return
    if len(joined) <= WIDTH:
        yield ((f"  {joined}", ""),)
        return
    for name, text in rest:
        yield _named(name, text)


def _failure(result: Result) -> Iterator[Line]:
    """The script's own traceback, innermost lines last, as the user would have seen it."""
    if result.failure is None or not result.failure.traceback.strip():
        return
    every = words.clean(result.failure.traceback.rstrip(), lines=True).split("\n")
    yield ()
    yield (("the script's own traceback", "bold"),)
    if len(every) > TRACEBACK_LINES:
        yield ((f"  … {words.plural(len(every) - TRACEBACK_LINES, 'line')} before", "dim"),)
    yield from ((("  " + line, "red"),) for line in every[-TRACEBACK_LINES:])


def _step(result: Result) -> Iterator[Line]:
    baseline = result.baseline
    yield ()
    if baseline.step_ms is None:
        yield (("a step in eager mode", "bold"), (f"  {words.UNKNOWN}", ""))
    else:
        mean = baseline.step_ms
        span = f"{words.milliseconds(mean.low)} to {words.milliseconds(mean.high)}"
        known = "" if mean.low is None or mean.high is None else f" ({span})"
        text = f"  {words.milliseconds(mean.mean)}{known}, {words.plural(baseline.steps, 'step')} measured"
        yield (("a step in eager mode", "bold"), (text, ""))
    yield from _phases(baseline.phases or {})
    yield _named("ceiling", words.ceiling(result))
    yield _named("noise", words.noise(result.noise))


def _phases(phases: dict[str, float]) -> Iterator[Line]:
    """One bar a phase; phases too small to draw are left out."""
    for name in PHASES:
        part = words.finite(phases.get(name))
        if part is None or part < 0.005:
            continue
        cells = max(1, round(min(part, 1.0) * BAR))
        yield ((f"  {name:<10}", ""), ("█" * cells, "cyan"), (f" {words.share(part)}", ""))


def _variants(result: Result) -> Iterator[Line]:
    yield ()
    if not result.variants:
        yield (("no variant was tried", "bold"),)
        return
    tried = tuple(v for v in result.variants if v.outcome != "skipped")
    shown = tried[:VARIANTS_SHOWN]
    rows = [_row(variant) for variant in shown]
    widths = [max(len(row[i]) for row in [HEADER, *rows]) for i in range(len(HEADER))]
    yield ((_aligned("  ", HEADER, widths), "bold"),)
    for variant, row in zip(shown, rows, strict=True):
        best = variant.id == result.verdict.best
        yield ((_aligned("> " if best else "  ", row, widths), _row_style(variant, best)),)
        if variant.outcome != "completed" and variant.why:
            yield ((f"    {words.short(variant.why, WIDTH)}", "dim"),)
        if variant.numerics.status == "fail" and variant.numerics.worst:
            yield ((f"    numbers differ: {words.short(variant.numerics.worst, WIDTH)}", "red"),)
    if len(tried) > len(shown):
        yield ((f"  and {len(tried) - len(shown)} more", "dim"),)
    yield from _skipped(result)
    yield (("  G/B/R: graphs / graph breaks / recompiles; pays after: steps", "dim"),)


def _skipped(result: Result) -> Iterator[Line]:
    """One line a reason: three modes that cannot differ on a CPU are one fact."""
    by_reason: dict[str, list[str]] = {}
    for variant in result.variants:
        if variant.outcome == "skipped":
            by_reason.setdefault(variant.why, []).append(variant.id)
    for why, names in by_reason.items():
        yield ((words.short(f"  not tried: {', '.join(names)}: {why}", 2 * WIDTH), "dim"),)


def _row(variant: Variant) -> tuple[str, ...]:
    cell = words.cells(variant)
    return (
        words.short(cell.label, 30),
        cell.outcome,
        cell.ratio,
        cell.interval,
        cell.compile,
        cell.break_even,
        cell.memory,
        cell.counts.replace(" ", ""),
    )


def _row_style(variant: Variant, best: bool) -> str:
    if variant.numerics.status == "fail":
        return "red"
    if variant.outcome != "completed":
        return "dim"
    return "green" if best else ""


def _aligned(lead: str, row: Iterable[str], widths: list[int]) -> str:
    """Words to the left, figures to the right."""
    cells = (text.ljust(w) if i < 2 else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True)))
    return (lead + "  ".join(cells)).rstrip()


def _nothing_compiled(result: Result) -> Iterator[Line]:
    """What makes every figure below meaningless has to stand above them."""
    found = next((f for f in result.findings if f.slug == NOTHING_COMPILED), None)
    if found is not None:
        yield (("nothing was compiled: ", "bold red"), (words.short(found.why, 2 * WIDTH) or words.UNKNOWN, ""))


def _findings(result: Result, sources: Sources, run: str | None) -> Iterator[Line]:
    if not result.findings:
        return
    yield ()
    yield (("findings", "bold"),)
    step_ms = result.baseline.step_ms.mean if result.baseline.step_ms else None
    for finding in result.findings[:FINDINGS_SHOWN]:
        yield from _finding(finding, sources, step_ms)
    more = f"and {len(result.findings) - FINDINGS_SHOWN} more; " if len(result.findings) > FINDINGS_SHOWN else ""
    where = words.clean(shlex.quote(run)) if run is not None else "RUN"
    yield ((f"  {more}with source, cause and cure: speedproof explain {where}", "dim"),)


def _finding(finding: Finding, sources: Sources, step_ms: float | None) -> Iterator[Line]:
    """Three lines at most: what and where, the line of source, the first thing to do about it."""
    text = f"{words.clean(finding.slug)}  {words.place(finding.where)}  {words.finding_cost(finding, step_ms)}"
    yield ((f"  {finding.severity:<7} ", SEVERITY_STYLE[finding.severity]), (text, ""))
    source = line_of(sources, finding.where, WIDTH - 12)
    if source:
        yield (("          > ", "dim"), (source, "cyan"))
    if finding.hints:
        yield ((f"          {words.short(finding.hints[0], WIDTH)}", ""),)


def _files(result: Result) -> Iterator[Line]:
    facts = words.file_facts(result.files)
    if not facts:
        return
    yield ()
    yield (("files the script touched", "bold"),)
    yield from (((f"  {fact}", ""),) for fact in facts)


def _verdict(result: Result) -> Iterator[Line]:
    style = KIND_STYLE[result.verdict.kind]
    yield (("verdict: ", "bold"), (words.verdict_words(result.verdict), style))
    yield (("why: ", "bold"), ("; ".join(words.whys(result)), ""))
    yield (("next: ", "bold"), ("; ".join(text.rstrip(".") for text in words.advices(result)), ""))


def _named(name: str, text: str) -> Line:
    return ((f"  {name}: ", "dim"), (text, ""))

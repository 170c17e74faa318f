"""The report for a terminal: about forty lines of plain text that end with verdict, why and next.

The last three lines are for eyes and for ``tail -3`` alike, so each stays one line, however long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from speedproof.model import PHASES, Result, Variant
from speedproof.report import words

# A line is a run of (text, style) pieces: the plain and the coloured report cannot drift apart.
Piece = tuple[str, str]
Line = tuple[Piece, ...]

BAR = 40  # characters for the longest possible phase
VARIANTS_SHOWN = 12
FINDINGS_SHOWN = 5
TRACEBACK_LINES = 12
WIDTH = 110
KIND_STYLE = {
    "worth_it": "bold green",
    "worth_it_after_fix": "bold cyan",
    "not_worth_it": "bold yellow",
    "unsafe": "bold red",
    "inconclusive": "bold magenta",
    "failed": "bold red",
}
SEVERITY_STYLE = {"info": "dim", "warning": "yellow", "error": "red"}
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


def render(result: Result, *, color: bool = False) -> str:
    """Plain text, or the same text with colour codes. Ends with a newline."""
    lines = tuple(_report(result))
    return _coloured(lines) if color else "".join("".join(text for text, _ in line) + "\n" for line in lines)


def _report(result: Result) -> Iterator[Line]:
    yield (("command: ", "bold"), (words.command(result), ""))
    yield from _anatomy(result)
    yield from _failure(result)
    yield from _step(result)
    yield from _variants(result)
    yield from _findings(result)
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


def _findings(result: Result) -> Iterator[Line]:
    if not result.findings:
        return
    yield ()
    yield (("findings", "bold"),)
    for finding in result.findings[:FINDINGS_SHOWN]:
        cost = words.finding_cost(finding)
        text = f"{words.clean(finding.slug)}  {words.place(finding.where)}  {cost}"
        yield ((f"  {finding.severity:<7} ", SEVERITY_STYLE[finding.severity]), (text, ""))
    if len(result.findings) > FINDINGS_SHOWN:
        yield ((f"  and {len(result.findings) - FINDINGS_SHOWN} more", "dim"),)


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


def _coloured(lines: Iterable[Line]) -> str:
    import io

    from rich.console import Console
    from rich.text import Text

    page = io.StringIO()
    # Nothing may depend on where this runs: the caller decides about colour, not the terminal.
    console = Console(
        file=page,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        _environ={},
        width=WIDTH,
    )
    for line in lines:
        # soft_wrap: the terminal wraps, so that the last three lines stay three lines for other programs.
        console.print(Text.assemble(*line, end=""), soft_wrap=True, highlight=False)
    return page.getvalue()

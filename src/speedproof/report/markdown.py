"""The report as a comment on a pull request (GitHub-flavoured Markdown)."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator

from speedproof.analyse.source import Sources
from speedproof.model import PHASES, Finding, Result, Variant
from speedproof.report import words
from speedproof.report.excerpts import line_of
from speedproof.report.tables import kernel_lines, stage_table

FINDINGS_SHOWN = 20
SOURCE_CHARS = 100
TRACEBACK_LINES = 40
# All that can open a construct inside a line: emphasis, code, links, images, tables, math, strike-through.
_ACTIVE = re.compile(r"([\\`*_\[\]|~!$#])")
# GitHub turns these into a mention, a reference or a link even where Markdown has no say.
_LINKED = re.compile(r"(@|#(?=\d)|(?<=[A-Za-z]):(?=//)|(?<=[wW]{3})\.)")
_NO_LINK = "\u200b"  # zero width space: the usual way to keep the text and lose the link


def render(result: Result, *, sources: Sources | None = None) -> str:
    """Verdict first, then the variants, then what else there is; long parts are folded."""
    return "\n".join(_report(result, sources or Sources())) + "\n"


def escape(text: str) -> str:
    """One line of foreign text that Markdown, HTML and GitHub leave alone."""
    safe = html.escape(_ACTIVE.sub(r"\\\1", words.clean(text)), quote=False)
    return _LINKED.sub(rf"\1{_NO_LINK}", safe)


def code(text: str) -> str:
    """The same in a fixed-width font. Not in backticks: those cannot hold every text, least so in a table."""
    return f"<code>{escape(text)}</code>"


def _report(result: Result, sources: Sources) -> Iterator[str]:
    yield f"## speedproof: {escape(words.VERDICTS[result.verdict.kind])}"
    yield ""
    yield f"**Verdict:** {escape(words.verdict_words(result.verdict))}"
    yield ""
    yield f"**Why:** {escape('; '.join(words.whys(result)))}"
    yield ""
    yield f"**Next:** {escape('; '.join(words.advices(result)))}"
    yield from _failure(result)
    yield from _variants(result)
    yield from _findings(result, sources)
    yield from _step(result)
    yield from _kernels(result)
    yield from _stages(result)
    yield from _facts(result)


def _failure(result: Result) -> Iterator[str]:
    if result.failure is None or not result.failure.traceback.strip():
        return
    lines = words.clean(result.failure.traceback.rstrip(), lines=True).split("\n")
    yield from _folded("The script's own traceback", _preformatted(lines[-TRACEBACK_LINES:]))


def _variants(result: Result) -> Iterator[str]:
    yield ""
    if not result.variants:
        yield "No variant was tried."
        return
    head = ("Variant", "Outcome", "Speed-up", "95% interval", "Compile cold / warm", "Break-even")
    rows = (_row(variant, variant.id == result.verdict.best) for variant in result.variants)
    yield from _table((*head, "Peak memory", "Graphs / breaks / recompiles", "Numbers"), "llrrrrrrl", rows)
    reasons = [(v.label or v.id, v.why) for v in result.variants if v.outcome != "completed" and v.why]
    yield "" if reasons else f"\n<sub>{words.DASH}: not known. Break-even in steps.</sub>"
    yield from (f"- {escape(label)}: {escape(words.short(why, 300))}" for label, why in reasons)


def _row(variant: Variant, best: bool) -> tuple[str, ...]:
    cell = words.cells(variant)
    label = f"**{escape(cell.label)}**" if best else escape(cell.label)
    numbers = words.NUMERICS[variant.numerics.status]
    worst = f": {words.short(variant.numerics.worst, 120)}" if variant.numerics.worst else ""
    rest = (cell.outcome, cell.ratio, cell.interval, cell.compile, cell.break_even, cell.memory, cell.counts)
    return (label, *map(escape, rest), escape(numbers + worst))


def _findings(result: Result, sources: Sources) -> Iterator[str]:
    if not result.findings:
        return
    yield from ("", "### Findings", "")
    shown = result.findings[:FINDINGS_SHOWN]
    step_ms = result.baseline.step_ms.mean if result.baseline.step_ms else None
    rows = (_finding(finding, sources, step_ms) for finding in shown)
    yield from _table(("Severity", "Finding", "Where", "Cost", "Why, and what to do"), "lllrl", rows)
    if len(result.findings) > len(shown):
        yield from ("", f"And {len(result.findings) - len(shown)} more.")


def _finding(finding: Finding, sources: Sources, step_ms: float | None) -> tuple[str, ...]:
    told = " ".join(filter(None, (finding.why, *finding.hints)))
    source = line_of(sources, finding.where, SOURCE_CHARS)
    where = code(words.place(finding.where)) + (f": {code(source)}" if source else "")
    cost = escape(words.finding_cost(finding, step_ms))
    return (finding.severity, code(finding.slug), where, cost, escape(words.short(told, 400)))


def _kernels(result: Result) -> Iterator[str]:
    if result.kernels is None:
        return
    head = ("Kernels", "Eager", "Compiled", "Change", "Launches")
    cells = ((k.kind, k.eager, k.compiled, k.change, k.launches) for k in kernel_lines(result.kernels))
    rows = (tuple(map(escape, row)) for row in cells)
    title = f"Kernels of a step, eager and {words.short(result.kernels.arm, 60)}"
    yield from _folded(title, _table(head, "lrrrr", rows))


def _stages(result: Result) -> Iterator[str]:
    stages = stage_table(result.variants, result.verdict.best)
    if stages is None:
        return
    head = ("Stage", *map(escape, stages.head))
    rows = ((escape(name), *map(escape, cells)) for name, cells in stages.rows)
    yield from _folded("What compiling took, by stage", _table(head, "l" + "r" * len(stages.head), rows))


def _step(result: Result) -> Iterator[str]:
    phases = result.baseline.phases or {}
    mean = result.baseline.step_ms
    body = [
        f"Eager step: {words.milliseconds(mean.mean if mean else None)}. "
        f"Ceiling: {escape(words.ceiling(result))}. Noise: {escape(words.noise(result.noise))}.",
        "",
    ]
    if phases:
        names = [name for name in PHASES if name in phases]
        shares = tuple(words.share(phases[name]) for name in names)
        body += _table(tuple(name.capitalize() for name in names), "r" * len(names), [shares])
    yield from _folded("Where a step's time goes", body)


def _facts(result: Result) -> Iterator[str]:
    rows = [("Command", code(words.command(result)))]
    rows += [(escape(name.capitalize()), escape(text)) for name, text in words.anatomy_facts(result.anatomy)]
    rows += [("Files", escape(text)) for text in words.file_facts(result.files)]
    rows += [(escape(name), escape(words.short(v, 200))) for name, v in sorted(result.environment.items())]
    rows += [("Measured", escape(f"{result.started}, {words.duration(result.elapsed_s)}"))]
    yield from _folded("The run", _table(("Fact", "Value"), "ll", rows))


def _table(head: tuple[str, ...], align: str, rows: Iterable[tuple[str, ...]]) -> list[str]:
    rule = ["---:" if side == "r" else ":---" for side in align]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]


def _preformatted(lines: Iterable[str]) -> list[str]:
    """Foreign lines in a raw block, which only an unescaped closing tag could end."""
    return ["<pre>", *(html.escape(line, quote=False) for line in lines), "</pre>"]


def _folded(title: str, body: Iterable[str]) -> list[str]:
    return ["", f"<details><summary>{html.escape(title, quote=False)}</summary>", "", *body, "", "</details>"]

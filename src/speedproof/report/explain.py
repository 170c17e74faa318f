"""Findings at length: where, the source around it, what it costs, why, and what to do. For terminals and for programs.

The pages behind the findings say the same in general; here it is said of one run.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from speedproof import codec
from speedproof.analyse.findings import page_of
from speedproof.analyse.source import Sources
from speedproof.model import Finding
from speedproof.report import words
from speedproof.report.excerpts import excerpt
from speedproof.report.jsonfile import strict
from speedproof.report.pages import doc_of, page_lines
from speedproof.report.pieces import SEVERITY_STYLE, WIDTH, Line, told

_FIX_STYLE = {"+": "green", "-": "red"}


@dataclass(frozen=True)
class Subject:
    """What is explained: a run, or one rank of a trace. ``name`` is its heading."""

    name: str
    findings: tuple[Finding, ...]
    sources: Sources = field(default_factory=Sources)
    step_ms: float | None = None

    def about(self, slug: str | None) -> tuple[Finding, ...]:
        """The findings with this slug, or all."""
        return tuple(f for f in self.findings if slug in (None, f.slug))


def render(subjects: Sequence[Subject], slug: str | None = None, *, color: bool = False) -> str:
    """All findings; with a ``slug`` those of that name, and its page."""
    return told(_report(subjects, slug), color=color)


def render_json(subjects: Iterable[Subject], slug: str | None = None) -> str:
    """One JSON object a line, one for each finding."""
    rows = (_plain(subject, finding) for subject in subjects for finding in subject.about(slug))
    return "".join(json.dumps(strict(row)) + "\n" for row in rows)


def _plain(subject: Subject, finding: Finding) -> dict[str, object]:
    around = subject.sources.excerpt(finding.where)
    return {
        "run": subject.name,
        **codec.to_plain(finding),
        "share": words.part_of(finding.cost_ms, subject.step_ms),
        "excerpt": None if around is None else {"first": around.first, "lines": around.lines},
        "page": doc_of(finding.slug),
    }


def _report(subjects: Sequence[Subject], slug: str | None) -> Iterator[Line]:
    for number, subject in enumerate(subjects):
        if number:
            yield ()
        yield from _subject(subject, slug)
    if slug is None:
        if any(subject.findings for subject in subjects):
            yield ()
            yield (("with a slug behind it, this command shows the page of that finding as well", "dim"),)
        return
    page = page_of(slug)
    if page is not None:
        yield ()
        yield from page_lines(page)


def _subject(subject: Subject, slug: str | None) -> Iterator[Line]:
    found = subject.about(slug)
    what = "findings" if slug is None else words.clean(slug)
    yield ((words.clean(subject.name), "bold"), (f": {_summary(found) or f'no {what} in this run'}", ""))
    for finding in found:
        yield ()
        yield from finding_lines(finding, subject.sources, subject.step_ms)


def _summary(findings: Sequence[Finding]) -> str:
    """How many there are of which severity: 3 findings (1 error, 2 warnings)."""
    if not findings:
        return ""
    nouns = {"error": "error", "warning": "warning", "info": "note"}
    counts = {severity: sum(f.severity == severity for f in findings) for severity in nouns}
    parts = (words.plural(n, nouns[severity]) for severity, n in counts.items() if n)
    return f"{words.plural(len(findings), 'finding')} ({', '.join(parts)})"


def finding_lines(finding: Finding, sources: Sources, step_ms: float | None) -> Iterator[Line]:
    """One finding, all that is known of it."""
    cost = words.finding_cost(finding, step_ms)
    head = (f"{finding.severity:<7} ", SEVERITY_STYLE[finding.severity])
    yield (head, (words.clean(finding.slug), "bold"), (f"  {cost}", ""))
    yield ((f"  {words.full_place(finding.where)}", "cyan"),)
    for line in excerpt(sources, finding.where):
        style = "bold" if line.marked else "dim"
        yield ((f"  {'>' if line.marked else ' '} {line.number:>5} ", "dim"), (f"| {line.text}".rstrip(), style))
    yield from _paragraph("  why: ", finding.why or words.UNKNOWN)
    for number, hint in enumerate(finding.hints, start=1):
        yield from _paragraph(f"  {number}. ", hint)
    yield from _fix(finding.fix)
    page = doc_of(finding.slug)
    more = f"; more: {page}" if page is not None else ""
    yield ((f"  {words.LABELS[finding.label]}{more}", "dim"),)


def _fix(fix: str | None) -> Iterator[Line]:
    if not fix:
        return
    yield (("  fix:", ""),)
    for line in words.clean(fix.rstrip("\n"), lines=True).split("\n"):
        yield ((f"    {line}".rstrip(), _FIX_STYLE.get(line[:1], "")),)


def _paragraph(lead: str, text: str) -> Iterator[Line]:
    """The text, wrapped, its later lines below the first."""
    hang = " " * len(lead)
    for n, line in enumerate(textwrap.wrap(words.clean(text), WIDTH - len(lead), break_on_hyphens=False) or [""]):
        yield ((lead if n == 0 else hang, "dim"), (line, ""))

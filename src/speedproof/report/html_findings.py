"""The findings of the HTML page: each one's texts, and the source that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from speedproof.analyse.source import Sources
from speedproof.model import Finding, Result
from speedproof.report import words
from speedproof.report.excerpts import SourceLine, excerpt

FINDINGS_SHOWN = 50


@dataclass(frozen=True)
class FindingCard:
    """A finding with its texts made."""

    finding: Finding
    place: str
    cost: str
    label: str
    source: tuple[SourceLine, ...]


def finding_cards(result: Result, sources: Sources) -> list[FindingCard]:
    """The first findings, which are the gravest."""
    return list(_cards(result, sources))


def _cards(result: Result, sources: Sources) -> Iterator[FindingCard]:
    step_ms = result.baseline.step_ms.mean if result.baseline.step_ms else None
    for finding in result.findings[:FINDINGS_SHOWN]:
        yield FindingCard(
            finding,
            words.place(finding.where),
            words.finding_cost(finding, step_ms),
            words.LABELS[finding.label],
            excerpt(sources, finding.where),
        )

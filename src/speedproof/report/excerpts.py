"""Lines of the user's source, fit to be shown: cleaned, moved to the left, cut where they are very long."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from speedproof.analyse.source import Sources
from speedproof.model import Place
from speedproof.report import words

LINE_CHARS = 160


@dataclass(frozen=True)
class SourceLine:
    """One line of an excerpt; ``marked`` is the line that the finding is about."""

    number: int
    text: str
    marked: bool


def excerpt(sources: Sources, place: Place | None, around: int = 2) -> tuple[SourceLine, ...]:
    """The line at ``place`` and those around it; empty where the source is not known."""
    found = sources.excerpt(place, around)
    if found is None:
        return ()
    cleaned = "\n".join(words.clean(line, lines=True) for line in found.lines)
    dedented = textwrap.dedent(cleaned).split("\n")
    numbered = enumerate(dedented, start=found.first)
    return tuple(SourceLine(n, _cut(text), n == found.place.line) for n, text in numbered)


def line_of(sources: Sources, place: Place | None, limit: int) -> str:
    """The line at ``place`` alone, in at most ``limit`` characters; empty where the source is not known."""
    return words.short(sources.line(place), limit)


def _cut(text: str) -> str:
    return text if len(text) <= LINE_CHARS else f"{text[: LINE_CHARS - 1]}…"

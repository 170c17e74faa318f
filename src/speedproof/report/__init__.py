"""Reports: a ``Result`` in, text out. Nothing here touches a file, a clock or a process, or imports torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from speedproof.analyse.source import Sources
from speedproof.errors import SpeedproofError
from speedproof.model import Result

# Each format imports its renderer when it is asked for: jinja2 and rich cost more than a whole JSON report.


@dataclass(frozen=True)
class Beside:
    """What a report may use that is not in the result: see ``render``."""

    threshold: float = 0.05
    sources: Sources = field(default_factory=Sources)
    run: str | None = None


def _terminal(result: Result, beside: Beside) -> str:
    from speedproof.report import terminal

    return terminal.render(result, sources=beside.sources, run=beside.run)


def _html(result: Result, beside: Beside) -> str:
    from speedproof.report import html

    return html.render(result, threshold=beside.threshold, sources=beside.sources)


def _markdown(result: Result, beside: Beside) -> str:
    from speedproof.report import markdown

    return markdown.render(result, sources=beside.sources)


def _json(result: Result, beside: Beside) -> str:
    from speedproof.report import jsonfile

    return jsonfile.render(result)


FORMATS: dict[str, Callable[[Result, Beside], str]] = {
    "terminal": _terminal,
    "html": _html,
    "markdown": _markdown,
    "json": _json,
}


def render(
    result: Result, fmt: str, *, threshold: float = 0.05, sources: Sources | None = None, run: str | None = None
) -> str:
    """The result in one of ``FORMATS``.

    ``threshold`` is the gain that charts mark as worth having, ``sources`` are the texts that findings quote, and
    ``run`` is the directory that a report may name for more.

    Raises ``SpeedproofError`` (``unknown-format``).
    """
    try:
        renderer = FORMATS[fmt]
    except KeyError:
        known = ", ".join(FORMATS)
        raise SpeedproofError(
            "unknown-format", f"There is no report format {fmt!r}.", f"Choose one of: {known}."
        ) from None
    return renderer(result, Beside(threshold, sources or Sources(), run))

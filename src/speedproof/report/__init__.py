"""Reports: a ``Result`` in, text out. Nothing here touches a file, a clock or a process, or imports torch."""

from __future__ import annotations

from collections.abc import Callable

from speedproof.errors import SpeedproofError
from speedproof.model import Result

# Each format imports its renderer when it is asked for: jinja2 and rich cost more than a whole JSON report.


def _terminal(result: Result, threshold: float) -> str:
    from speedproof.report import terminal

    return terminal.render(result)


def _html(result: Result, threshold: float) -> str:
    from speedproof.report import html

    return html.render(result, threshold=threshold)


def _markdown(result: Result, threshold: float) -> str:
    from speedproof.report import markdown

    return markdown.render(result)


def _json(result: Result, threshold: float) -> str:
    from speedproof.report import jsonfile

    return jsonfile.render(result)


FORMATS: dict[str, Callable[[Result, float], str]] = {
    "terminal": _terminal,
    "html": _html,
    "markdown": _markdown,
    "json": _json,
}


def render(result: Result, fmt: str, *, threshold: float = 0.05) -> str:
    """The result in one of ``FORMATS``. ``threshold`` is the gain that charts mark as worth having.

    Raises ``SpeedproofError`` (``unknown-format``).
    """
    try:
        renderer = FORMATS[fmt]
    except KeyError:
        known = ", ".join(FORMATS)
        raise SpeedproofError(
            "unknown-format", f"There is no report format {fmt!r}.", f"Choose one of: {known}."
        ) from None
    return renderer(result, threshold)

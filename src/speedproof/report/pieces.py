"""Lines of styled text, plain or in colour: the two cannot drift apart, as both are made from the same pieces."""

from __future__ import annotations

from collections.abc import Iterable

Piece = tuple[str, str]  # text and its style
Line = tuple[Piece, ...]

WIDTH = 110
SEVERITY_STYLE = {"info": "dim", "warning": "yellow", "error": "red"}


def told(lines: Iterable[Line], *, color: bool) -> str:
    """All lines as text, with colour codes or without; each ends with a newline."""
    return _coloured(lines) if color else "".join("".join(text for text, _ in line) + "\n" for line in lines)


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

"""The text that torch writes about one graph break, in the forms it has had from torch 2.5 to 2.14.

What they share: a headline with the place, a reason (since 2.7 with explanation, hints and a page in a registry), the
user's stack, and torch's own traceback, which is of use only where there is no reason. A compiler that failed where
torch can go on without it is told in another form, which begins with ``WON'T CONVERT``.
"""

from __future__ import annotations

import re

from ..model import GraphBreak, Place
from .values import joined, text, user_stack

UNKNOWN = "graph break"
_MOST_REASON = 500
_MOST_EXPLANATION = 2000
_MOST_HINT = 600
_MOST_HINTS = 12
_MOST_TEXT = 64 * 1024

_BREAK_AT = re.compile(r"Graph break in user code at (.{1,1024}):(\d{1,9})$")
_GIVEN_UP = re.compile(r"WON'T CONVERT (.{1,500}?) (\S.{0,1023}) line (\d{1,9})\s*$")
_REASON = re.compile(r"(?:Graph Break )?Reason: (.*)$")
_FRAME = re.compile(r' {0,3}File "(.{1,1024})", line (\d{1,9}), in (.{1,500})$')
_ERROR = re.compile(r"(?:[A-Za-z_]\w{0,100}\.){0,20}([A-Za-z_]\w{0,100}): (.*)$")
_REGISTRY = re.compile(
    r"\s*(?:For more details about this graph break[^:]{0,40}: )?https?://\S*graph-break-site\S*\s*$"
)
_STACK_BEGINS = (
    "User code traceback",
    "User Stack",
    "Graph break: skip: from user code at",
    "The graph break occurred in the following user code",
    "========== The above exception occurred while processing the following code",
)
_PREAMBLE = ("Encountered graph break when", "Encountered graph break that", "Failed to handle graph break gracefully")
_ANOTHER = "*** While handling this graph break, another graph break occurred"
_OUR_OWN = ("Graph break: torch.compile cannot properly resume", "torch.compile will skip tracing the frame", "=====")


def is_raw(payload: str) -> bool:
    """Whether this is the form without a reason, which newer torch follows up with the proper one."""
    return payload.startswith("WON'T CONVERT")


def parse_break(payload: str, outer: tuple[Place, ...] = (), compile_id: str | None = None) -> GraphBreak:
    """One ``dynamo_graph_break_reason`` text; ``outer`` is the stack of the frame being compiled.

    ``reason`` is the type of the break, free of its circumstances where torch says it so. If the break made torch
    give the whole frame up, the explanation of that follows the one of the break itself. Whatever cannot be read is
    left empty; nothing is raised.
    """
    sections = _Sections(payload[:_MOST_TEXT])
    entries = [_Entry(lines) for lines in _split(sections.reason or sections.error())]
    reason = next((e.reason for e in entries if e.reason), UNKNOWN)
    explanation = " ".join(dict.fromkeys(e.explanation for e in entries if e.explanation))
    hints = tuple(dict.fromkeys(hint for e in entries for hint in e.hints))[:_MOST_HINTS]
    stack = _stack(sections, outer)
    return GraphBreak(text(reason, _MOST_REASON), text(explanation, _MOST_EXPLANATION), hints, stack, compile_id)


def first_line(message: str) -> str:
    """The first line of an error or reason that says something, with the next one if it ends in a colon."""
    lines = [line.strip() for line in message[:_MOST_TEXT].splitlines() if line.strip()][:2]
    if len(lines) == 2 and not lines[0].endswith(":"):
        del lines[1]
    return text(" ".join(lines), _MOST_REASON)


def last_error(traceback: str) -> str:
    """``Type: message`` of the last exception in a traceback, first line only; ``""`` if there is none."""
    return first_line("\n".join(_last_error(traceback[-_MOST_TEXT:].splitlines())))


class _Sections:
    """A payload, taken apart: where, the lines of the reason, the user's stack, torch's own traceback."""

    def __init__(self, payload: str) -> None:
        self.at: Place | None = None
        self.reason: list[str] = []
        self.frames: list[tuple[str, int, str]] = []
        self._traceback: list[str] = []
        self._into = self._before
        for line in payload.splitlines():
            self._place(line.rstrip())

    def error(self) -> list[str]:
        """The last exception of torch's traceback; its message is the reason where no other is given."""
        return _last_error(self._traceback)

    def _place(self, line: str) -> None:
        if line.startswith(_STACK_BEGINS):
            self._into = self._stack
        elif line.startswith(("Traceback (most recent call last)", "NoneType: None")):
            self._into = self._own
        elif line.startswith("Graph break in user code at ") and self.at is None:
            found = _BREAK_AT.match(line)
            self.at = Place(text(found[1]), int(found[2]), None) if found else None
        elif line.startswith("WON'T CONVERT ") and self.at is None:
            found = _GIVEN_UP.match(line)
            self.at = Place(text(found[2]), int(found[3]), text(found[1])) if found else None
        elif self._into == self._before and (reason := _REASON.match(line)):
            self._into = self._why
            self.reason.append(reason[1])
        else:
            self._into(line)

    def _before(self, line: str) -> None:
        """Text with no headline at all: take it for the reason."""
        if line.strip() and not line.startswith(_OUR_OWN):
            self._into = self._why
            self.reason.append(line)

    def _why(self, line: str) -> None:
        self.reason.append(line)

    def _stack(self, line: str) -> None:
        if found := _FRAME.match(line):
            self.frames.append((text(found[1]), int(found[2]), text(found[3])))

    def _own(self, line: str) -> None:
        self._traceback.append(line)


class _Entry:
    """Reason, explanation and hints of one break type. Each may go over several lines, which are then indented."""

    def __init__(self, lines: list[str]) -> None:
        self.reason = ""
        self._explanation: list[str] = []
        self._hints: list[list[str]] = []
        self._into: list[str] | None = None
        for line in lines:
            self._take(line)

    @property
    def explanation(self) -> str:
        """Its first paragraph: what follows is the code in question, which the stack shows as well."""
        return _paragraph(self._explanation)

    @property
    def hints(self) -> list[str]:
        found = [text(_paragraph(lines), _MOST_HINT) for lines in self._hints[: 4 * _MOST_HINTS]]
        return [hint for hint in found if hint and not _REGISTRY.match(hint)]

    def _take(self, line: str) -> None:
        bare = line.strip()
        if bare.startswith("Explanation: "):
            self._into = self._explanation
            self._into.append(bare[13:])
        elif bare.startswith("Hint: "):
            self._into = [bare[6:]]
            self._hints.append(self._into)
        elif bare.startswith(
            ("Developer debug context:", "For more details about", "Stack variable source attribution")
        ):
            self._into = []
        elif self._into is not None:
            self._into.append(bare)
        elif bare and not self.reason and not bare.startswith(_PREAMBLE):
            self.reason = _plain(bare)


def _split(lines: list[str]) -> list[list[str]]:
    """One list of lines for each break, where torch tells of a second one that the handling of the first met."""
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.startswith(_ANOTHER):
            parts.append([])
        else:
            parts[-1].append(line)
    return parts[:8]


def _paragraph(lines: list[str]) -> str:
    kept: list[str] = []
    for line in lines:
        if not line and kept:
            break
        kept.append(line)
    return " ".join(" ".join(kept).split())


def _plain(reason: str) -> str:
    """Before 2.7: ``Unsupported: 'inline in skipfiles: ...'``."""
    bare = reason.removeprefix("Unsupported: ")
    return bare[1:-1] if len(bare) > 2 and bare[0] == bare[-1] == "'" else bare


def _last_error(lines: list[str]) -> list[str]:
    """The lines of the last exception's message, its type in front unless that only says ``Unsupported``."""
    begun = [i for i, line in enumerate(lines) if _ERROR.match(line)]
    # Messages have lines of this form too; an exception's own is the first one after a frame, which is indented.
    own = [i for i in begun if i == 0 or lines[i - 1].startswith("  ")] or begun
    if not own:
        return []
    head = _ERROR.match(lines[own[-1]])
    named = f"{head[1]}: {head[2]}" if head else lines[own[-1]]
    return [named, *lines[own[-1] + 1 :]]


def _stack(sections: _Sections, outer: tuple[Place, ...]) -> tuple[Place, ...]:
    at, told = sections.at, user_stack(sections.frames)
    if at is None or any((p.file, p.line) == (at.file, at.line) for p in told):
        return joined(outer, told)
    # Where the frame broke before its first line, the place stands in the headline alone.
    frame = outer[-1] if outer and outer[-1].file == at.file else None
    name = at.function or (frame.function if frame and frame.line == at.line else None)
    inner = Place(at.file, at.line, name)
    if told:
        return (*told, inner)
    return (*outer[:-1], inner) if frame and name in (None, frame.function) else (*outer, inner)

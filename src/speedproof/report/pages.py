"""The page of a finding: the docstring of its file, as the docs print it and as a terminal can."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType

from speedproof.analyse.findings import page_of
from speedproof.report import words
from speedproof.report.pieces import Line

FOLDER = "docs/findings"
TEXT_WIDTH = 96
_ITEM = re.compile(r"(\s*)([-*]|\d+\.)\s+")


def text_of(page: ModuleType) -> str:
    """The whole page, in Markdown."""
    return inspect.cleandoc(page.__doc__ or "")


def title_of(page: ModuleType) -> str:
    """The first line, which is the title."""
    return text_of(page).partition("\n")[0].strip().rstrip(".")


def body_of(page: ModuleType) -> str:
    """What follows the title."""
    return text_of(page).partition("\n")[2].strip("\n")


def file_name(page: ModuleType) -> str:
    """The name of the page's file in ``docs/findings``."""
    return page.__name__.rpartition(".")[2].replace("_", "-") + ".md"


def doc_of(slug: str) -> str | None:
    """Where the docs explain a slug; ``None`` where they do not."""
    page = page_of(slug)
    return f"{FOLDER}/{file_name(page)}" if page is not None else None


def page_lines(page: ModuleType) -> Iterator[Line]:
    """The page for a terminal: headings stand out, paragraphs and lists are wrapped, code stays as it is."""
    yield ((words.clean(title_of(page)), "bold underline"),)
    yield ()
    yield from _lines(body_of(page))


def _lines(markdown: str) -> Iterator[Line]:
    paragraph: list[str] = []
    in_code = False
    for raw in markdown.split("\n"):
        line = words.clean(raw, lines=True).rstrip()
        fence = line.lstrip().startswith("```")
        apart = fence or in_code or not line or line.startswith(("#", "|")) or (line[:4].isspace() and not paragraph)
        if apart or _ITEM.match(line):
            yield from _wrapped(paragraph)
            paragraph = [] if apart else [line]
        else:
            paragraph.append(line)
        if fence:
            in_code = not in_code
        elif apart:
            yield _alone(line, in_code)
    yield from _wrapped(paragraph)


def _alone(line: str, in_code: bool) -> Line:
    """A line that is not part of a paragraph: of code, a heading, a row of a table, or empty."""
    if in_code or line[:4].isspace():
        return ((f"    {line}".rstrip() if in_code else line, "cyan"),)
    if line.startswith("#"):
        return ((line.lstrip("#").strip(), "bold"),)
    return ((line, ""),) if line else ()


def _wrapped(paragraph: list[str]) -> Iterator[Line]:
    if not paragraph:
        return
    item = _ITEM.match(paragraph[0])
    hang = " " * (item.end() if item else 0)
    whole = (
        " ".join([paragraph[0].rstrip(), *(line.strip() for line in paragraph[1:])])
        .replace("**", "")
        .replace("``", "`")
    )
    lines = textwrap.wrap(
        whole, TEXT_WIDTH, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False, tabsize=4
    )
    inside = False
    for line in lines:
        pieces = []
        for n, text in enumerate(line.split("`")):
            inside = inside != (n > 0)
            pieces.append((f"`{text}" if n else text, "cyan" if inside else ""))
        yield tuple(pieces)

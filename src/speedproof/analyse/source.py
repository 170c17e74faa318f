"""The user's source as text and syntax tree, as it was when the run was made. Pure: the store reads the files."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..model import Place

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Excerpt:
    """Lines of source around a place. ``first`` is the number of the first line."""

    place: Place
    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class ClassSource:
    """A class of the user's, by name and the names of its bases as written."""

    name: str
    bases: tuple[str, ...]


@dataclass(frozen=True)
class Sources:
    """Source texts by absolute path. Files that do not parse have lines but no tree."""

    texts: Mapping[str, str] = field(default_factory=dict)
    _trees: dict[str, ast.Module | None] = field(default_factory=dict, compare=False, repr=False)

    def line(self, place: Place | None) -> str:
        """The source line, stripped; empty where it is not known."""
        if place is None:
            return ""
        lines = self.texts.get(place.file, "").splitlines()
        return lines[place.line - 1].strip() if 0 < place.line <= len(lines) else ""

    def excerpt(self, place: Place | None, around: int = 2) -> Excerpt | None:
        """The line and ``around`` lines on each side of it."""
        if place is None:
            return None
        lines = self.texts.get(place.file, "").splitlines()
        if not 0 < place.line <= len(lines):
            return None
        first = max(1, place.line - around)
        return Excerpt(place, first, tuple(lines[first - 1 : place.line + around]))

    def tree(self, file: str) -> ast.Module | None:
        """The syntax tree of a file, parsed once; ``None`` where there is no text or it does not parse."""
        if file not in self._trees:
            try:
                self._trees[file] = ast.parse(self.texts[file]) if file in self.texts else None
            except (SyntaxError, ValueError, RecursionError):
                self._trees[file] = None
        return self._trees[file]

    def walk(self, file: str) -> Iterator[ast.AST]:
        """Every node of a file."""
        tree = self.tree(file)
        return ast.walk(tree) if tree is not None else iter(())

    def function_at(self, place: Place) -> Function | None:
        """The innermost function whose lines contain the place."""
        around = [
            n
            for n in self.walk(place.file)
            if isinstance(n, Function) and n.lineno <= place.line <= (n.end_lineno or n.lineno)
        ]
        return max(around, key=lambda n: n.lineno, default=None)

    def statement_at(self, place: Place) -> ast.stmt | None:
        """The innermost simple statement, or the head of the compound one, that covers the line."""
        around = [
            n
            for n in self.walk(place.file)
            if isinstance(n, ast.stmt) and n.lineno <= place.line <= (n.end_lineno or n.lineno)
        ]
        return max(around, key=lambda n: (n.lineno, -(n.end_lineno or n.lineno)), default=None)

    def class_at(self, place: Place) -> ClassSource | None:
        """The innermost class whose lines contain the place."""
        around = [
            n
            for n in self.walk(place.file)
            if isinstance(n, ast.ClassDef) and n.lineno <= place.line <= (n.end_lineno or n.lineno)
        ]
        node = max(around, key=lambda n: n.lineno, default=None)
        return None if node is None else ClassSource(node.name, tuple(ast.unparse(b) for b in node.bases))

"""What stands in the compiler's way: one file a finding, whose docstring is its page in the docs.

A finding's file has a ``SLUG`` (or ``SLUGS``), and ``find(evidence)``, which yields findings. Its docstring's first
line is the title of the page.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from types import ModuleType

from ...model import Finding
from ..evidence import Evidence

_RANK = {"error": 0, "warning": 1, "info": 2}


@cache
def pages() -> tuple[ModuleType, ...]:
    """The module of every finding there is, by name."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__))
    return tuple(import_module(f"{__name__}.{name}") for name in names)


def slugs_of(page: ModuleType) -> tuple[str, ...]:
    """The slugs that a finding's file may use."""
    return tuple(getattr(page, "SLUGS", ())) or (page.SLUG,)


def page_of(slug: str) -> ModuleType | None:
    """The file that explains a slug."""
    return next((p for p in pages() if slug in slugs_of(p)), None)


def find_all(evidence: Evidence) -> tuple[Finding, ...]:
    """Every finding: errors before warnings before notes, the dearest first."""
    return tuple(sorted(_found(evidence), key=_order))


def _found(evidence: Evidence) -> Iterable[Finding]:
    for page in pages():
        yield from page.find(evidence)


def _order(finding: Finding) -> tuple[int, float, str, int]:
    where = (finding.where.file, finding.where.line) if finding.where is not None else ("", 0)
    return (_RANK[finding.severity], -(finding.cost_ms or 0.0), *where)

"""Do something when a module has been imported, whoever imports it and whenever.

The script decides when torch is imported, since what it sets in ``os.environ`` before counts. A finder that
fires on ``find_spec`` alone is wrong: transformers asks for torch's spec without importing it (design, fact 25).
So the spec's loader is wrapped, and the action follows ``exec_module``.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], None]


class Arrivals(importlib.abc.MetaPathFinder):
    """A meta path finder that runs an action once after each named module has been executed."""

    def __init__(self, actions: dict[str, Action]) -> None:
        self._actions = actions
        self._busy: set[str] = set()

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._actions or fullname in self._busy:
            return None
        self._busy.add(fullname)
        try:
            spec = self._from_the_others(fullname, path, target)
        finally:
            self._busy.discard(fullname)
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader, fullname)
        return spec

    def _from_the_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    return spec
        return None

    def _follow(self, loader: Any, fullname: str) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            action = self._actions.pop(fullname, None)
            if action is not None:
                action(module)

        loader.exec_module = exec_module

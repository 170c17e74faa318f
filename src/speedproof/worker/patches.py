"""Replace attributes of torch and the standard library for a while, and put everything back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Patches:
    """Replacements of this pass, undone in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, new: Any) -> None:
        """``owner.name`` is ``new`` until ``undo``; an inherited attribute is inherited again afterwards."""
        inherited = name not in vars(owner)
        old = getattr(owner, name) if inherited else vars(owner)[name]
        setattr(owner, name, new)
        restore = functools.partial(delattr, owner, name)
        self._undo.append(restore if inherited else functools.partial(setattr, owner, name, old))

    def then(self, action: Callable[[], None]) -> None:
        """Run ``action`` when the patches are undone."""
        self._undo.append(action)

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()

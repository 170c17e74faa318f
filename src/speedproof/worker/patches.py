"""Replace attributes of torch and the standard library for a while, and put everything back."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any


def stand_in(function: Any, plain: Any) -> Any:
    """Let ``function`` pass as code of the file that ``plain`` is from.

    Dynamo goes by file names: a stand-in for a function of torch's that it skips has to be skipped, too, or the
    script would be compiled differently for being watched.
    """
    if isinstance(function, types.FunctionType):
        code = getattr(plain, "__code__", None)
        file = code.co_filename if code is not None else functools.__file__
        function.__code__ = function.__code__.replace(co_filename=file)
    return function


class Patches:
    """Replacements of this pass, undone in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, new: Any) -> None:
        """``owner.name`` is ``new`` until ``undo``; an inherited attribute is inherited again afterwards."""
        inherited = name not in vars(owner)
        old = getattr(owner, name) if inherited else vars(owner)[name]
        setattr(owner, name, stand_in(new, old))
        restore = functools.partial(delattr, owner, name)
        self._undo.append(restore if inherited else functools.partial(setattr, owner, name, old))

    def then(self, action: Callable[[], None]) -> None:
        """Run ``action`` when the patches are undone."""
        self._undo.append(action)

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()

"""Whose line is it: the user's own code, or a library's?"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from types import FrameType

from ..model import Place


def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {os.path.realpath(p) for p in (sysconfig.get_path(n) for n in names) if p}
    folders |= {os.path.dirname(os.path.dirname(os.path.realpath(__file__)))}
    return tuple(folder + os.sep for folder in folders)


LIBRARIES = _library_folders()


@functools.lru_cache(maxsize=4096)
def is_user_file(path: str) -> bool:
    """False for the standard library, installed packages, torch itself, generated code, and speedproof."""
    if path.startswith("<") or "/site-packages/" in path or "/dist-packages/" in path:
        return False
    return not os.path.realpath(path).startswith(LIBRARIES)


def user_place(frame: FrameType | None = None) -> Place | None:
    """The innermost line of the user's own code on the stack of ``frame`` (default: the caller)."""
    current = frame or sys._getframe(1)
    while current is not None:
        code = current.f_code
        if is_user_file(code.co_filename):
            return Place(os.path.abspath(code.co_filename), current.f_lineno, code.co_name)
        current = current.f_back  # type: ignore[assignment]
    return None


def place_of_error(error: BaseException | None) -> Place | None:
    """The innermost line of the user's own code that ``error`` passed through."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Place(error.filename, error.lineno, None)
    place, trace = None, error.__traceback__ if error is not None else None
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_user_file(code.co_filename):
            place = Place(os.path.abspath(code.co_filename), trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return place

"""Values out of records that nobody vouches for: each takes anything, and answers with what can be relied on."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..model import Place

MOST_FRAMES = 64
MOST_NAME = 1024
_LARGEST = 2**53  # what JSON readers elsewhere still take for an exact number
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.{1,500})_at_\d+$")
_DYNAMO_ITSELF = ("torch/_dynamo/eval_frame.py", "torch\\_dynamo\\eval_frame.py")


def text(value: object, most: int = MOST_NAME) -> str:
    """``value`` if it is a string, else ``""``; at most ``most`` characters, and always encodable as UTF-8."""
    if not isinstance(value, str):
        return ""
    cut = str(value[:most])
    return cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")


def whole(value: object) -> int | None:
    """``value`` if it is an integer of a size that numbers in traces have, else ``None``."""
    return value if type(value) is int and -_LARGEST < value < _LARGEST else None


def number(value: object) -> float | None:
    """``value`` as a float if it is a finite number and not negative, else ``None``."""
    if type(value) is int:
        value = float(value) if 0 <= value < _LARGEST else None
    return value if isinstance(value, float) and math.isfinite(value) and value >= 0 else None


def mapping(value: object) -> Mapping[str, Any]:
    """``value`` if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """``value`` as a list if it is a list or tuple, else an empty one."""
    return list(value) if isinstance(value, (list, tuple)) else []


def parsed(data: str | bytes) -> object:
    """JSON, or ``None`` where it is none (or is nested beyond all reason)."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def place(file: str, line: int, name: str) -> Place:
    """A place whose function has the name it has in the source, not the one Dynamo gave to its second half."""
    resumed = _RESUMED.match(name)
    return Place(file, line, (resumed[1] if resumed else name) or None)


def user_stack(frames: Iterable[tuple[str, int, str]]) -> tuple[Place, ...]:
    """Places from ``(file, line, function)``, innermost last, at most the ``MOST_FRAMES`` innermost.

    After a break, Dynamo runs the rest of a function as a function of its own, called from the first part. Here they
    are one again. Dynamo's own frames are left out.
    """
    found: list[Place] = []
    for file, line, name in frames:
        if file.endswith(_DYNAMO_ITSELF):
            continue
        here = place(file, line, name)
        if found and here.function != name and _same_function(found[-1], here):
            found[-1] = here
        else:
            found.append(here)
    return tuple(found[-MOST_FRAMES:])


def joined(outer: tuple[Place, ...], inner: tuple[Place, ...]) -> tuple[Place, ...]:
    """``inner`` with the callers that ``outer`` knows; older torch begins a break's stack at the compiled frame."""
    if outer and inner and _same_function(outer[-1], inner[0]):
        return (*outer[:-1], *inner)[-MOST_FRAMES:]
    return inner or outer


def _same_function(one: Place, other: Place) -> bool:
    return one.file == other.file and one.function == other.function

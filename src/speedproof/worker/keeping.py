"""Tensors that keep their graph, and so the memory of whole steps, alive: a list of losses, a sum of losses."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from ..model import Place
from .places import is_user_file

_MOST = 5000  # entries of a list, and additions of a chain, that are looked at


@dataclass(frozen=True)
class Kept:
    """A name of the user's that holds losses with their graphs. ``how``: list or sum."""

    place: Place
    name: str
    how: str
    count: int


def kept_graphs() -> dict[tuple[str, str], Kept]:
    """Every name in the user's frames, and every attribute of their ``self``, that holds losses with a graph."""
    found = {}
    for frame in _user_frames(sys._getframe(1)):
        place = Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        for name, value in _names(frame):
            count, how = _kept(value)
            if count:
                found[(place.file, name)] = Kept(place, name, how, count)
    return found


def grown(before: dict[tuple[str, str], Kept], after: dict[tuple[str, str], Kept], steps: int) -> Iterator[Kept]:
    """Those that grew with every step. A sum of many terms within one step does not."""
    for key, kept in after.items():
        had = before[key].count if key in before else 0
        if steps > 1 and kept.count - had >= steps:
            yield kept


def _names(frame: FrameType) -> Iterator[tuple[str, Any]]:
    yield from list(frame.f_locals.items())
    owner = frame.f_locals.get("self")
    if owner is not None and not isinstance(owner, torch.nn.Module):
        for name, value in list(getattr(owner, "__dict__", {}).items()):
            yield f"self.{name}", value


def _kept(value: Any) -> tuple[int, str]:
    if type(value) is list and len(value) <= _MOST:
        return sum(_has_graph(v) and v.numel() == 1 for v in value), "list"
    if _has_graph(value) and value.numel() == 1:
        return _chain(value), "sum"
    return 0, ""


def _has_graph(value: Any) -> bool:
    return type(value) is torch.Tensor and value.grad_fn is not None


def _chain(total: torch.Tensor) -> int:
    """How many additions hang on one another before ``total``: ``total = total + loss``, step after step."""
    node, length = total.grad_fn, 0
    while node is not None and node.name().startswith("AddBackward") and length < _MOST:
        length += 1
        node = next((n for n, _ in node.next_functions if n is not None and n.name().startswith("AddBackward")), None)
    return length


def _user_frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back

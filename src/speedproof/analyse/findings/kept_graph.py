"""Losses are kept with their graphs

`losses.append(loss)` and `total += loss` keep the graph of every step alive, and with it the tensors that its
backward pass
saved.

## What it means

Memory grows with each step until it runs out. With compiled code the saved tensors are larger pieces.

## How it is found

After the eager steps that are looked at, lists of losses and chains of additions that grew with every step are
searched for in
your variables.

## What to do

- `losses.append(loss.detach())`, or `loss.item()` outside the hot path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding, Place
from ..evidence import Evidence

SLUG = "kept-graph"
HINTS = ("append or add loss.detach() instead of loss",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each variable that grows."""
    for seen in evidence.sighted("kept_graph"):
        name, how = seen.detail.get("name", "a variable"), seen.detail.get("how")
        where = _line(evidence, seen.where, name, how == "list") or seen.where
        what = "collects losses with their graphs" if how == "list" else "adds up losses with their graphs"
        why = f"{name} {what}: {seen.count} of them after a few steps, one more with each."
        line = evidence.sources.line(where)
        fix = re.sub(r"\.append\((\w+)\)", r".append(\1.detach())", line) if how == "list" else None
        yield Finding(SLUG, "warning", where, seen.count, None, why, HINTS, "user_code", fix if fix != line else None)


def _line(evidence: Evidence, place: Place | None, name: str, is_list: bool) -> Place | None:
    if place is None:
        return None
    last = re.escape(name)
    pattern = last + r"\.(?:append|extend)\(" if is_list else rf"{last}\s*(?:\+=|=\s*{last}\s*\+)"
    for number, text in enumerate(evidence.sources.texts.get(place.file, "").splitlines(), 1):
        if re.search(pattern, text):
            return Place(place.file, number, place.function)
    return None

"""The verdict file: the form that scripts rely on (``schema_version`` 1)."""

from __future__ import annotations

import dataclasses
import math

from speedproof import codec
from speedproof.model import PHASES, Result


def render(result: Result) -> str:
    """The result as strict JSON: phases are shares that sum to 1, and an unknown figure is null."""
    baseline = dataclasses.replace(result.baseline, phases=_shares(result.baseline.phases))
    return codec.dumps(strict(codec.to_plain(dataclasses.replace(result, baseline=baseline))))


def _shares(phases: dict[str, float] | None) -> dict[str, float] | None:
    """All the phases of the contract, scaled to sum to 1; what has another name goes to ``other``."""
    known = {name: max(value, 0.0) for name, value in (phases or {}).items() if math.isfinite(value)}
    total = sum(known.values())
    if not 0 < total < math.inf:
        return None
    named = {name: known.pop(name, 0.0) for name in PHASES}
    named["other"] += sum(known.values())
    return {name: value / total for name, value in named.items()}


def strict(plain: object) -> object:
    """The same with null for what is no number: NaN and Infinity are not JSON, and other readers refuse them."""
    if isinstance(plain, dict):
        return {key: strict(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [strict(value) for value in plain]
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain

"""The anatomy of a script: what its loop is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RootRole = Literal["network", "loss", "transform", "evaluation"]
BoundaryKind = Literal["optimizer", "backward", "loader", "call"]


@dataclass(frozen=True)
class Place:
    """A line of source."""

    file: str
    line: int
    function: str | None = None


@dataclass(frozen=True)
class CallMode:
    """The switches of a module call that compile guards on: train or eval, gradients on or off."""

    training: bool
    grad: bool


@dataclass(frozen=True)
class Root:
    """A top-level module that the loop calls. ``index`` is the order of first calls, the same in each session."""

    index: int
    name: str
    role: RootRole
    parameters: int
    calls_per_step: float
    modes: tuple[CallMode, ...]
    device: str
    where: Place | None
    target: bool
    shapes_seen: int = 1


@dataclass(frozen=True)
class Boundary:
    """What ends a step: the ``index``-th optimizer, loader or callable, ``every`` so many of its events."""

    kind: BoundaryKind
    index: int
    every: int = 1
    label: str = ""


@dataclass(frozen=True)
class OptimizerFact:
    """An optimizer of the loop. ``steps`` are those seen so far, ``parameters`` counts scalars."""

    name: str
    steps: int
    parameters: int
    foreach_or_fused: bool
    closure_calls: int = 0
    where: Place | None = None


@dataclass(frozen=True)
class LoaderFact:
    """A ``DataLoader`` of the loop, with the settings that decide whether data is the bottleneck.

    ``where`` is the line that made it.
    """

    dataset: str
    batch_size: int | None
    workers: int
    pin_memory: bool
    drop_last: bool | None
    batches: int | None
    prefetch: int = 2
    where: Place | None = None
    persistent: bool = False


@dataclass(frozen=True)
class SiteFact:
    """A place where the script itself asks for compilation. ``how``: call, decorator or method."""

    index: int
    name: str
    how: str
    where: Place | None
    options: dict[str, str]
    calls: int = 0


@dataclass(frozen=True)
class Anatomy:
    """What the loop of a script is made of, as seen in its first steps in eager mode."""

    kind: Literal["training", "inference"]
    boundary: Boundary
    roots: tuple[Root, ...]
    optimizers: tuple[OptimizerFact, ...]
    loaders: tuple[LoaderFact, ...]
    sites: tuple[SiteFact, ...]
    backwards_per_step: float
    evaluation_calls: int
    device: str
    steps_seen: int
    step_s: float
    notes: tuple[str, ...] = ()

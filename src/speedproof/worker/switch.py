"""The switch: the one mechanism that trials, confirmation and autopilot share.

A ``Front`` stands in a root module's slot and chooses, call by call, between eager and compiled. The eager path
goes through it too, so both sides of a comparison pay the same few hundred nanoseconds.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..model import Arm, ArmConfig, CallMode, Place
from . import compat
from .observe import Entry, Observer
from .places import place_of_error, user_place
from .sites import Site, Sites
from .watch import SeenRoot, Watch


@dataclass
class Counts:
    """What went through the switch since the last step boundary."""

    calls: int = 0
    foreign: int = 0
    elements: int = 0

    def clear(self) -> None:
        self.calls = self.foreign = self.elements = 0


@dataclass(frozen=True)
class Failure:
    """A compiled call raised where the eager one did not."""

    kind: str
    message: str
    traceback: str
    where: Place | None
    out_of_memory: bool


@dataclass
class Front:
    """One root module behind the switch."""

    root: SeenRoot
    module: torch.nn.Module
    modes: tuple[CallMode, ...]
    eager: Callable[..., Any]
    before: Any
    counted: bool
    compiled: Callable[..., Any] | None = None


@dataclass
class Switchboard:
    """All fronts of the loop, and which side runs. ``on`` is the arm's side."""

    watch: Watch
    sites: Sites
    counts: Counts = field(default_factory=Counts)
    fronts: list[Front] = field(default_factory=list)
    on: bool = False
    failure: Failure | None = None
    boundary_root: int | None = None
    boundary_site: int | None = None

    # --- fronts ----------------------------------------------------------------------------------------

    def put_in_front_of(self, root: SeenRoot, modes: tuple[CallMode, ...], counted: bool) -> None:
        module = root.ref()
        if module is None:
            return
        front = Front(root, module, modes, compat.eager_call(module), compat.slot_of(module), counted)
        self.fronts.append(front)
        compat.fill_slot(module, self._choosing(front))

    def _choosing(self, front: Front) -> Callable[..., Any]:
        eager, module, modes, counts = front.eager, front.module, front.modes, self.counts
        index, board = front.root.index, self

        def choose(*args: Any, **kwargs: Any) -> Any:
            if compat.is_compiling():
                return eager(*args, **kwargs)
            if board.boundary_root == index:
                board.watch.notice("call", index)
            mode = CallMode(module.training, torch.is_grad_enabled())
            if mode not in modes:
                counts.foreign += 1
                return eager(*args, **kwargs)
            if front.counted:
                counts.calls += 1
                counts.elements += _elements(args, kwargs)
            if not board.on or front.compiled is None:
                return eager(*args, **kwargs)
            return board._attempt(front.compiled, eager, args, kwargs)

        return choose

    def _attempt(
        self,
        compiled: Callable[..., Any],
        eager: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """The compiled call; where it raises and eager does not, the arm has failed and the loop goes on."""
        if self.failure is not None:
            return eager(*args, **kwargs)
        try:
            return compiled(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the border to the user's script: anything may come
            result = eager(*args, **kwargs)  # the script's own error passes through here
            self.failure = failure_of(error)
            return result

    # --- arms ------------------------------------------------------------------------------------------

    def load(self, arm: Arm) -> None:
        """Get ``arm`` ready; nothing compiles before its first call."""
        self.failure = None
        self.on = False
        if arm.kind == "compile":
            for front in self.fronts:
                if front.counted:
                    call = compat.compilable_call(front.module)
                    front.compiled = self.sites.compile(call, **compile_arguments(arm.config))
            if not any(f.counted for f in self.fronts):
                self.sites.chosen = self._choose_recompiled(arm)
        elif arm.kind == "as_written":
            self._lift_fronts()
            self.sites.chosen = self._choose_as_written
        elif not any(f.counted for f in self.fronts):
            self.sites.chosen = self._choose_eager

    def compile_all(self, observer: Observer) -> None:
        """For the diagnosis pass: every call of the targets goes through the observer, in whatever mode."""
        for front in self.fronts:
            if front.counted:
                entry = observer.compile(front.eager, front.root.name, front.module)
                compat.fill_slot(front.module, self._observed(front, observer, entry))

    def _observed(self, front: Front, observer: Observer, entry: Entry) -> Callable[..., Any]:
        board, counts, index, module = self, self.counts, front.root.index, front.module

        def call(*args: Any, **kwargs: Any) -> Any:
            if compat.is_compiling():
                return front.eager(*args, **kwargs)
            if board.boundary_root == index:
                board.watch.notice("call", index)
            if CallMode(module.training, torch.is_grad_enabled()) in front.modes:
                counts.calls += 1
            else:
                counts.foreign += 1
            return observer.run(entry, args, kwargs)

        return call

    def unload(self) -> None:
        self.on = False
        self.sites.chosen = None
        for front in self.fronts:
            front.compiled = None
            if compat.slot_of(front.module) is front.before:
                compat.fill_slot(front.module, self._choosing(front))

    def _lift_fronts(self) -> None:
        """What the script compiles itself must meet its modules as it left them."""
        theirs = {id(site.module) for site in self.sites.found if site.module is not None}
        for front in self.fronts:
            if id(front.module) in theirs:
                compat.fill_slot(front.module, front.before)

    def _choose_as_written(
        self, site: Site, written: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self._count_site(site, args, kwargs)
        if not self.on:
            return site.eager(*args, **kwargs)
        return self._attempt(written, site.eager, args, kwargs)

    def _choose_recompiled(self, arm: Arm) -> Callable[..., Any]:
        """A loop without networks of its own: the functions that the script compiles are the arm's targets."""
        compiled: dict[int, Callable[..., Any]] = {}

        def choose(site: Site, written: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._count_site(site, args, kwargs)
            if not self.on:
                return site.eager(*args, **kwargs)
            if site.index not in compiled:
                compiled[site.index] = self.sites.compile(site.eager, **compile_arguments(arm.config))
            return self._attempt(compiled[site.index], site.eager, args, kwargs)

        return choose

    def _choose_eager(
        self, site: Site, written: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self._count_site(site, args, kwargs)
        return site.eager(*args, **kwargs)

    def _count_site(self, site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        front = next((f for f in self.fronts if f.module is site.module), None)
        lifted = front is not None and compat.slot_of(front.module) is front.before
        if lifted and front is not None and front.root.index == self.boundary_root:
            self.watch.notice("call", front.root.index)  # nobody else tells the watch
        mode = CallMode(site.module.training, torch.is_grad_enabled()) if site.module is not None else None
        if front is not None and mode not in front.modes:
            self.counts.foreign += 1
        else:
            self.counts.calls += 1
            self.counts.elements += _elements(args, kwargs)


def compile_arguments(config: ArmConfig) -> dict[str, Any]:
    """The keyword arguments of ``torch.compile``. Mode and options exclude each other there."""
    arguments: dict[str, Any] = {}
    if config.mode is not None and config.mode != "default":
        arguments["mode"] = config.mode
    if config.backend is not None:
        arguments["backend"] = config.backend
    if config.dynamic is not None:
        arguments["dynamic"] = config.dynamic
    if config.fullgraph:
        arguments["fullgraph"] = True
    if config.options:
        arguments["options"] = dict(config.options)
    return arguments


def failure_of(error: BaseException) -> Failure:
    """What a failed compiled call tells, cut to a size that fits an event line."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Failure(
        kind=type(error).__name__,
        message=str(error)[:2000],
        traceback=text[-8000:],
        where=place_of_error(error) or user_place(),
        out_of_memory=is_out_of_memory(error),
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, also where a compiler wrapped the error in its own."""
    inner = getattr(error, "inner_exception", None) or error.__cause__
    if inner is not None and inner is not error and is_out_of_memory(inner):
        return True
    if isinstance(error, MemoryError) or type(error).__name__ in ("OutOfMemoryError", "CUDAOutOfMemoryError"):
        return True
    text = str(error)
    return "out of memory" in text or "can't allocate memory" in text


def _elements(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """How much data a call gets: the elements of its tensors, lists and dicts one deep."""
    total = 0
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, torch.Tensor):
            total += value.numel()
        elif isinstance(value, (list, tuple)):
            total += sum(v.numel() for v in value if isinstance(v, torch.Tensor))
        elif isinstance(value, dict):
            total += sum(v.numel() for v in value.values() if isinstance(v, torch.Tensor))
    return total

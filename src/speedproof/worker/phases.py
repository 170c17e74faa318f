"""Where the time of an eager step goes: a stop watch that is always on exactly one phase.

A pass of its own, a dozen steps long, since on an accelerator it synchronises at each change of phase. What the
loop does between the network's return and the backward pass is the loss, whether or not it is a module.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..model import PHASES, RootRole
from . import compat
from .device import Device
from .patches import Patches
from .sites import Site
from .watch import Watch


class PhaseClock:
    """``start`` it at a step boundary; ``lap`` returns the exclusive nanoseconds of each phase."""

    def __init__(self, watch: Watch, device: Device, roles: dict[int, RootRole], sites: Sequence[Site] = ()) -> None:
        self._watch, self._device, self._roles = watch, device, roles
        self._sites = sites
        self._totals = dict.fromkeys(PHASES, 0)
        self._stack: list[str] = []
        self._ground = "other"
        self._since = 0
        self._patches = Patches()

    def start(self) -> None:
        self._totals = dict.fromkeys(PHASES, 0)
        self._stack, self._ground = [], "other"
        self._hook()
        self._device.synchronize()
        self._since = time.perf_counter_ns()

    def lap(self) -> dict[str, int]:
        """What has been booked since the last lap. A boundary may lie inside a call, so the watch runs on."""
        self._book()
        totals, self._totals = self._totals, dict.fromkeys(PHASES, 0)
        return totals

    def stop(self) -> None:
        """Take every hook away."""
        self._patches.undo()

    # --- the stop watch --------------------------------------------------------------------------------

    def _book(self) -> None:
        self._device.synchronize()
        now = time.perf_counter_ns()
        self._totals[self._stack[-1] if self._stack else self._ground] += now - self._since
        self._since = now

    def enter(self, phase: str) -> None:
        self._book()
        self._stack.append(phase)
        if phase != "transfer" and len(self._stack) == 1:
            self._ground = "other"

    def leave(self, ground: str = "other") -> None:
        self._book()
        if self._stack:
            self._stack.pop()
        if not self._stack and self._ground != "loss":
            self._ground = ground

    def within(self, phase: str, plain: Callable[..., Any], ground: str = "other") -> Callable[..., Any]:
        """``plain``, its time booked to ``phase``; what follows it, to ``ground``."""

        @functools.wraps(plain)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self.enter(phase)
            try:
                return plain(*args, **kwargs)
            finally:
                self.leave(ground)

        return timed

    # --- where it listens ------------------------------------------------------------------------------

    def _hook(self) -> None:
        replace = self._patches.replace
        replace(self._watch, "fetch", self.within("data", self._watch.fetch))
        replace(torch.autograd, "backward", self.within("backward", torch.autograd.backward))
        replace(torch.optim.Optimizer, "zero_grad", self.within("optimizer", torch.optim.Optimizer.zero_grad))
        replace(torch.nn.Module, "__call__", self._root_call(torch.nn.Module.__call__))
        for site in self._sites:
            if site.module is None:  # a function that the script compiles is what may be compiled, whatever it does
                replace(site, "eager", self.within("forward", site.eager, "loss"))
        self._watch.step_spans = (functools.partial(self.enter, "optimizer"), self.leave)
        self._patches.then(self._forget_spans)
        if self._device.asynchronous:
            for name in ("to", "cuda", "cpu"):
                replace(torch.Tensor, name, self._transfer(getattr(torch.Tensor, name)))

    def _forget_spans(self) -> None:
        self._watch.step_spans = None

    def _root_call(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        inside = False
        forward = self.within("forward", plain, "loss")
        loss = self.within("loss", plain, "loss")

        @functools.wraps(plain)
        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside or compat.is_wrapper(module) or (self._stack and self._stack[-1] == "data"):
                return plain(module, *args, **kwargs)
            inside = True
            try:
                known = self._watch.index_of(module)
                role = self._roles.get(known, "network") if known is not None else "network"
                grads = torch.is_grad_enabled()
                timed = loss if role == "loss" else (forward if grads else self.within("forward", plain))
                return timed(module, *args, **kwargs)
            finally:
                inside = False

        return call

    def _transfer(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        timed = self.within("transfer", plain)

        @functools.wraps(plain)
        def move(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            before = time.perf_counter_ns()
            result = (timed if not self._stack else plain)(tensor, *args, **kwargs)
            if not self._stack and isinstance(result, torch.Tensor) and result.device == tensor.device:
                moved = time.perf_counter_ns() - before  # a change of dtype is no transfer
                self._totals["transfer"] -= moved
                self._totals["other"] += moved
            return result

        return move

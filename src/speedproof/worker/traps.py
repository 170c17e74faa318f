"""What a script does around compiled code that goes wrong later, or measures the wrong thing.

Hooks that come too late, names with ``_orig_mod.``, copies of compiled modules, clocks around the first call,
evaluation with gradients on. Only in the diagnosis pass, which times nothing.
"""

from __future__ import annotations

import copy
import functools
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from ..model import Place
from . import compat
from .compile_log import CompileClock
from .patches import Patches
from .places import is_user_file, user_place
from .settings import settings_named
from .sightings import Sightings

HOOKS = (
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_backward_hook",
)
CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "time_ns", "perf_counter_ns", "monotonic_ns")
MODE_MATTERS = ("Dropout", "BatchNorm", "InstanceNorm", "StochasticDepth", "DropPath")


@dataclass
class Reading:
    """A clock was read by a line of the user's."""

    place: Place
    at_ns: int
    busy_ns: int
    calls: int
    synchronised: int


class Traps:
    """``install`` before the script runs; ``tell`` adds what is only known in sum."""

    def __init__(
        self, sightings: Sightings, clock: CompileClock, is_compiled: Callable[[torch.nn.Module], bool]
    ) -> None:
        self.sightings, self._clock, self._is_compiled = sightings, clock, is_compiled
        self._patches = Patches()
        self._calls = _CallSites(sightings)
        self._compiled_calls = self._synchronised = 0
        self._clocks = _Clocks(sightings)
        self._settings_read = 0
        self._switching = False

    def install(self) -> None:
        for name in HOOKS:
            self._patches.replace(torch.nn.Module, name, self._hook(name, getattr(torch.nn.Module, name)))
        self._patches.replace(torch.nn.Module, "load_state_dict", self._load(torch.nn.Module.load_state_dict))
        self._patches.replace(torch.nn.Module, "train", self._mode(torch.nn.Module.train))
        self._patches.replace(torch.autograd, "backward", self._backward(torch.autograd.backward, 2))
        self._patches.replace(torch.autograd, "grad", self._backward(torch.autograd.grad, 3))
        self._patches.replace(torch.autocast, "__enter__", self._autocast(torch.autocast.__enter__))
        self._patches.replace(copy, "deepcopy", self._deepcopy(copy.deepcopy))
        self._wrapper()
        self._loaders()
        for name in CLOCKS:
            self._patches.replace(time, name, self._read_clock(getattr(time, name)))
        self._patches.replace(timeit, "default_timer", time.perf_counter)
        if torch.cuda.is_available():
            self._patches.replace(torch.cuda, "synchronize", self._synchronize(torch.cuda.synchronize))

    def called(self, name: str, module: torch.nn.Module | None, where: Place | None, result: Any) -> None:
        """A compiled entry returned ``result``."""
        self._compiled_calls += 1
        if module is not None:
            self._calls.called(name, module, where, result)

    def tell(self) -> None:
        """Sums so far."""
        self._calls.tell()
        self._clocks.tell()
        if len(sys.modules) != self._settings_read:
            self._settings_read = len(sys.modules)
            for place, name, known, note in settings_named():
                self.sightings.set("setting", place, 1, name=name, known=known, note=note)

    # --- hooks, modes, copies ----------------------------------------------------------------------------------------

    def _hook(self, kind: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def register(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not compat.is_compiling():
                late = self._is_compiled(module) and not compat.hooks_are_guarded()
                where = _users_line(sys._getframe(1))
                if where is not None:
                    name = type(module).__name__
                    self.sightings.see("hook", where, kind=kind, module=name, late="yes" if late else "no")
            return plain(module, *args, **kwargs)

        return register

    def _mode(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def train(module: torch.nn.Module, mode: bool = True) -> Any:
            if self._switching or compat.is_compiling():
                return plain(module, mode)
            where = _users_line(sys._getframe(1))
            if where is not None and bool(mode) != module.training:
                self.sightings.see("mode", where, mode="train" if mode else "eval")
            self._switching = True  # it goes on to every module inside
            try:
                return plain(module, mode)
            finally:
                self._switching = False

        return train

    def _autocast(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def enter(context: Any) -> Any:
            if not compat.is_compiling():
                where = _users_line(sys._getframe(1))
                if where is not None:
                    self.sightings.see("autocast", where)
            return plain(context)

        return enter

    def _deepcopy(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def deepcopy(x: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(x, torch.nn.Module) and not compat.is_compiling():
                kind = compat.optimized_class()
                if kind is not None and isinstance(x, kind):
                    self.sightings.see("copied", _users_line(sys._getframe(1)), how="copy.deepcopy")
            return plain(x, *args, **kwargs)

        return deepcopy

    # --- state dicts -------------------------------------------------------------------------------------------------

    def _load(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def load(module: torch.nn.Module, state: Any, *args: Any, **kwargs: Any) -> Any:
            kind = compat.optimized_class()
            keys = list(state) if hasattr(state, "keys") else []
            prefixed = [k for k in keys if isinstance(k, str) and compat.PREFIX in k]
            wrapped = kind is not None and isinstance(module, kind)
            if keys and bool(prefixed) != wrapped:
                how = "prefixed keys into a plain module" if prefixed else "plain keys into a compiled wrapper"
                self.sightings.see("prefixed", _users_line(sys._getframe(1)), how=how)
            return plain(module, state, *args, **kwargs)

        return load

    def _wrapper(self) -> None:
        """The wrapper's names, as lookups meet them."""
        kind = compat.optimized_class()
        if kind is None:
            return
        self._patches.replace(kind, "state_dict", self._state_dict(kind.state_dict))  # type: ignore[attr-defined]
        for name in ("named_parameters", "named_modules", "named_buffers"):
            self._patches.replace(kind, name, self._named(getattr(kind, name)))

    def _state_dict(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def state_dict(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not compat.is_compiling():
                self.sightings.see("prefixed", _users_line(sys._getframe(1)), how="state_dict of the wrapper")
            return plain(module, *args, **kwargs)

        return state_dict

    def _named(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        sightings = self.sightings

        @functools.wraps(plain)
        def named(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            pairs = plain(module, *args, **kwargs)
            frame = sys._getframe(1)
            if compat.is_compiling() or not is_user_file(frame.f_code.co_filename):
                return pairs
            return _tracked(pairs, sightings)

        return named

    # --- loaders -----------------------------------------------------------------------------------------------------

    def _loaders(self) -> None:
        kind: Any = compat.worker_iterator_class()
        plain = kind.__init__

        @functools.wraps(plain)
        def start(iterator: Any, loader: Any) -> None:
            begun = time.perf_counter_ns()
            plain(iterator, loader)
            spent = time.perf_counter_ns() - begun
            where = user_place(sys._getframe(1))
            self.sightings.see("loader_start", where, ns=spent, workers=str(loader.num_workers))

        self._patches.replace(kind, "__init__", start)

    def _backward(self, plain: Callable[..., Any], keep: int) -> Callable[..., Any]:
        """``keep`` is the position of ``retain_graph``; ``create_graph`` comes after it."""
        calls = self._calls

        @functools.wraps(plain)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if compat.is_compiling():
                return plain(*args, **kwargs)
            kept = any(args[keep : keep + 2]) or bool(kwargs.get("retain_graph")) or bool(kwargs.get("create_graph"))
            calls.keeping = _users_line(sys._getframe(1)) if kept else None
            calls.plain_backwards += not kept
            try:
                return plain(*args, **kwargs)
            finally:
                calls.keeping = None

        return backward

    # --- clocks ------------------------------------------------------------------------------------------------------

    def _read_clock(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def read() -> Any:
            frame = sys._getframe(1)
            if not compat.is_compiling() and is_user_file(frame.f_code.co_filename):
                return self._stamp(plain(), frame)
            return plain()

        return functools.wraps(plain)(read)

    def _stamp(self, value: Any, frame: FrameType) -> Any:
        if type(value) is not float:
            return value
        stamp = Stamp(value)
        place = Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        stamp.reading = Reading(place, _NOW(), self._clock.busy_ns, self._compiled_calls, self._synchronised)
        stamp.clocks = self._clocks
        return stamp

    def _synchronize(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def synchronize(*args: Any, **kwargs: Any) -> Any:
            self._synchronised += 1
            return plain(*args, **kwargs)

        return synchronize


_NOW = time.perf_counter_ns


class Stamp(float):
    """A reading of a clock that knows when it was made, and notices being subtracted from a later one."""

    reading: Reading
    clocks: _Clocks

    def __sub__(self, other: Any) -> float:
        if isinstance(other, Stamp):
            self.clocks.interval(other.reading, self.reading)
        return float(self) - float(other)

    def __reduce__(self) -> Any:
        return float, (float(self),)


class _Clocks:
    """Intervals that the user measured, with compiled calls in them."""

    def __init__(self, sightings: Sightings) -> None:
        self._sightings = sightings
        self._rounds: dict[tuple[Place, Place], list[float]] = {}

    def interval(self, first: Reading, second: Reading) -> None:
        """The user took the time between two readings; what lay in it?"""
        if second.calls == first.calls:
            return
        key = (first.place, second.place)
        rounds = self._rounds.setdefault(key, [0.0, 0.0, 0.0])
        rounds[0] += 1
        share = (second.busy_ns - first.busy_ns) / max(1, second.at_ns - first.at_ns)
        rounds[1] = max(rounds[1], share)
        rounds[2] += torch.cuda.is_available() and second.synchronised == first.synchronised

    def tell(self) -> None:
        """The totals."""
        for (first, second), (rounds, share, unsynchronised) in self._rounds.items():
            self._sightings.set(
                "clock",
                second,
                int(rounds),
                first=str(first.line),
                share=f"{share:.2f}",
                unsynchronised="yes" if unsynchronised else "no",
            )


@dataclass
class _CallSite:
    name: str
    grad: bool
    training: bool
    mode_matters: bool
    calls: int = 0
    trained: bool = False


class _CallSites:
    """Which lines call compiled modules, in which mode, and whether a backward pass comes back to them."""

    def __init__(self, sightings: Sightings) -> None:
        self._sightings = sightings
        self._sites: dict[tuple[Place | None, bool, bool], _CallSite] = {}
        self.keeping: Place | None = None
        self.plain_backwards = 0

    def called(self, name: str, module: torch.nn.Module, where: Place | None, result: Any) -> None:
        """A call of a compiled module from this line."""
        grad = any(t.requires_grad for t in _results(result))
        key = (where, grad, module.training)
        if key not in self._sites:
            self._sites[key] = _CallSite(name, grad, module.training, _mode_matters(module))
        site = self._sites[key]
        site.calls += 1
        if grad:
            came = functools.partial(self._gradient_came, site)
            next(t for t in _results(result) if t.requires_grad).register_hook(came)

    def _gradient_came(self, site: _CallSite, gradient: Any) -> None:
        """A backward pass has reached the result of a call: it was training."""
        site.trained = True
        if self.keeping is not None and self.plain_backwards:
            self._sightings.see("kept_backward", self.keeping, name=site.name)

    def tell(self) -> None:
        """The totals."""
        for (where, _, _), site in self._sites.items():
            self._sightings.set(
                "call_site",
                where,
                site.calls,
                name=site.name,
                grad="yes" if site.grad else "no",
                training="yes" if site.training else "no",
                mode_matters="yes" if site.mode_matters else "no",
                trained="yes" if site.trained else "no",
            )


def _mode_matters(module: torch.nn.Module) -> bool:
    """Whether ``train()`` and ``eval()`` differ for this network."""
    return any(any(word in type(m).__name__ for word in MODE_MATTERS) for m in module.modules())


def _results(result: Any) -> Iterator[torch.Tensor]:
    values = result.values() if isinstance(result, dict) else result if isinstance(result, (list, tuple)) else (result,)
    return (v for v in values if isinstance(v, torch.Tensor))


class PrefixedName(str):
    """A parameter name of a compiled wrapper that notices when a lookup by it finds nothing.

    A dict asks a key for its hash, and then compares it with what it has under that hash. A hash that no comparison
    follows found nothing. Insertions and ``in`` of a set look the same, so the instruction is looked at, too.
    """

    sightings: Sightings | None = None
    _missed: tuple[Place, str] | None = None

    def __hash__(self) -> int:
        frame = sys._getframe(1)
        if self.sightings is not None and is_user_file(frame.f_code.co_filename) and _is_lookup(frame):
            place = Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            self.sightings.see("prefixed", place, how="a lookup by name found nothing")
            self._missed = (place, "a lookup by name found nothing")
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        equal = str.__eq__(self, other)
        if equal is True and self._missed is not None and self.sightings is not None:
            self.sightings.see("prefixed", self._missed[0], count=-1, how=self._missed[1])
            self._missed = None
        return equal

    def __ne__(self, other: object) -> bool:
        return str.__ne__(self, other)

    def __reduce__(self) -> Any:
        return str, (str(self),)


def _is_lookup(frame: FrameType) -> bool:
    """Whether the frame is at ``key in mapping`` or ``mapping[key]``, not at an insertion."""
    import dis

    code = frame.f_code.co_code
    at = frame.f_lasti
    name = dis.opname[code[at]] if 0 <= at < len(code) else ""
    if name.startswith("CALL"):  # mapping.get(key)
        return "get" in frame.f_code.co_names
    return name.startswith(("CONTAINS_OP", "BINARY_SUBSCR", "BINARY_OP"))


def _tracked(pairs: Any, sightings: Sightings) -> Iterator[tuple[str, Any]]:
    for name, value in pairs:
        if compat.PREFIX in name:
            tracked = PrefixedName(name)
            tracked.sightings = sightings
            name = tracked
        yield name, value


def _users_line(frame: FrameType | None) -> Place | None:
    """The user's line, if a user's line or torch's own code on its behalf did it; no other library's doing."""
    frame = _past_torch(frame)
    if frame is None or not is_user_file(frame.f_code.co_filename):
        return None
    return user_place(frame)


def _past_torch(frame: FrameType | None) -> FrameType | None:
    while frame is not None and "/torch/" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame

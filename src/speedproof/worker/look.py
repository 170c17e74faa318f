"""A look at a few eager steps: reads of tensors, Python that a compiler would freeze, buffers changed in place.

A pass of its own before anything compiles, since everything here slows the loop down. Nothing is pushed onto torch's
mode stack across the user's code, where a ``with`` of the user's could take it off again: modes live inside one call.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..model import Place
from . import compat
from .keeping import grown, kept_graphs
from .patches import Patches
from .places import is_user_file, user_place
from .sightings import Sightings
from .sites import Sites
from .watch import Watch

READS = ("item", "tolist", "numpy", "cpu", "nonzero", "__bool__", "__float__", "__int__", "__index__", "__format__")
SPELLED = {"__bool__": "bool(tensor)", "__float__": "float(tensor)", "__int__": "int(tensor)", "__index__": "index"}
_NO_OPERATION = ("__get__", "__set__", "size", "dim", "numel", "__len__", "is_floating_point")
_TAINT_MOST = 2000


class Look:
    """``start`` it at a step boundary, ``stop`` it some steps later; then the sightings are complete."""

    def __init__(self, watch: Watch, sites: Sites, sightings: Sightings, counts_root: Callable[[int], bool]) -> None:
        self._watch, self._sites, self.sightings = watch, sites, sightings
        self._counts_root = counts_root
        self._patches = Patches()
        self._reading = self._inside = False

    def start(self) -> None:
        self._kept_before = kept_graphs()
        for name in READS:
            self._patches.replace(torch.Tensor, name, self._read(name, getattr(torch.Tensor, name)))
        self._patches.replace(torch.Tensor, "__repr__", self._read("print", torch.Tensor.__repr__))
        self._patches.replace(torch.Tensor, "__getitem__", self._index(torch.Tensor.__getitem__))
        for name in ("nonzero", "masked_select", "unique"):
            self._patches.replace(torch, name, self._read(name, getattr(torch, name)))
        self._patches.replace(torch.nn.Module, "__call__", self._root_call(torch.nn.Module.__call__))
        for site in self._sites.found:
            if site.module is None:
                self._patches.replace(site, "eager", self._looked_at(site.name, (), site.eager))
            else:
                self._watch_forward(site.module, site.name)

    def stop(self, steps: int) -> None:
        """Take everything away and tell what was seen in these steps."""
        self._patches.undo()
        for kept in grown(self._kept_before, kept_graphs(), steps):
            self.sightings.set("kept_graph", kept.place, kept.count, name=kept.name, how=kept.how)
        self.sightings.tell(steps)

    # --- reads of tensors --------------------------------------------------------------------------------------------

    def _read(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def read(*args: Any, **kwargs: Any) -> Any:
            if self._reading:
                return plain(*args, **kwargs)
            self._reading = True
            begun = time.perf_counter_ns()
            try:
                return plain(*args, **kwargs)
            finally:
                self._reading = False
                spent = time.perf_counter_ns() - begun
                device = args[0].device.type if args and isinstance(args[0], torch.Tensor) else "cpu"
                self._saw_read(SPELLED.get(name, "print" if name == "__format__" else name), device, spent)

        return read

    def _saw_read(self, call: str, device: str, spent_ns: int) -> None:
        frame = sys._getframe(2)
        via = _library_of(frame)
        self.sightings.see("sync", user_place(frame), ns=spent_ns, call=call, device=device, via=via)

    def _index(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Indexing with a mask has to count its elements on the host; plain indexing does not."""
        read = self._read("boolean index", plain)

        @functools.wraps(plain)
        def getitem(tensor: torch.Tensor, index: Any) -> Any:
            parts = index if isinstance(index, tuple) else (index,)
            masked = any(isinstance(p, torch.Tensor) and p.dtype == torch.bool and p.dim() for p in parts)
            return (read if masked else plain)(tensor, index)

        return getitem

    # --- inside a network --------------------------------------------------------------------------------------------

    def _root_call(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._inside or compat.is_wrapper(module):
                return plain(module, *args, **kwargs)
            index = self._watch.index_of(module)
            if index is None or not self._counts_root(index):
                return plain(module, *args, **kwargs)
            buffers = tuple((n, b) for n, b in module.named_buffers() if isinstance(b, torch.Tensor))
            return self._looked_at(type(module).__name__, buffers, plain)(module, *args, **kwargs)

        return call

    def _looked_at(
        self, name: str, buffers: tuple[tuple[str, torch.Tensor], ...], plain: Callable[..., Any]
    ) -> Callable[..., Any]:
        """``plain``, with its operations counted and its Python calls seen."""

        @functools.wraps(plain)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return plain(*args, **kwargs)
            self._inside = True
            before = sys.getprofile()
            mode = _Operations(self.sightings, buffers)
            try:
                if before is None:
                    sys.setprofile(functools.partial(_python_call, self.sightings))
                with mode:
                    return plain(*args, **kwargs)
            finally:
                if before is None:
                    sys.setprofile(None)
                self._inside = False
                self.sightings.see("eager_ops", None, count=mode.operations, name=name)

        return call

    def _watch_forward(self, module: torch.nn.Module, name: str) -> None:
        plain = module.forward
        sightings = self.sightings

        @functools.wraps(plain)
        def forward(*args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1)
            if is_user_file(caller.f_code.co_filename):
                sightings.see("forward_direct", user_place(caller), name=name)
            return plain(*args, **kwargs)

        self._patches.replace(module, "forward", forward)


class _Operations(TorchFunctionMode):  # type: ignore[misc]
    """Counts torch calls, and follows buffers that are changed in place to where gradients flow."""

    def __init__(self, sightings: Sightings, buffers: tuple[tuple[str, torch.Tensor], ...]) -> None:
        super().__init__()
        self._sightings = sightings
        self._buffers = {id(b): n for n, b in buffers}
        self._changed: dict[int, tuple[torch.Tensor, str, Place | None]] = {}
        self.operations = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in _NO_OPERATION:
            return result
        self.operations += 1
        if self._buffers:
            self._follow(name, args, result)
        return result

    def _follow(self, name: str, args: Any, result: Any) -> None:
        first = args[0] if args else None
        if id(first) in self._buffers and _in_place(name):
            frame = sys._getframe(2)
            if is_user_file(frame.f_code.co_filename):  # BatchNorm's own statistics are torch's business
                self._changed[id(first)] = (first, self._buffers[id(first)], user_place(frame))
            return
        source = next((self._changed[id(a)] for a in args if id(a) in self._changed), None)
        if source is None or not isinstance(result, torch.Tensor):
            return
        if result.requires_grad:
            self._sightings.see("buffer_in_loss", source[2], buffer=source[1])
        elif len(self._changed) < _TAINT_MOST:
            self._changed[id(result)] = (result, source[1], source[2])


def _in_place(name: str) -> bool:
    return (name.endswith("_") and not name.endswith("__")) or (name.startswith("__i") and name.endswith("__"))


# --- Python calls ----------------------------------------------------------------------------------------------------

_PRINTS = {"print": "print", "input": "print"}
_CALLS = {  # (file ending, function name): kind
    ("logging/__init__.py", None): "log",
    ("copy.py", "deepcopy"): "copy",
    ("torch/autograd/function.py", "apply"): "function",
    ("torch/autograd/function.py", "_call_custom_function_call"): "function",  # apply itself is in C from 2.14 on
    ("random.py", None): "random",
}


def _python_call(sightings: Sightings, frame: FrameType, event: str, arg: Any) -> None:
    """A profile function: what the network does in Python that a compiler stumbles over or freezes."""
    if event == "c_call":
        kind, spelled = _kind_of_builtin(arg)
        if kind and is_user_file(frame.f_code.co_filename):
            sightings.see("inside", user_place(frame), kind=kind, call=spelled)
    elif event == "call" and frame.f_back is not None:
        _python_function(sightings, frame, frame.f_back)


def _kind_of_builtin(function: Any) -> tuple[str, str]:
    name = getattr(function, "__name__", "")
    if name in _PRINTS:
        return "print", name
    owner = type(getattr(function, "__self__", None))
    module = getattr(function, "__module__", None) or owner.__module__
    if owner.__module__.startswith("numpy.random") or module == "numpy.random":
        return "numpy", f"numpy.random.{name}"
    if owner.__module__ in ("random", "_random"):
        return "random", f"random.{name}"
    if module == "time":
        return "time", f"time.{name}"
    return "", ""


def _python_function(sightings: Sightings, frame: FrameType, caller: FrameType) -> None:
    code = frame.f_code
    for (ending, name), kind in _CALLS.items():
        if code.co_filename.endswith(os.sep + ending) or code.co_filename.endswith("/" + ending):
            if name is not None and code.co_name != name:
                continue
            if kind == "function":
                _custom_function(sightings, frame)
            elif is_user_file(caller.f_code.co_filename):
                sightings.see("inside", user_place(caller), kind=kind, call=f"{_stem(ending)}.{code.co_name}")


def _custom_function(sightings: Sightings, frame: FrameType) -> None:
    function = frame.f_locals.get("cls")
    caller = frame.f_back
    while caller is not None and "/torch/autograd/" in caller.f_code.co_filename:
        caller = caller.f_back
    if caller is None or not is_user_file(caller.f_code.co_filename):
        return  # torch's own functions, such as those of checkpointing
    arguments = frame.f_locals.get("args", ())
    direct = any(isinstance(a, torch.Tensor) and compat.is_transform_argument(a) for a in arguments)
    name = getattr(function, "__name__", "?")
    sightings.see("custom_function", user_place(caller), name=name, functorch="yes" if direct else "no")


def _stem(ending: str) -> str:
    return ending.split("/")[0].removesuffix(".py")


def _library_of(frame: FrameType | None) -> str:
    """The library whose code read the tensor; empty where the user's own line did."""
    while frame is not None and frame.f_code.co_filename.startswith(os.path.dirname(__file__)):
        frame = frame.f_back
    if frame is None or is_user_file(frame.f_code.co_filename):
        return ""
    return str(frame.f_globals.get("__name__", "library"))

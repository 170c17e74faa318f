"""Notice what the loop does: module calls, batches, backward passes, optimizer steps.

In discovery everything goes onto a tape. Afterwards only what ends a step, and what tells a regular step from
one with an evaluation in it, stays hooked. Module calls are seen through ``nn.Module.__call__`` and not through
global module hooks: those miss keyword arguments and make Dynamo capture nothing (design, facts 2 and 24).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from ..model import Boundary, CallMode, LoaderFact, OptimizerFact, Place
from . import compat
from .anatomy import Notice, Tape, is_site_boundary, what_of
from .patches import stand_in
from .places import user_place


@dataclass
class SeenRoot:
    """A module called at the top level, in the order of first calls."""

    index: int
    ref: weakref.ref[torch.nn.Module]
    name: str
    parameters: int
    device: str
    where: Place | None
    in_loader: bool
    fed_gradients: bool
    shapes: set[tuple[Any, ...]] = field(default_factory=set)


@dataclass
class SeenOptimizer:
    """An optimizer that stepped, held weakly so that the script can drop it."""

    index: int
    ref: weakref.ref[Any]
    steps: int = 0
    where: Place | None = None

    def fact(self) -> OptimizerFact | None:
        optimizer = self.ref()
        if optimizer is None:
            return None
        groups = optimizer.param_groups
        count = sum(p.numel() for g in groups for p in g["params"] if isinstance(p, torch.Tensor))
        fast = any(g.get("fused") or g.get("foreach") for g in groups)
        return OptimizerFact(type(optimizer).__name__, self.steps, count, fast, where=self.where)


class Watch:
    """The hooks of this process. ``noticed`` is called after each notice while the tape runs."""

    def __init__(self, noticed: Callable[[Notice], None], ticked: Callable[[], None]) -> None:
        self.tape: Tape | None = Tape()
        self.roots: list[SeenRoot] = []
        self.optimizers: list[SeenOptimizer] = []
        self.loaders: list[tuple[Any, LoaderFact]] = []
        self.home_loaders: set[int] | None = None
        self.active = True
        self.step_spans: tuple[Callable[[], None], Callable[[], None]] | None = None
        self._fed_by: set[int] = set()
        self.surprised: Callable[[], None] | None = None
        self.site_stack: list[int] = []
        self._fleeting: set[type] = set()
        self._noticed, self._ticked = noticed, ticked
        self._boundary: tuple[str, int, int] | None = None
        self._events = 0
        self._root_index: dict[int, int] = {}
        self._made_at: dict[int, Place] = {}
        self.plain_call = torch.nn.Module.__call__
        self._local = threading.local()
        self._thread: int | None = None
        self._in_loader = False
        self._undo: list[Callable[[], None]] = []
        self._backward_undo: list[Callable[[], None]] = []

    # --- hooks on and off ------------------------------------------------------------------------------

    def install(self) -> None:
        self._optimizer_undo = compat.on_optimizer_step(self._before_step, self._after_step)
        self._remember_where(torch.utils.data.DataLoader, lambda loader: id(loader.dataset))
        self._remember_where(torch.optim.Optimizer, id)
        self._wrap_loader()
        self._wrap_backward()
        self.watch_calls()

    def watch_calls(self) -> None:
        """See every top-level module call, until ``ignore_calls``."""
        plain = self.plain_call
        torch.nn.Module.__call__ = self._seeing(plain)

        def undo() -> None:
            torch.nn.Module.__call__ = plain

        self._undo.append(undo)

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[None]:
        """``torch.compile`` takes ``module.__call__`` as it stands: it must not take ours with it."""
        if not self._undo:
            yield
            return
        watched, torch.nn.Module.__call__ = torch.nn.Module.__call__, self.plain_call
        try:
            yield
        finally:
            torch.nn.Module.__call__ = watched

    def ignore_calls(self) -> None:
        while self._undo:
            self._undo.pop()()

    def follow(self, boundary: Boundary) -> None:
        """Discovery is over: from now on only ``boundary`` matters."""
        self.tape = None
        self._boundary = (what_of(boundary), boundary.index, boundary.every)
        self._events = 0
        self.ignore_calls()
        compat.tell_plain_call(self.plain_call)
        if boundary.kind != "backward":
            while self._backward_undo:
                self._backward_undo.pop()()
        if is_site_boundary(boundary):  # the steps lie inside what the script compiles: nothing of ours in there
            self._optimizer_undo()

    def be_silent(self) -> None:
        """This process is not the one that is measured."""
        self.active = False
        self.tape = None
        self.ignore_calls()

    # --- what is noticed -------------------------------------------------------------------------------

    def notice(self, what: str, key: int, mode: CallMode | None = None) -> None:
        if not self.active:
            return
        boundary = self._boundary
        if boundary is not None:
            if boundary[0] == what and (boundary[1] == key or what == "backward"):
                self._events += 1
                if self._events % boundary[2] == 0:
                    self._ticked()
        elif self.tape is not None and (what == "call" or self._is_loop_thread()):
            site = self.site_stack[-1] if self.site_stack else None
            notice = Notice(what, key, time.perf_counter_ns(), mode, site)
            self.tape.write(notice)
            self._noticed(notice)

    def index_of(self, module: torch.nn.Module) -> int | None:
        """The root index of ``module``, if it was called at the top level while calls were watched."""
        index = self._root_index.get(id(module))
        return index if index is not None and self.roots[index].ref() is module else None

    def optimizer_alive(self) -> bool:
        """Whether the script has made an optimizer: then a training loop is to come."""
        # type(), since isinstance asks an object for its __class__, which proxies and lazy modules answer loudly
        return any(issubclass(type(o), torch.optim.Optimizer) for o in gc.get_objects())

    def _is_loop_thread(self) -> bool:
        if self._thread is None:
            self._thread = threading.get_ident()
        return self._thread == threading.get_ident()

    def _seeing(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        local = self._local

        @functools.wraps(plain)
        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if getattr(local, "inside", False) or not self.active or compat.is_wrapper(module):
                return plain(module, *args, **kwargs)
            if self._fleeting and type(module) in self._fleeting:
                return plain(module, *args, **kwargs)
            if compat.is_compiling() or not self._is_loop_thread():
                return plain(module, *args, **kwargs)
            local.inside = True
            try:
                self._called(module, args, kwargs)
                return plain(module, *args, **kwargs)
            finally:
                local.inside = False

        return call

    def _called(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _in_loader_worker():
            return
        index = self.index_of(module)
        if index is None and self._is_fleeting(type(module)):
            return
        if index is None:
            index = self._new_root(module, args, kwargs)
        root = self.roots[index]
        if len(root.shapes) < 64:
            root.shapes.add(_shapes(args, kwargs))
        if not root.in_loader:
            self.notice("call", index, CallMode(module.training, torch.is_grad_enabled()))

    def _is_fleeting(self, kind: type) -> bool:
        """Whether modules of this class are made anew for each call (solvers do so): look at what is inside them."""
        dead = sum(root.name == kind.__name__ and root.ref() is None for root in self.roots)
        if dead >= 2:
            self._fleeting.add(kind)
        return dead >= 2

    def _new_root(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        index = len(self.roots)
        first = next(iter(module.parameters()), None)
        tensors = _tensors(args, kwargs)
        device = first.device.type if first is not None else (tensors[0].device.type if tensors else "cpu")
        self.roots.append(
            SeenRoot(
                index=index,
                ref=weakref.ref(module),
                name=type(module).__name__,
                parameters=sum(p.numel() for p in module.parameters() if not _is_lazy(p)),
                device=device,
                where=user_place(),
                in_loader=self._in_loader,
                fed_gradients=any(t.requires_grad for t in tensors),
            )
        )
        self._root_index[id(module)] = index
        return index

    def _remember_where(self, kind: Any, key: Callable[[Any], int]) -> None:
        """Note the user's line that makes each object of this class; its signature stays visible (design, fact 25)."""
        plain, made = kind.__init__, self._made_at

        @functools.wraps(plain)
        def init(this: Any, *args: Any, **kwargs: Any) -> None:
            plain(this, *args, **kwargs)
            place = user_place()
            if place is not None:
                made[key(this)] = place

        kind.__init__ = init

    # --- optimizers, loaders, backward -----------------------------------------------------------------

    def _before_step(self, optimizer: Any) -> None:
        if self.step_spans is not None:
            self.step_spans[0]()
        if self.tape is not None and self.active:
            self.notice("step_begin", self._optimizer(optimizer).index)

    def _after_step(self, optimizer: Any) -> None:
        if self.step_spans is not None:
            self.step_spans[1]()
        if self.active and not compat.is_compiling():
            seen = self._optimizer(optimizer)
            seen.steps += 1
            if self.surprised is not None and self.tape is None:
                self.surprised()
            self.notice("step", seen.index)

    def _optimizer(self, optimizer: Any) -> SeenOptimizer:
        for seen in self.optimizers:
            if seen.ref() is optimizer:
                return seen
        where = self._made_at.get(id(optimizer))
        self.optimizers.append(SeenOptimizer(len(self.optimizers), weakref.ref(optimizer), where=where))
        return self.optimizers[-1]

    def _wrap_loader(self) -> None:
        kind: Any = compat.loader_iterator_class()
        plain = kind.__next__

        @functools.wraps(plain)
        def following(iterator: Any) -> Any:
            if not self.active or self._in_loader or _in_loader_worker():
                return plain(iterator)
            key = self._loader(iterator)
            self._fed_by.add(key)
            self.notice("next", key)
            self._in_loader = True
            try:
                return self.fetch(plain, iterator)
            finally:
                self._in_loader = False

        kind.__next__ = following

    def fetch(self, plain: Callable[[Any], Any], iterator: Any) -> Any:
        """Get a batch; the phase clock stands in for this method to time it."""
        return plain(iterator)

    def _loader(self, iterator: Any) -> int:
        dataset = iterator._dataset
        for index, (known, _) in enumerate(self.loaders):
            if known() is dataset:
                return index
        self.loaders.append((_reference(dataset), _loader_fact(iterator, self._made_at.get(id(dataset)))))
        return len(self.loaders) - 1

    def fed_from_home(self, trains: bool) -> bool:
        """Whether the batches since the last call came from the loop's own loaders alone.

        A loader that feeds a whole training step by itself becomes one of them: some scripts make a dataset anew
        each epoch. One that is read beside them is an evaluation of something the switch does not see.
        """
        fed, self._fed_by = self._fed_by, set()
        if self.home_loaders is None or fed <= self.home_loaders:
            return True
        if trains and not fed & self.home_loaders:
            self.home_loaders |= fed
        return fed <= self.home_loaders

    def _wrap_backward(self) -> None:
        for name in ("backward", "grad"):
            plain = getattr(torch.autograd, name)
            wrapped = stand_in(self._seeing_backward(plain, name), plain)
            setattr(torch.autograd, name, wrapped)
            self._backward_undo.append(functools.partial(self._unwrap_backward, name, wrapped, plain))

    @staticmethod
    def _unwrap_backward(name: str, wrapped: Any, plain: Any) -> None:
        if getattr(torch.autograd, name) is wrapped:
            setattr(torch.autograd, name, plain)

    def _seeing_backward(self, plain: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(plain)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if compat.is_compiling() or getattr(self._local, "backward", False):
                return plain(*args, **kwargs)
            self._local.backward = True
            try:
                return plain(*args, **kwargs)
            finally:
                self._local.backward = False
                # a gradient taken inside the step (penalties, meta-learning) ends no step
                if name == "backward" and not getattr(self._local, "inside", False):
                    self.notice("backward", 0)

        return backward


def _reference(dataset: Any) -> Callable[[], Any]:
    """A way back to ``dataset`` that does not keep it alive; lists and the like allow none, and are kept."""
    try:
        return weakref.ref(dataset)
    except TypeError:
        return lambda: dataset


def _in_loader_worker() -> bool:
    return torch.utils.data.get_worker_info() is not None


def _is_lazy(parameter: torch.Tensor) -> bool:
    return isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin)


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors among the arguments, one container deep."""
    found: list[torch.Tensor] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [v for v in value if isinstance(v, torch.Tensor)]
        elif isinstance(value, dict):
            found += [v for v in value.values() if isinstance(v, torch.Tensor)]
    return found


def _shapes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    return tuple((tuple(t.shape), t.dtype) for t in _tensors(args, kwargs))


def _loader_fact(iterator: Any, where: Place | None) -> LoaderFact:
    sampler = getattr(iterator, "_index_sampler", None)
    try:
        batches: int | None = len(sampler) if sampler is not None else None
    except TypeError:  # an iterable dataset has no length
        batches = None
    return LoaderFact(
        dataset=type(iterator._dataset).__name__,
        batch_size=getattr(sampler, "batch_size", None),
        workers=iterator._num_workers,
        pin_memory=bool(getattr(iterator, "_pin_memory", False)),
        drop_last=getattr(sampler, "drop_last", None),
        batches=batches,
        prefetch=int(getattr(iterator, "_prefetch_factor", 2) or 2),
        where=where,
        persistent=bool(getattr(iterator, "_persistent_workers", False)),
    )

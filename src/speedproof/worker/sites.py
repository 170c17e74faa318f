"""The places where the script itself asks for compilation: ``torch.compile`` as call or decorator, ``.compile()``.

The request is carried out as written, and a switch put in front of the result: eager, unless the arm
``as_written`` is being tried. So the old question, "I put torch.compile there and it got slower", has its two
sides on the live loop.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..model import Place, SiteFact
from . import compat
from .places import user_place


@dataclass
class Site:
    """One request: what it compiles, eager and as written."""

    index: int
    name: str
    how: str
    where: Place | None
    options: dict[str, str]
    eager: Callable[..., Any]
    written: Callable[..., Any]
    module: torch.nn.Module | None = None
    calls: int = 0

    def fact(self) -> SiteFact:
        return SiteFact(self.index, self.name, self.how, self.where, self.options, self.calls)

    @property
    def is_default(self) -> bool:
        """Whether the request leaves mode, backend and dynamic as torch has them."""
        return not self.options


Called = Callable[[Site], None]


@dataclass
class Sites:
    """All requests of this process, and which side of them runs now.

    ``adapted`` changes how they are carried out; a trial leaves them as they are. ``unwatched`` takes the watch off
    module calls meanwhile.
    """

    called: Called
    chosen: Callable[[Site, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any] | None = None
    found: list[Site] = field(default_factory=list)
    adapted: Callable[[dict[str, Any]], dict[str, Any]] = dict
    unwatched: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    busy: bool = False
    stack: list[int] = field(default_factory=list)
    _by_wrapper: weakref.WeakKeyDictionary[torch.nn.Module, Site] = field(default_factory=weakref.WeakKeyDictionary)
    _patched: dict[type, Callable[..., Any]] = field(default_factory=dict)

    def install(self) -> None:
        """Stand in front of ``torch.compile`` and ``nn.Module.compile``."""
        compile_function, compile_method = torch.compile, torch.nn.Module.compile

        @functools.wraps(compile_function)
        def compile_as_written(model: Any = None, *args: Any, **kwargs: Any) -> Any:
            if model is None:
                where = user_place()
                return lambda function: self._function_or_module(
                    compile_function, function, "decorator", args, kwargs, where
                )
            if self.busy or kwargs.get("disable"):
                return compile_function(model, *args, **kwargs)
            return self._function_or_module(compile_function, model, "call", args, kwargs, user_place())

        @functools.wraps(compile_method)
        def compile_module(module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
            self.busy = True
            try:
                with self.unwatched():
                    compile_method(module, *args, **self.adapted(kwargs))
            finally:
                self.busy = False
            self._method(module, kwargs, user_place())

        torch.compile = compile_as_written
        torch.nn.Module.compile = compile_module
        self._plain = compile_function

    def compile(self, function: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
        """``torch.compile`` itself, for our own arms."""
        return self._plain(function, **kwargs)  # type: ignore[no-any-return]

    def _function_or_module(
        self,
        compiler: Any,
        what: Any,
        how: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        where: Place | None,
    ) -> Any:
        self.busy = True
        try:
            with self.unwatched():
                compiled = compiler(what, *args, **self.adapted(kwargs))
        finally:
            self.busy = False
        options = _options(kwargs)
        if isinstance(compiled, torch.nn.Module):
            return self._wrapped_module(compiled, how, options, where)
        site = self._add(getattr(what, "__qualname__", type(what).__name__), how, where, options, what, compiled)
        front = self._front(site)
        return functools.wraps(compiled)(front) if hasattr(compiled, "__name__") else front

    def _wrapped_module(self, compiled: torch.nn.Module, how: str, options: dict[str, str], where: Place | None) -> Any:
        """The switch stands in the class, not the instance, so that copies of the wrapper have it too."""
        kind = type(compiled)
        if kind not in self._patched:
            self._patched[kind] = written = kind.__call__
            kind.__call__ = functools.wraps(written)(self._front_of_class(written))
        self._by_wrapper[compiled] = self._wrapper_site(compiled, how, options, where)
        return compiled

    def _wrapper_site(self, compiled: torch.nn.Module, how: str, options: dict[str, str], where: Place | None) -> Site:
        inner = compat.original_of(compiled)
        written = functools.partial(self._patched[type(compiled)], compiled)
        site = self._add(type(inner).__name__, how, where, options, inner, written)
        site.module = inner
        return site

    def _front_of_class(self, written: Callable[..., Any]) -> Callable[..., Any]:
        sites = self

        def call(compiled: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if compat.is_compiling():
                return written(compiled, *args, **kwargs)
            site = sites._by_wrapper.get(compiled)
            if site is None:
                site = sites._by_wrapper[compiled] = sites._wrapper_site(compiled, "copy", {}, None)
            return sites._choose(site, args, kwargs)

        return call

    def _method(self, module: torch.nn.Module, kwargs: dict[str, Any], where: Place | None) -> None:
        written = compat.slot_of(module)
        name = type(module).__name__
        site = self._add(name, "method", where, _options(kwargs), compat.eager_call(module), written)
        site.module = module
        compat.fill_slot(module, self._front(site))

    def _add(self, name: str, how: str, where: Place | None, options: dict[str, str], eager: Any, written: Any) -> Site:
        site = Site(len(self.found), name, how, where, options, eager, written)
        self.found.append(site)
        return site

    def _front(self, site: Site) -> Callable[..., Any]:
        sites = self

        def choose(*args: Any, **kwargs: Any) -> Any:
            if compat.is_compiling():
                return (site.eager if sites.chosen is None else site.written)(*args, **kwargs)
            return sites._choose(site, args, kwargs)

        return choose

    def _choose(self, site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        site.calls += 1
        if site.module is None:
            self.called(site)
        if self.chosen is not None:
            return self.chosen(site, site.written, args, kwargs)
        if site.module is not None:
            return site.eager(*args, **kwargs)
        self.stack.append(site.index)
        try:
            return site.eager(*args, **kwargs)
        finally:
            self.stack.pop()


def _options(kwargs: dict[str, Any]) -> dict[str, str]:
    """The keyword arguments of a request that differ from torch's defaults, as text."""
    defaults = {
        "mode": "default",
        "backend": "inductor",
        "dynamic": None,
        "fullgraph": False,
        "disable": False,
    }
    return {
        k: v if isinstance(v, str) else getattr(v, "__name__", repr(v))
        for k, v in kwargs.items()
        if v is not None and v != defaults.get(k)
    }

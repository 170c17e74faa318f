"""The diagnosis pass: the script as it is, everything it compiles captured by Dynamo alone, nothing timed.

A process of its own. Compilation is on from the first call to the end, in training and evaluation alike, as it would
be in a real run; what a trial switches on and off for its blocks is never switched here. What Inductor adds to that
(its own guards, its kernels, CUDA graphs) shows in the compile logs of the arms.
"""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..model import Anatomy, CompileLog, GraphBreak, Observed, Place
from . import compat
from .compile_log import CompileClock, CompileRecorder
from .graphs import GraphWatcher, Run, overlapping
from .places import place_of_error, user_place
from .sightings import Sightings
from .sites import Site, Sites
from .traps import Traps
from .watch import Watch, _tensors

TELL_S = 1.0
STEADY_CALLS = 3  # calls without a compile before gaps between graphs are believed
MOST_OVERLAPS = 3


@dataclass
class Entry:
    """One thing that is compiled: a module or a function, and what its calls did."""

    name: str
    module: torch.nn.Module | None
    eager: Callable[..., Any]
    compiled: Callable[..., Any]
    calls: int = 0
    failed: bool = False
    steady: int = 0


@dataclass
class Gaps:
    """Time outside compiled regions, by the graph after which it was spent; ``None``: before any graph."""

    spent_ns: dict[str | None, int] = field(default_factory=dict)
    calls: int = 0

    def book(self, begun_ns: int, ended_ns: int, runs: list[Run]) -> None:
        """One call: everything between ``begun_ns`` and ``ended_ns`` that was not inside a graph."""
        self.calls += 1
        edge, key = begun_ns, None
        for run in runs:
            self._add(key, run.begun_ns - edge)
            edge, key = run.ended_ns, run.compile_id
        self._add(key, ended_ns - edge)

    def _add(self, key: str | None, ns: int) -> None:
        self.spent_ns[key] = self.spent_ns.get(key, 0) + max(0, ns)


class Observer:
    """Stands where the switch stands in a trial: behind every entrance to compiled code."""

    def __init__(self, watch: Watch, sites: Sites, say: Callable[[Any], None], anatomy: Anatomy) -> None:
        self._watch, self._sites, self._say, self._anatomy = watch, sites, say, anatomy
        self.sightings = Sightings(say)
        self._graphs = GraphWatcher(self.sightings)
        self._recorder = CompileRecorder(lambda: self._steps)
        self._clock = CompileClock()
        self._entries: dict[int, Entry] = {}
        self._gaps = Gaps()
        self._told_s = 0.0
        self._steps = 0
        self._compiles_told = self._quiet = self._settled_steps = 0
        self._depth = 0
        self.traps = Traps(self.sightings, self._clock, self._compiled_module)

    # --- on ----------------------------------------------------------------------------------------------------------

    def install(self, first_call: Callable[[], None]) -> None:
        """Before the script's first line that uses torch. ``first_call`` comes before anything compiles."""
        self._first_call = first_call
        self._recorder.start()
        self._clock.listen()
        self.traps.install()
        self._sites.adapted = self._adapted
        self._sites.chosen = self._at_site

    def _adapted(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """A request of the script's, carried out by Dynamo alone; breaks are collected, not raised."""
        kept = {k: v for k, v in arguments.items() if k in ("dynamic",)}
        return {**kept, "backend": self._graphs.backend}

    def compile(self, call: Callable[..., Any], name: str, module: torch.nn.Module) -> Entry:
        """What a script that compiles nothing gets: its networks compiled, with torch's defaults."""
        entry = Entry(name, module, call, self._sites.compile(compat.compilable_call(module), **self._adapted({})))
        self._entries[id(module)] = entry
        return entry

    # --- calls -------------------------------------------------------------------------------------------------------

    def _at_site(self, site: Site, written: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._first_call()
        key = id(site)
        if key not in self._entries:
            self._entries[key] = Entry(site.name, site.module, site.eager, written)
        if site.module is not None:
            self._notice_root_call(site)
        return self.run(self._entries[key], args, kwargs)

    def _notice_root_call(self, site: Site) -> None:
        boundary = self._anatomy.boundary
        if boundary.kind == "call":
            roots = {r.index: r.name for r in self._anatomy.roots}
            if roots.get(boundary.index) == type(site.module).__name__:
                self._watch.notice("call", boundary.index)

    def run(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of compiled code, watched. One inside another is part of that."""
        if self._depth or entry.failed:
            return (entry.eager if entry.failed else entry.compiled)(*args, **kwargs)
        self._depth += 1
        try:
            return self._watched(entry, args, kwargs)
        finally:
            self._depth -= 1

    def _watched(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        where = user_place()
        entry.calls += 1
        self._graphs.runs.clear()
        compiles, state = self._clock.compiles, random.getstate()
        memory = _Memory(args, kwargs) if entry.calls <= MOST_OVERLAPS else None
        begun = time.perf_counter_ns()
        try:
            result = entry.compiled(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the border to the user's script: anything may come
            self._failed(entry, error, where)
            result = entry.eager(*args, **kwargs)  # the script's own error passes through here
            entry.failed = True
            return result
        ended = time.perf_counter_ns()
        entry.steady = entry.steady + 1 if compiles == self._clock.compiles else 0
        if entry.steady > STEADY_CALLS:
            self._gaps.book(begun, ended, self._graphs.runs)
        if entry.steady:
            self.sightings.see("compiled_ops", None, sum(r.operations for r in self._graphs.runs), name=entry.name)
            if random.getstate() == state:
                self.sightings.see("random_still", None, which="random", name=entry.name)
        if memory is not None:
            self._tell_overlap(memory, where)
        self.traps.called(entry.name, entry.module, where, result)
        return result

    def _failed(self, entry: Entry, error: Exception, where: Place | None) -> None:
        text = "".join(traceback.format_exception_only(type(error), error)).strip()[:600]
        self.sightings.see("compiled_crash", place_of_error(error) or where, name=entry.name, error=text)

    def _tell_overlap(self, memory: _Memory, where: Place | None) -> None:
        names = memory.changed_overlap()
        if names is not None:
            self.sightings.see("overlap", where, names=" and ".join(names))

    def _compiled_module(self, module: torch.nn.Module) -> bool:
        """Whether ``module`` is, or is inside of, something that has run compiled."""
        for entry in self._entries.values():
            if entry.module is not None and entry.calls and any(m is module for m in entry.module.modules()):
                return True
        return False

    # --- steps -------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """A step of the loop has ended."""
        self._steps += 1
        self._quiet = self._quiet + 1 if self._clock.compiles == self._compiles_told else 0
        self._compiles_told = self._clock.compiles
        if self._quiet > STEADY_CALLS:
            self._settled_steps += 1
        if time.monotonic() - self._told_s > TELL_S:
            self.tell(whole=False)

    def tell(self, whole: bool) -> None:
        """Everything so far. ``whole``: the script has come to its end."""
        self._told_s = time.monotonic()
        self.traps.tell()
        self.sightings.tell(None)
        self._say(Observed(time.time(), self._steps, self._log(), self._quiet, whole))

    def _log(self) -> CompileLog:
        log = self._recorder.log()
        steps = max(1, self._settled_steps)
        return replace(
            log,
            ops=sum(g.ops for g in self._graphs.captured),
            graphs=len(self._graphs.captured),
            captured=tuple(self._placed(log)),
            breaks=tuple(self._priced(b, steps) for b in log.breaks),
        )

    def _placed(self, log: CompileLog) -> list[Any]:
        """Graphs as the backend saw them, with the function and the seconds that the compiler's records have."""
        known = {g.compile_id: g for g in log.captured}
        return [
            replace(g, where=known[g.compile_id].where, stages_s=known[g.compile_id].stages_s)
            if g.compile_id in known
            else g
            for g in self._graphs.captured
        ]

    def _priced(self, broken: GraphBreak, steps: int) -> GraphBreak:
        """A break costs what passes between the graph that it ended and the next one."""
        if not self._settled_steps:
            return broken
        captured = {g.compile_id for g in self._graphs.captured}
        key = broken.compile_id if broken.compile_id in captured else None
        return replace(broken, outside_ns=self._gaps.spent_ns.get(key, 0) // steps)


class _Memory:
    """The tensors of a call: do two of them share memory that the call changes?"""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._tensors = [(f"argument {i + 1}", t) for i, t in enumerate(_tensors(args, kwargs)[:32])]
        self._versions = [_version(t) for _, t in self._tensors]

    def changed_overlap(self) -> tuple[str, str] | None:
        """Their names, where they overlap and the call wrote to one of them."""
        changed = any(_version(t) != v for (_, t), v in zip(self._tensors, self._versions))
        return overlapping(self._tensors) if changed else None


def _version(tensor: torch.Tensor) -> int:
    try:
        return int(tensor._version)
    except RuntimeError:  # inference tensors keep no count
        return -1

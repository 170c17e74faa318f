"""Where the time of a few steps goes, kernel by kind of kernel: the same steps eager and compiled, in a profiler.

On a CPU a kernel is an operator, with its own time; on an accelerator it is what ran on the device. The profiler makes
steps slower, small ones most, so its figures explain a difference and never prove one. The events are read raw:
building the profiler's tables of them takes ten times as long, and the user's script waits meanwhile.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import time
import weakref
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..model import KernelsMeasured
from .device import Device
from .kernel_kinds import GENERATED, GRAPH, HOST_RANGE, OPTIMIZER_RANGE, is_kernel, kind_of

STEPS = 4  # profiled steps of a side
STEPS_NEEDED = 14  # of the script, for both sides with what is not counted
LONGEST_NS = 3_000_000_000  # no further step is begun then: at several microseconds an event, this bounds them too
MOST_EVENTS = 200_000
ATTEMPTS = 2
LARGEST = 12
LONGEST_NAME = 120

# --- figures -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Happened:
    """One event of the profiler. Times are in nanoseconds; ``lane`` is the thread, or the device's stream."""

    name: str
    start_ns: int
    end_ns: int
    lane: object
    on_device: bool = False
    annotation: bool = False


@dataclass(frozen=True)
class Totals:
    """What ``KernelsMeasured`` has, for the steps of one window."""

    wall_ns: int
    busy_ns: int
    kinds_ns: dict[str, int]
    kinds_count: dict[str, int]
    top_ns: dict[str, int]

    def of_side(self, arm: str, side: Literal["base", "arm"], steps: int) -> KernelsMeasured:
        """The event that says so."""
        return KernelsMeasured(
            time.time(), arm, side, steps, self.wall_ns, self.busy_ns, self.kinds_ns, self.kinds_count, self.top_ns
        )


@dataclass(frozen=True)
class Piece:
    """A stretch of time in which one kernel ran. ``launches``: 1 where the kernel begins, 0 where it goes on."""

    kind: str
    name: str
    start_ns: int
    end_ns: int
    launches: int


@dataclass
class _Open:
    """An event that has begun, on the stack of its lane. ``kind`` is ``None`` for what is no kernel."""

    event: Happened
    kind: str | None
    outermost: bool
    optimizer: bool


def totals_of(events: Iterable[Happened], wall_ns: int, on_device: bool) -> Totals | None:
    """The figures of a window of ``wall_ns``; ``None`` where no kernel was seen."""
    pieces = list(device_pieces(events) if on_device else host_pieces(events))
    if not pieces:
        return None
    kinds_ns: Counter[str] = Counter()
    kinds_count: Counter[str] = Counter()
    names_ns: Counter[str] = Counter()
    for piece in pieces:
        kinds_ns[piece.kind] += piece.end_ns - piece.start_ns
        kinds_count[piece.kind] += piece.launches
        names_ns[_short(piece.name)] += piece.end_ns - piece.start_ns
    busy_ns = min(wall_ns, union_ns((p.start_ns, p.end_ns) for p in pieces))
    return Totals(wall_ns, busy_ns, dict(kinds_ns), dict(kinds_count), dict(names_ns.most_common(LARGEST)))


def union_ns(spans: Iterable[tuple[int, int]]) -> int:
    """The time that at least one of the spans covers."""
    total, reached = 0, None
    for start, end in sorted(spans):
        begin = start if reached is None else max(start, reached)
        total += max(0, end - begin)
        reached = end if reached is None else max(reached, end)
    return total


def device_pieces(events: Iterable[Happened]) -> Iterator[Piece]:
    """What ran on the device. Ranges are mirrored there too: those of the optimizer say which kernels are its."""
    ranges: list[tuple[int, int]] = []
    kernels: list[Happened] = []
    for event in events:
        if event.on_device and OPTIMIZER_RANGE.match(event.name):
            ranges.append((event.start_ns, event.end_ns))
        elif event.on_device and not event.annotation and not HOST_RANGE.search(event.name):
            kernels.append(event)
    ranges.sort()
    for event in sorted(kernels, key=lambda e: e.start_ns):
        while ranges and ranges[0][1] <= event.start_ns:
            ranges.pop(0)
        own = bool(ranges) and ranges[0][0] <= event.start_ns
        kind = "optimizer" if own else kind_of(event.name)
        yield Piece(kind, event.name, event.start_ns, event.end_ns, 1)


def host_pieces(events: Iterable[Happened]) -> Iterator[Piece]:
    """Each thread's time, to the innermost operator that is open, where there is one."""
    host = [e for e in events if not e.on_device]
    named = any(GENERATED.match(e.name) for e in host)
    lanes: dict[object, list[Happened]] = {}
    for event in host:
        lanes.setdefault(event.lane, []).append(event)
    for lane in lanes.values():
        yield from _lane_pieces(sorted(lane, key=lambda e: (e.start_ns, -e.end_ns)), named)


def _lane_pieces(events: list[Happened], named: bool) -> Iterator[Piece]:
    stack: list[_Open] = []
    now = 0
    for event in events:
        while stack and stack[-1].event.end_ns <= event.start_ns:
            top = stack.pop()
            yield from _own_time(top, now, top.event.end_ns)
            now = max(now, top.event.end_ns)
        if stack:
            yield from _own_time(stack[-1], now, event.start_ns)
        now = event.start_ns
        opened = _opened(event, stack[-1] if stack else None, named)
        if opened.kind is not None and opened.outermost:
            yield Piece(opened.kind, event.name, now, now, 1)
        stack.append(opened)
    while stack:
        top = stack.pop()
        yield from _own_time(top, now, top.event.end_ns)
        now = max(now, top.event.end_ns)


def _own_time(owner: _Open, start_ns: int, end_ns: int) -> Iterator[Piece]:
    if owner.kind is not None and end_ns > start_ns:
        yield Piece(owner.kind, owner.event.name, start_ns, end_ns, 0)


def _opened(event: Happened, parent: _Open | None, named: bool) -> _Open:
    """What an operator calls to do its work counts as that work: the copies in a convolution are convolution."""
    optimizer = bool(OPTIMIZER_RANGE.match(event.name)) or (parent is not None and parent.optimizer)
    if GRAPH.match(event.name):  # its own time is that of the kernels without events, unless they have some
        return _Open(event, None if named else "fused", True, optimizer)
    if event.annotation or not is_kernel(event.name):
        return _Open(event, None, False, optimizer)
    inherited = parent.kind if parent is not None and parent.kind not in (None, "fused", "other") else None
    kind = "optimizer" if optimizer else inherited or kind_of(event.name)
    return _Open(event, kind, parent is None or parent.kind is None or parent.kind != kind, optimizer)


def _short(name: str) -> str:
    """A kernel's name without the words that all have, for templates a line long."""
    plain = re.sub(r"\bvoid |at::native::|\(anonymous namespace\)::|^graph_\d+_", "", name)
    plain = re.sub(r"^## Call CompiledFxGraph (\w{8}).*", r"compiled graph \1", plain)
    return plain if len(plain) <= LONGEST_NAME else plain[: LONGEST_NAME - 1] + "…"


# --- the profiler --------------------------------------------------------------------------------------------------

_OURS: weakref.WeakSet[Any] = weakref.WeakSet()


class KernelPass:
    """A window in the profiler: ``start`` it at a step boundary, ``stop`` it at a later one. Raises nothing."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._profiler: Any = None
        self._start_ns = 0

    def start(self) -> bool:
        """Whether the profiler runs now. Not where the script has one of its own, which would lose its trace."""
        try:
            activities = _activities(self._device.kind)
            if not activities or foreign_profilers():
                return False
            from torch.profiler import profile

            self._profiler = profile(activities=activities)
            _OURS.add(self._profiler)
            self._device.synchronize()
            with _quiet():
                self._profiler.start()
            _OURS.add(self._profiler.profiler)
        except Exception:  # noqa: BLE001 - a profiler that does not work is a missing figure, never a crash
            self._abandon()
            return False
        self._start_ns = time.perf_counter_ns()
        return True

    def stop(self) -> Totals | None:
        """The figures since ``start``; ``None`` where there are none, or too many events to go through."""
        if self._profiler is None:
            return None
        try:
            self._device.synchronize()
            wall_ns = time.perf_counter_ns() - self._start_ns
            if foreign_profilers():  # begun since: it has taken the place of ours, and to stop would stop it
                return None
            with _quiet():
                self._profiler.stop()
            raw = self._profiler.profiler.kineto_results.events()
            if len(raw) > MOST_EVENTS:
                return None
            return totals_of(map(_happened, raw), wall_ns, self._device.asynchronous)
        except Exception:  # noqa: BLE001 - as above
            return None
        finally:
            self._profiler = None

    def _abandon(self) -> None:
        profiler, self._profiler = self._profiler, None
        if getattr(profiler, "profiler", None) is not None:
            with contextlib.suppress(Exception):
                profiler.stop()


def foreign_profilers() -> bool:
    """Whether the script holds a profiler: running, between two of its windows, or done.

    Looked for among all objects since a second profiler silently empties the trace of the first, and what a
    profiler with a schedule will do next cannot be asked.
    """
    from torch.autograd import profiler as plain
    from torch.profiler import profile

    kinds = tuple(getattr(plain, name) for name in ("profile", "emit_nvtx", "emit_itt") if hasattr(plain, name))
    # type(), not isinstance(): a lazy object's __class__ would wake it up
    return any(issubclass(type(o), (profile, *kinds)) and o not in _OURS for o in gc.get_objects())


def _activities(kind: str) -> list[Any]:
    """What to record: the operators, and what they start on the device. Nothing where the device cannot be seen."""
    from torch.profiler import ProfilerActivity

    if kind == "cpu":
        return [ProfilerActivity.CPU]
    device = getattr(ProfilerActivity, kind.upper(), None)
    return [ProfilerActivity.CPU, device] if device is not None else []


def _happened(raw: Any) -> Happened:
    start, on_device = raw.start_ns(), raw.device_type().name != "CPU"
    lane = (raw.device_index(), raw.device_resource_id()) if on_device else raw.start_thread_id()
    return Happened(raw.name(), start, start + raw.duration_ns(), lane, on_device, raw.is_user_annotation())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The profiler's library writes to the user's terminal when it starts and stops; as it loads, it looks here."""
    key = "KINETO_LOG_LEVEL"
    before = os.environ.get(key)
    os.environ.setdefault(key, "99")
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(key, None)


# --- in the life of a session ----------------------------------------------------------------------------------------


class SeenStep(Protocol):
    """What is looked at in a finished step."""

    @property
    def regular(self) -> bool: ...
    @property
    def compiles(self) -> int: ...


class Switch(Protocol):
    """The switch between the sides; ``failure`` says that the compiled one has raised."""

    on: bool

    @property
    def failure(self) -> object | None: ...


class Comparison:
    """Compares the sides once in a session, for the first arm that is done being timed. ``wanted``: not yet."""

    def __init__(self, wanted: bool, say: Callable[[KernelsMeasured], None]) -> None:
        self.wanted, self._say = wanted, say

    def after(self, arm: str, device: Device, board: Switch, left: int | None) -> Generator[None, SeenStep, None]:
        """Say what ``compare`` finds. ``left``: the steps that the script still has, where that is known."""
        if not self.wanted or (left is not None and left < STEPS_NEEDED):
            return
        self.wanted = False
        for event in (yield from compare(arm, device, board)):
            self._say(event)


def compare(
    arm: str, device: Device, board: Switch, new_pass: Callable[[Device], KernelPass] = KernelPass
) -> Generator[None, SeenStep, tuple[KernelsMeasured, ...]]:
    """Profile some steps of eager, then of the warm arm; both sides or nothing. To be entered at a step boundary."""
    found: list[KernelsMeasured] = []
    sides: tuple[Literal["base", "arm"], ...] = ("base", "arm")
    try:
        for side in sides:
            board.on = side == "arm"
            yield  # what the other side left behind, as in every block
            if side == "base":  # the very first window pays for loading the profiler
                yield from _window(new_pass(device), board, 1)
            seen = yield from _measured(device, board, new_pass)
            if seen.totals is None:
                return ()
            found.append(seen.totals.of_side(arm, side, seen.steps))
    finally:
        board.on = False
    return tuple(found)


@dataclass(frozen=True)
class Window:
    """What came of a window. ``clean``: every step in it was regular, and nothing was compiled."""

    clean: bool
    steps: int
    totals: Totals | None


def _measured(
    device: Device, board: Switch, new_pass: Callable[[Device], KernelPass]
) -> Generator[None, SeenStep, Window]:
    for _ in range(ATTEMPTS):
        seen = yield from _window(new_pass(device), board, STEPS)
        if seen.clean or board.failure is not None:
            return seen
    return Window(False, 0, None)


def _window(one: KernelPass, board: Switch, wanted: int) -> Generator[None, SeenStep, Window]:
    if not one.start():
        return Window(True, 0, None)
    steps, clean, begun = 0, True, time.perf_counter_ns()
    totals = None
    try:
        while clean and (not steps or (steps < wanted and time.perf_counter_ns() - begun < LONGEST_NS)):
            step = yield
            steps += 1
            clean = step.regular and not step.compiles and board.failure is None
    finally:  # also when the script comes to its end in here
        totals = one.stop()
    return Window(clean, steps, totals if clean else None)

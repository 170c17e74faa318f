"""Recorded sessions, played back: for tests of planning, statistics, verdicts and reports in milliseconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Union

from ..model import ArmClosed, Control, Event, SessionDone, SessionExit, SessionSpec, StepsSeen

KILLED = -9


@dataclass(frozen=True)
class Wait:
    """A stretch of the recording in which nothing is said. ``float("inf")`` is a worker that hangs."""

    seconds: float


Item = Union[Event, Wait]
Recording = Union[Iterable[Item], Callable[[SessionSpec], Iterable[Item]]]


class ScriptedExecutor:
    """An executor without processes and without a real clock.

    ``sessions`` holds one recording for each ``start``, in order: the events of the session, or a function
    that makes them from the spec. One more ``start`` than recordings raises ``LookupError``.

    Rules of the player:

    - ``poll`` returns the next ``batch`` events, fewer where a ``Wait`` or the end comes first. The default
      is one, so that a wish sent after an event takes effect before the next.
    - Time stands still but for ``Wait``. ``clock()`` is the time, and belongs to the executor, so that
      sessions side by side share it. A ``Wait`` is over that many seconds after the player has come to it. A
      poll that finds it unfinished moves the clock on by ``wait_s`` at most and returns nothing if that was
      not enough: limits on time can be tested, and a loop that polls with ``wait_s=0`` makes no progress, as
      in life. Times inside the recorded events are left as they are.
    - ``send(Control("next", arm))`` jumps to the ``ArmClosed`` of that arm, or of any arm for ``None``; what
      lies between is not played. Where none is to come, nothing changes: the wish came too late.
    - ``send(Control("stop"))`` ends the session with ``SessionDone`` (why: control) and ``SessionExit`` 0.
    - ``kill(why)`` leaves nothing but ``SessionExit`` -9. A session that is ending takes no wishes.
    - A recording without a ``SessionExit`` gets one with code 0; nothing is played after the first.

    - A diagnosis pass plays ``observation``, by default nothing, and is listed in ``observed``, not in ``started``.

    ``started`` lists the sessions, with their specs and what was sent to them, for assertions::

        executor = ScriptedExecutor([[ready, Wait(5.0), block, closed], lambda spec: blocks_for(spec.arms)])
        engine.run(executor, clock=executor.clock)
        assert executor.started[0].sent == [Control("next", "default")]
    """

    def __init__(
        self, sessions: Sequence[Recording], start_s: float = 0.0, batch: int = 1, observation: Recording = ()
    ) -> None:
        self.terminal = False
        self._recordings = deque(sessions)
        self._now_s, self._batch = start_s, batch
        self._observation = observation
        self.started: list[ScriptedSession] = []
        self.observed: list[ScriptedSession] = []

    def clock(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time pass, as work of the driver's own would."""
        self._now_s += seconds

    def start(self, spec: SessionSpec) -> ScriptedSession:
        if spec.purpose == "observe":
            self.observed.append(self._session(self._observation, spec))
            return self.observed[-1]
        if not self._recordings:
            raise LookupError(f"session {spec.session} was started, but only {len(self.started)} were recorded")
        self.started.append(self._session(self._recordings.popleft(), spec))
        return self.started[-1]

    def _session(self, recording: Recording, spec: SessionSpec) -> ScriptedSession:
        return ScriptedSession(self, spec, recording(spec) if callable(recording) else recording, self._batch)


class ScriptedSession:
    """One recording being played; made by ``ScriptedExecutor.start``, which states the rules."""

    def __init__(self, executor: ScriptedExecutor, spec: SessionSpec, items: Iterable[Item], batch: int) -> None:
        self.spec = spec
        self.sent: list[Control] = []
        self._executor, self._batch = executor, batch
        self._items = deque(items)
        self._steps, self._ending = 0, False
        self._due_s: float | None = None
        self._exit: SessionExit | None = None

    @property
    def exit(self) -> SessionExit | None:
        return self._exit

    def poll(self, wait_s: float) -> list[Event]:
        events: list[Event] = []
        while self._exit is None and len(events) < self._batch:
            item = self._items[0] if self._items else self._exit_now(0)
            if isinstance(item, Wait):
                if events or not self._wait_is_over(item, wait_s):
                    break
            else:
                events.append(item)
                self._note(item)
            if self._items:
                self._items.popleft()
        return events

    def send(self, control: Control) -> None:
        self.sent.append(control)
        if self._ending or control.verb == "try":  # a recording has no queue
            return
        if control.verb == "next":
            self._jump_to_end_of(control.arm)
        else:
            self._play_instead(SessionDone(self._executor.clock(), "control", self._steps), self._exit_now(0))
            self._ending = True

    def kill(self, why: str) -> None:
        self._play_instead(self._exit_now(KILLED, why))
        self._ending = True

    def _wait_is_over(self, item: Wait, wait_s: float) -> bool:
        now_s = self._executor.clock()
        if self._due_s is None:
            self._due_s = now_s + item.seconds
        if now_s + wait_s < self._due_s:
            self._executor.advance(wait_s)
            return False
        self._executor.advance(max(0.0, self._due_s - now_s))
        self._due_s = None
        return True

    def _note(self, event: Event) -> None:
        if isinstance(event, StepsSeen):
            self._steps = event.steps
        elif isinstance(event, SessionDone):
            self._ending = True
        elif isinstance(event, SessionExit):
            self._exit = event

    def _jump_to_end_of(self, arm: str | None) -> None:
        for index, item in enumerate(self._items):
            if isinstance(item, ArmClosed) and arm in (None, item.arm):
                self._play_instead(*list(self._items)[index:])
                return

    def _play_instead(self, *items: Item) -> None:
        self._items = deque(items)
        self._due_s = None

    def _exit_now(self, code: int, why: str | None = None) -> SessionExit:
        return SessionExit(self._executor.clock(), self.spec.session, code, why)

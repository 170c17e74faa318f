"""All that is known of a run so far: a fold over its events, in the order in which they happened.

Planning reads it while the run goes on, the verdict when it is over. One fold, so that both see the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..model import (
    Anatomy,
    AnatomyFound,
    ArmClosed,
    ArmReady,
    ArmStarted,
    ArmVoided,
    ArmWarming,
    Block,
    Event,
    FileTouched,
    KernelsMeasured,
    Memory,
    Observed,
    Outcome,
    PhasesMeasured,
    Place,
    Ratio,
    ScriptEnded,
    SessionDone,
    SessionExit,
    SessionStarted,
    Sighted,
    StepsSeen,
    TorchLoaded,
    TrainingFound,
)
from .statistics import Pair, ratio_of_means


@dataclass
class ArmRecord:
    """One arm, over all sessions that tried it."""

    id: str
    started: int = 0
    spent_s: float = 0.0
    ready: list[tuple[bool, ArmReady]] = field(default_factory=list)
    warming: ArmWarming | None = None
    blocks: dict[int, dict[str, Block]] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    outcome: Outcome | None = None
    why: str = ""
    traceback: str = ""
    where: Place | None = None
    _ratio: Ratio | None = None
    _ratio_size: int = 0

    def pairs(self) -> list[Pair]:
        """Whole pairs, steady blocks only where there are any: a block with a compile in it is a cost, not a speed."""
        whole = [b for b in self.blocks.values() if len(b) == 2]
        steady = [b for b in whole if not any(x.compiles for x in b.values())]
        chosen = steady if len(steady) * 2 >= len(whole) else whole
        return [
            Pair(
                b["base"].total_ns / b["base"].steps,
                b["arm"].total_ns / b["arm"].steps,
                b["base"].elements / b["base"].steps,
                b["arm"].elements / b["arm"].steps,
            )
            for b in chosen
        ]

    def ratio(self) -> Ratio | None:
        """The ratio over all pairs."""
        return ratio_of_means(self.pairs())

    def ratio_lately(self) -> Ratio | None:
        """The same, at most some pairs old: cheap enough to be asked for ten times a second."""
        size = len(self.blocks)
        if size > 1.03 * self._ratio_size or size < 40:
            self._ratio_size, self._ratio = size, self.ratio()
        return self._ratio

    def compiling_share(self) -> float | None:
        """Share of the timed arm blocks in which something was still compiled."""
        arms = [b["arm"] for b in self.blocks.values() if "arm" in b]
        return sum(x.compiles > 0 for x in arms) / len(arms) if arms else None

    @property
    def cold(self) -> ArmReady | None:
        return next((ready for cold, ready in self.ready if cold), None)

    @property
    def warm(self) -> ArmReady | None:
        return next((ready for cold, ready in reversed(self.ready) if not cold), None)

    @property
    def open(self) -> bool:
        return self.outcome is None


@dataclass
class Ledger:
    """The state of a run."""

    anatomy: Anatomy | None = None
    phases: PhasesMeasured | None = None
    facts: dict[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    sighted: dict[tuple[object, ...], Sighted] = field(default_factory=dict)
    observed: Observed | None = None
    kernels: list[KernelsMeasured] = field(default_factory=list)
    arms: dict[str, ArmRecord] = field(default_factory=dict)
    files: list[FileTouched] = field(default_factory=list)
    endings: list[ScriptEnded] = field(default_factory=list)
    exits: list[SessionExit] = field(default_factory=list)
    sessions: int = 0
    steps: int = 0
    session_steps: int = 0
    current: str | None = None
    arm_at_exit: str | None = None
    current_cold: bool = False
    ready: bool = False
    last_event_s: float = 0.0
    script_steps: int | None = None
    eager_reach: int = 0  # the furthest step that any session reached with nothing compiled
    session_has_steps: bool = False
    session_has_torch: bool = False
    training_ahead: bool = False
    observing: bool = False  # the session under way is the diagnosis pass, which compiles everything
    observed_ending: ScriptEnded | None = None
    startup_s: float = 0.0  # from the start of the last session to its first arm
    _session_began_s: float = 0.0
    _session_arms: int = 0

    def add(self, event: Event) -> None:
        if self.current is not None:
            self.arm(self.current).spent_s += max(0.0, event.at_s - self.last_event_s)
        self.last_event_s = max(self.last_event_s, event.at_s)
        match event:
            case SessionStarted():
                self.sessions += 1
                self.observing, self.session_has_torch = event.purpose == "observe", False
                self._session_began_s, self._session_arms = event.at_s, 0
                self.current, self.ready, self.session_steps, self.session_has_steps = None, False, 0, False
            case TorchLoaded():
                self.facts, self.libraries, self.session_has_torch = event.facts, event.libraries, True
            case AnatomyFound():
                self.anatomy = event.anatomy
                self.session_has_steps = True
            case TrainingFound():
                self._begin_anew()
            case PhasesMeasured():
                self.phases = event
            case StepsSeen():
                self._steps(event.steps)
            case ArmStarted():
                self._started(event)
            case ArmWarming():
                self.arm(event.arm).warming = event
            case Sighted():
                self.sighted[(event.what, event.where, tuple(event.detail.items()))] = event
            case Observed():
                self.observed = event
            case KernelsMeasured():
                self.kernels.append(event)
            case ArmReady():
                self.ready = True
                self.arm(event.arm).ready.append((self.current_cold, event))
            case Block():
                self.arm(event.arm).blocks.setdefault(event.pair, {})[event.side] = event
            case Memory():
                record = self.arm(event.arm)
                record.peaks[event.side] = max(record.peaks.get(event.side, 0), event.peak_bytes)
            case ArmClosed():
                self._closed(event)
            case ArmVoided():
                record = self.arm(event.arm)
                record.outcome, record.why = event.outcome, event.why
            case FileTouched():
                self.files.append(event)
            case ScriptEnded() if self.observing:
                self.observed_ending = event
                self._steps(event.steps)
            case ScriptEnded():
                self.endings.append(event)
                self._steps(event.steps)
                if self.session_steps and (event.code == 0 or event.arm in (None, "aa", "verify")):
                    self.script_steps = self.session_steps
            case SessionDone():
                self._steps(event.steps)
            case SessionExit():
                self.exits.append(event)
                self.arm_at_exit, self.current = self.current, None

    def starts(self, arm: str) -> int:
        """How often ``arm`` was started."""
        return self.arms[arm].started if arm in self.arms else 0

    def arm(self, arm: str) -> ArmRecord:
        """The record of ``arm``, made if there is none yet."""
        return self.arms.setdefault(arm, ArmRecord(arm))

    def _steps(self, steps: int) -> None:
        if self.current in (None, "aa", "verify") and not self.observing:
            self.eager_reach = max(self.eager_reach, steps)
        if steps > self.session_steps:
            self.steps += steps - self.session_steps
            self.session_steps = steps

    def _begin_anew(self) -> None:
        self.training_ahead = True
        self.anatomy = self.phases = self.current = None
        self.arms = {}

    def _started(self, event: ArmStarted) -> None:
        self._steps(event.step)
        if not self._session_arms:
            self.startup_s = event.at_s - self._session_began_s
        self._session_arms += 1
        record = self.arm(event.arm)
        record.started += 1
        self.current, self.current_cold, self.ready = event.arm, event.cold, False

    def _closed(self, event: ArmClosed) -> None:
        record = self.arm(event.arm)
        record.outcome, record.why, record.traceback = event.outcome, event.why, event.traceback
        record.where = event.where
        self.current = None


def fold(events: Iterable[Event]) -> Ledger:
    """The ledger after all of these events, in order: the replay of a stored run."""
    ledger = Ledger()
    for event in events:
        ledger.add(event)
    return ledger

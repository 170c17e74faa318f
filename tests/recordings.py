"""Events, anatomies and whole recorded sessions, made by hand. For tests; starts no process and reads no clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from speedproof import codec
from speedproof.execute.scripted import Item, ScriptedExecutor, ScriptedSession, Wait
from speedproof.model import (
    SCHEMA_VERSION,
    Anatomy,
    AnatomyFound,
    Arm,
    ArmClosed,
    ArmReady,
    ArmStarted,
    Block,
    Boundary,
    CallMode,
    Command,
    CompileLog,
    Control,
    Event,
    LoaderFact,
    PhasesMeasured,
    Place,
    Root,
    RunMeta,
    ScriptEnded,
    SessionDone,
    SessionExit,
    SessionSpec,
    SessionStarted,
    SiteFact,
    StepsSeen,
    TorchLoaded,
)
from speedproof.plan.arms import standard_arms
from speedproof.store import append_line

TRAIN = CallMode(training=True, grad=True)
COMPUTE_PHASES = {"data": 1, "forward": 35, "loss": 2, "backward": 50, "optimizer": 11, "other": 1}
LOADER_PHASES = {"data": 97, "forward": 1, "backward": 1, "other": 1}


def network(index: int = 0, name: str = "ResNet", target: bool = True) -> Root:
    return Root(index, name, "network", 25_557_032, 1.0, (TRAIN,), "cpu", Place("train.py", 30), target)


def anatomy(device: str = "cpu", sites: tuple[SiteFact, ...] = (), roots: tuple[Root, ...] | None = None) -> Anatomy:
    return Anatomy(
        kind="training",
        boundary=Boundary("optimizer", 0, 1, "optimizer step"),
        roots=(network(),) if roots is None else roots,
        optimizers=(),
        loaders=(LoaderFact("Images", 8, 2, False, True, 100),),
        sites=sites,
        backwards_per_step=1.0,
        evaluation_calls=0,
        device=device,
        steps_seen=12,
        step_s=0.02,
    )


def site(options: dict[str, str] | None = None, name: str = "ResNet") -> SiteFact:
    return SiteFact(0, name, "call", Place("train.py", 41), options or {}, 12)


def meta(arms: Sequence[Arm] | None = None, budget_s: float = 600.0, planned_steps: int | None = None) -> RunMeta:
    return RunMeta(
        schema_version=SCHEMA_VERSION,
        version="0",
        command=Command("train.py", None, ("--epochs", "3")),
        cwd="/project",
        python="/usr/bin/python",
        started="2026-12-01T15:30:12+00:00",
        started_s=1_000.0,
        budget_s=budget_s,
        threshold=0.05,
        planned_steps=planned_steps,
        seed=0,
        arms=standard_arms() if arms is None else tuple(arms),
    )


def log(graphs: int = 1) -> CompileLog:
    return CompileLog(graphs, 120 * graphs, (), (), 1, False, {"backend": 1.0})


def ready(arm: str, at_s: float = 0.0, warmup_s: float = 8.0, steps: int = 4, graphs: int = 1) -> ArmReady:
    return ArmReady(at_s, arm, steps, int(warmup_s * 1e9), int(warmup_s * 9e8), 0, True, log(graphs))


def block(
    arm: str, pair: int, side: str, step_ms: float = 20.0, steps: int = 4, compiles: int = 0, at_s: float = 0.0
) -> Block:
    total_ns = int(step_ms * 1e6 * steps)
    assert side in ("base", "arm")
    kind = "base" if side == "base" else "arm"
    return Block(at_s, arm, pair, kind, 0, (), total_ns, steps, compiles, steps, 64 * steps)  # type: ignore[arg-type]


def pair_of_blocks(arm: str, pair: int, base_ms: float = 20.0, arm_ms: float = 20.0, compiles: int = 0) -> list[Event]:
    return [block(arm, pair, "base", base_ms), block(arm, pair, "arm", arm_ms, compiles=compiles)]


def ended(code: int = 0, error: str = "", arm: str | None = None, steps: int = 50, line: int = 80) -> ScriptEnded:
    where = Place("train.py", line) if code else None
    return ScriptEnded(0.0, code, error, "it broke" if code else "", "Traceback ...", where, steps, arm)


# -------------------------------------------------------------------------------------------------------------------
# What one arm does in a session. Each is a function of the number of its first pair.
# -------------------------------------------------------------------------------------------------------------------

Behaviour = Callable[[int, int], list[Item]]  # (first pair, number of the session) -> what happens


def timed(
    arm: str, speedup: float, pairs: int = 80, compile_s: float = 8.0, noise: float = 0.005, block_s: float = 0.08
) -> Behaviour:
    """Warms up, cold when it has no pairs yet, then is timed; the eager arms need no warm-up."""

    def happen(first: int, session: int) -> list[Item]:
        chance = random.Random(f"{arm}/{first}")
        items: list[Item] = [ArmStarted(0.0, arm, session, first == 0, 10)]
        if arm not in ("aa", "verify"):
            items += [Wait(compile_s), ready(arm, warmup_s=compile_s)]
        for number in range(first, first + pairs):
            for side, step_ms in (("base", 20.0), ("arm", 20.0 / speedup)):
                items += [Wait(block_s), block(arm, number, side, step_ms * chance.gauss(1.0, noise))]
        return [*items, ArmClosed(0.0, arm, "completed", "")]

    return happen


def crashing(arm: str) -> Behaviour:
    """The compiled call raises; the worker goes on without it."""
    return lambda first, session: [
        ArmStarted(0.0, arm, session, True, 10),
        Wait(3.0),
        ArmClosed(0.0, arm, "crashed", "BackendCompilerFailed: no kernel", "Traceback ..."),
    ]


def capturing_nothing(arm: str) -> Behaviour:
    return lambda first, session: [
        ArmStarted(0.0, arm, session, True, 10),
        Wait(1.0),
        ready(arm, warmup_s=1.0, graphs=0),
        ArmClosed(0.0, arm, "unsupported", "nothing was compiled: no frame reached Dynamo"),
    ]


def dying(arm: str, code: int, before: Sequence[Item] = ()) -> Behaviour:
    """The whole process goes."""
    return lambda first, session: [
        ArmStarted(0.0, arm, session, True, 10),
        Wait(3.0),
        *before,
        SessionExit(0.0, session, code, None),
    ]


def hanging(arm: str, while_compiling: bool) -> Behaviour:
    def happen(first: int, session: int) -> list[Item]:
        items: list[Item] = [ArmStarted(0.0, arm, session, True, 10)]
        if not while_compiling:
            items += [Wait(2.0), ready(arm, warmup_s=2.0)]
        return [*items, Wait(float("inf"))]

    return happen


def stop_script(behaviour: Behaviour, pairs: int, end: ScriptEnded) -> Behaviour:
    """``behaviour`` for so many pairs; then the script comes to its own end."""

    def happen(first: int, session: int) -> list[Item]:
        kept: list[Item] = []
        blocks = 0
        for item in behaviour(first, session):
            if isinstance(item, Block):
                blocks += 1
                if blocks > 2 * pairs:
                    break
            kept.append(item)
        return [*kept, StepsSeen(0.0, end.steps, end.arm), end, SessionExit(0.0, session, end.code, None)]

    return happen


# -------------------------------------------------------------------------------------------------------------------
# Whole sessions
# -------------------------------------------------------------------------------------------------------------------


@dataclass
class Script:
    """A user's script as a worker sees it. ``queued``: what the driver will add in the first session."""

    anatomy: Anatomy
    arms: dict[str, Behaviour]
    queued: tuple[str, ...] = ()
    phases: dict[str, int] = field(default_factory=lambda: dict(COMPUTE_PHASES))
    startup_s: float = 2.0

    def session(self, spec: SessionSpec) -> list[Item]:
        """The recording of one session: the arms that it was given, and those that are added to it."""
        names = [a.id for a in spec.arms] + (list(self.queued) if spec.session == 0 else [])
        items: list[Item] = [
            SessionStarted(0.0, spec.session, 4711, "/usr/bin/python"),
            Wait(self.startup_s),
            TorchLoaded(0.0, {"torch": "2.14.1", "device": self.anatomy.device}),
            AnatomyFound(0.0, self.anatomy),
        ]
        if spec.measure_phases:
            total = sum(self.phases.values())
            items += [Wait(0.5), PhasesMeasured(0.0, 12, total * 1000, {k: 1000 * v for k, v in self.phases.items()})]
        for name in names:
            items += self.arms[name](spec.schedule.pairs_done.get(name, 0), spec.session)
        return [*items, SessionDone(0.0, "queue", 400), SessionExit(0.0, spec.session, 0, None)]


class CtrlC:
    """Stands in a recording where the user presses Ctrl-C."""


class Stage:
    """A ``ScriptedExecutor`` whose events bear the time at which they are played, and are kept as a worker keeps them.

    Arms that are queued with "try" are part of the recordings already.
    """

    def __init__(self, sessions: Sequence[Callable[[SessionSpec], list[Item]]]) -> None:
        self.executor = ScriptedExecutor(sessions, start_s=1_000.0)
        self.terminal = False
        self.sessions: list[Performance] = []
        self.observations: list[Performance] = []

    def clock(self) -> float:
        return self.executor.clock()

    def start(self, spec: SessionSpec) -> Performance:
        of_its_kind = self.observations if spec.purpose == "observe" else self.sessions
        of_its_kind.append(Performance(self.executor, self.executor.start(spec)))
        return of_its_kind[-1]

    @property
    def plans(self) -> list[list[str]]:
        """The arms that each trial was started with."""
        return [[arm.id for arm in session.spec.arms] for session in self.sessions]


class Performance:
    """One session on the stage."""

    def __init__(self, executor: ScriptedExecutor, player: ScriptedSession) -> None:
        self._executor, self._player = executor, player
        self.spec = player.spec
        self.sent: list[Control] = []

    @property
    def exit(self) -> SessionExit | None:
        return self._player.exit

    def poll(self, wait_s: float) -> list[Event]:
        events = self._player.poll(wait_s)
        if any(isinstance(event, CtrlC) for event in events):
            raise KeyboardInterrupt
        if events:
            self._executor.advance(0.001)
        stamped = [replace(event, at_s=self._executor.clock()) for event in events]
        for event in stamped:
            append_line(Path(self.spec.events_path), codec.encode_line(event))
        if stamped:
            self._executor.advance(0.001)
        return stamped

    def send(self, control: Control) -> None:
        self.sent.append(control)
        if control.verb != "try":
            self._player.send(control)

    def kill(self, why: str) -> None:
        self._player.kill(why)

"""Events: what a worker says, one JSON line each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Union

from .anatomy import Anatomy, Place
from .asks import Purpose


@dataclass(frozen=True)
class SessionStarted:
    """The first line of every session. ``python`` is the interpreter that runs the script."""

    at_s: float
    session: int
    pid: int
    python: str
    purpose: Purpose = "trial"


@dataclass(frozen=True)
class TorchLoaded:
    """``facts`` is the allow-list of environment facts that reports may show.

    ``libraries`` are the folders of this interpreter whose code is not the user's own.
    """

    at_s: float
    facts: dict[str, str]
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True)
class AnatomyFound:
    """The loop is understood; arms can start."""

    at_s: float
    anatomy: Anatomy


@dataclass(frozen=True)
class TrainingFound:
    """What was measured as inference was only the prelude: the script trains after all. All is to begin anew."""

    at_s: float


@dataclass(frozen=True)
class PhasesMeasured:
    """Exclusive wall time of each phase over ``steps`` steps."""

    at_s: float
    steps: int
    total_ns: int
    phases_ns: dict[str, int]


@dataclass(frozen=True)
class StepsSeen:
    """A sign of life, at most one a second."""

    at_s: float
    steps: int
    arm: str | None


@dataclass(frozen=True)
class ArmStarted:
    """An arm was switched on at ``step``. ``cold``: no earlier session has filled its compile cache."""

    at_s: float
    arm: str
    session: int
    cold: bool
    step: int = 0


@dataclass(frozen=True)
class GraphBreak:
    """One entry of Dynamo's structured trace. ``stack`` is innermost last.

    ``outside_ns``: the time a step spends outside compiled regions from here to the next one, where that was measured.
    """

    reason: str
    explanation: str
    hints: tuple[str, ...]
    stack: tuple[Place, ...]
    compile_id: str | None
    outside_ns: int | None = None


@dataclass(frozen=True)
class Recompile:
    """A frame was compiled again since a guard failed. ``stack`` is innermost last.

    ``reason`` is the guard of the newest entry, ``others`` are those of older ones; ``step`` is when it happened.
    """

    reason: str
    stack: tuple[Place, ...]
    compile_id: str | None
    others: tuple[str, ...] = ()
    step: int | None = None
    cost_s: float | None = None


@dataclass(frozen=True)
class CapturedGraph:
    """A frame that was compiled to the end. ``lines``: operations by ``file:line`` of the source they come from.

    ``stages_s`` are seconds by stage of the compiler; ``where`` is the function that was captured.
    """

    where: Place | None
    ops: int
    compile_id: str | None
    stages_s: dict[str, float] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CompileLog:
    """What compiling one arm produced. Counts are of this arm alone."""

    graphs: int
    ops: int
    breaks: tuple[GraphBreak, ...]
    recompiles: tuple[Recompile, ...]
    frames: int
    limit_hit: bool
    stages_s: dict[str, float]
    warnings: tuple[str, ...] = ()
    captured: tuple[CapturedGraph, ...] = ()
    cudagraph_skips: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()  # compile errors that suppress_errors turned into eager, silently


@dataclass(frozen=True)
class ArmReady:
    """The arm is warm. ``stall_ns``: wall time of its warm-up beyond what the same steps take when steady."""

    at_s: float
    arm: str
    warmup_steps: int
    warmup_ns: int
    compiling_ns: int
    tracing_ns: int
    settled: bool
    log: CompileLog


@dataclass(frozen=True)
class ArmWarming:
    """The compile log of an arm that is not warm yet: what is known should it never get there."""

    at_s: float
    arm: str
    log: CompileLog


@dataclass(frozen=True)
class Sighted:
    """Something that the script does, at a line of the user's own code; what it means is the analysis' business.

    ``what`` is one of the words in ``worker/sightings.py``. ``count`` and ``ns`` (wall time spent there) are totals
    over ``steps`` steps, or over the whole process where ``steps`` is ``None``. A later event with the same ``what``,
    ``where`` and ``detail`` replaces an earlier one.
    """

    at_s: float
    what: str
    where: Place | None
    count: int
    ns: int | None = None
    steps: int | None = None
    detail: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Observed:
    """The diagnosis pass: the script with everything compiled by Dynamo alone, untimed. Totals so far."""

    at_s: float
    steps: int
    log: CompileLog
    quiet_steps: int = 0
    whole: bool = False


@dataclass(frozen=True)
class KernelsMeasured:
    """Time by kind of kernel over ``steps`` steps of one side, from a profiler pass. All figures are totals.

    ``wall_ns`` is the time of those steps, ``busy_ns`` the part of it in which at least one kernel ran;
    ``kinds_ns`` and ``kinds_count`` go by the kinds in ``worker/kernels.py``; ``top_ns`` are the largest kernels by
    name. On a CPU, kernels are operators (self time); on an accelerator, what ran on the device.
    """

    at_s: float
    arm: str
    side: Literal["base", "arm"]
    steps: int
    wall_ns: int
    busy_ns: int
    kinds_ns: dict[str, int]
    kinds_count: dict[str, int]
    top_ns: dict[str, int]


@dataclass(frozen=True)
class Block:
    """Consecutive regular steps with one arm. ``side`` is base (eager) or arm."""

    at_s: float
    arm: str
    pair: int
    side: Literal["base", "arm"]
    position: int
    step_ns: tuple[int, ...]
    total_ns: int
    steps: int
    compiles: int
    calls: int
    elements: int
    device_ns: int | None = None


@dataclass(frozen=True)
class Memory:
    """Peak of the allocator on the device over the blocks of one side."""

    at_s: float
    arm: str
    side: Literal["base", "arm"]
    peak_bytes: int


Outcome = Literal["completed", "skipped", "crashed", "timed_out", "out_of_memory", "unsupported", "cancelled"]
ArmEnd = Literal["completed", "crashed", "out_of_memory", "unsupported", "cancelled"]


@dataclass(frozen=True)
class ArmClosed:
    """Written by the worker: it is done with this arm in this session, and how that ended."""

    at_s: float
    arm: str
    outcome: ArmEnd
    why: str
    traceback: str = ""
    where: Place | None = None


@dataclass(frozen=True)
class FileTouched:
    """A file of the user's that the script wrote. ``kept`` is our copy of what stood there before, if anything."""

    at_s: float
    path: str
    how: Literal["created", "changed", "removed", "diverted"]
    kept: str | None


@dataclass(frozen=True)
class ScriptEnded:
    """The script came to its own end: by return, ``sys.exit`` or an exception."""

    at_s: float
    code: int
    error: str
    message: str
    traceback: str
    where: Place | None
    steps: int
    arm: str | None


@dataclass(frozen=True)
class SessionDone:
    """The worker stopped the script itself. ``why``: queue, control."""

    at_s: float
    why: str
    steps: int


@dataclass(frozen=True)
class SessionExit:
    """Written by the driver when a worker is gone. ``code``: exit status, negative for a signal."""

    at_s: float
    session: int
    code: int
    killed_by_driver: str | None
    output_tail: str = ""


@dataclass(frozen=True)
class ArmVoided:
    """Written by the driver: it closed this arm itself, and why (timed out, cancelled, skipped)."""

    at_s: float
    arm: str
    outcome: Outcome
    why: str


Event = Union[
    SessionStarted,
    TorchLoaded,
    AnatomyFound,
    TrainingFound,
    PhasesMeasured,
    StepsSeen,
    ArmStarted,
    ArmReady,
    ArmWarming,
    Sighted,
    Observed,
    KernelsMeasured,
    Block,
    Memory,
    ArmClosed,
    FileTouched,
    ScriptEnded,
    SessionDone,
    SessionExit,
    ArmVoided,
]

"""Every data type that crosses a border: driver to worker, worker to store, store to analysis, analysis to report.

Standard library only, since the worker imports this file inside the user's process. All types are frozen
dataclasses; alternatives are unions, told apart in JSON by a ``type`` field (see ``codec``).

Units are in the names: ``_ns`` and ``_s`` are durations, ``_bytes`` are sizes. Unknown is ``None``, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Union

SCHEMA_VERSION = 1

# ----------------------------------------------------------------------------------------------------------
# What the driver asks for
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """The user's command line, without the interpreter: a script file or a module, and its arguments."""

    script: str | None
    module: str | None
    args: tuple[str, ...] = ()

    def words(self) -> tuple[str, ...]:
        """The words that follow ``python`` on the command line."""
        head = ("-m", self.module or "") if self.module is not None else (self.script or "",)
        return (*head, *self.args)


ArmKind = Literal["eager", "as_written", "compile", "rival"]


@dataclass(frozen=True)
class ArmConfig:
    """How one arm runs the switched modules. The fields of ``torch.compile``, plus what they apply to."""

    scope: str = "networks"
    mode: str | None = None
    backend: str | None = None
    dynamic: bool | None = None
    fullgraph: bool = False
    options: dict[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Arm:
    """One alternative to the eager baseline. ``id`` is the variant id in the verdict file."""

    id: str
    label: str
    kind: ArmKind
    config: ArmConfig = ArmConfig()


@dataclass(frozen=True)
class Schedule:
    """How a session spends its steps.

    ``block_s`` is the wished length of a block; ``max_pairs`` ends an arm when no driver does it earlier;
    ``pairs_done`` are the pairs each arm has from earlier sessions; ``steady_steps`` are the steps in a row
    without a compile that end a warm-up, ``warmup_steps`` the most it may take; ``script_steps`` is the length of
    the script where an earlier session saw its end; ``linger_s`` is how long an empty queue waits for the driver;
    ``training_ahead``: an earlier session took what comes before the training for the loop.
    """

    seed: int = 0
    block_s: float = 0.02
    max_pairs: int = 60
    pairs_done: dict[str, int] = field(default_factory=dict)
    steady_steps: int = 2
    warmup_steps: int = 60
    phase_steps: int = 12
    phase_s: float = 3.0
    script_steps: int | None = None
    patience_s: float = 60.0
    training_ahead: bool = False
    linger_s: float = 0.0


@dataclass(frozen=True)
class SessionSpec:
    """Everything one worker process needs: a trial is this in, JSON lines out."""

    session: int
    command: Command
    arms: tuple[Arm, ...]
    schedule: Schedule
    events_path: str
    control_path: str
    scratch_dir: str
    cache_dir: str
    anatomy: Anatomy | None = None
    measure_phases: bool = True
    environment: dict[str, str] = field(default_factory=dict)


Steer = Literal["try", "next", "stop"]


@dataclass(frozen=True)
class Control:
    """A line that the driver appends to the control file: queue ``add``, close ``arm``, or end the session."""

    verb: Steer
    arm: str | None = None
    add: Arm | None = None


# ----------------------------------------------------------------------------------------------------------
# The anatomy of a script
# ----------------------------------------------------------------------------------------------------------

RootRole = Literal["network", "loss", "transform", "evaluation"]
BoundaryKind = Literal["optimizer", "backward", "loader", "call"]


@dataclass(frozen=True)
class Place:
    """A line of source."""

    file: str
    line: int
    function: str | None = None


@dataclass(frozen=True)
class CallMode:
    """The switches of a module call that compile guards on: train or eval, gradients on or off."""

    training: bool
    grad: bool


@dataclass(frozen=True)
class Root:
    """A top-level module that the loop calls. ``index`` is the order of first calls, the same in each session."""

    index: int
    name: str
    role: RootRole
    parameters: int
    calls_per_step: float
    modes: tuple[CallMode, ...]
    device: str
    where: Place | None
    target: bool
    shapes_seen: int = 1


@dataclass(frozen=True)
class Boundary:
    """What ends a step: the ``index``-th optimizer, loader or callable, ``every`` so many of its events."""

    kind: BoundaryKind
    index: int
    every: int = 1
    label: str = ""


@dataclass(frozen=True)
class OptimizerFact:
    """An optimizer of the loop. ``steps`` are those seen so far, ``parameters`` counts scalars."""

    name: str
    steps: int
    parameters: int
    foreach_or_fused: bool
    closure_calls: int = 0


@dataclass(frozen=True)
class LoaderFact:
    """A ``DataLoader`` of the loop, with the settings that decide whether data is the bottleneck."""

    dataset: str
    batch_size: int | None
    workers: int
    pin_memory: bool
    drop_last: bool | None
    batches: int | None
    prefetch: int = 2


@dataclass(frozen=True)
class SiteFact:
    """A place where the script itself asks for compilation. ``how``: call, decorator or method."""

    index: int
    name: str
    how: str
    where: Place | None
    options: dict[str, str]
    calls: int = 0


@dataclass(frozen=True)
class Anatomy:
    """What the loop of a script is made of, as seen in its first steps in eager mode."""

    kind: Literal["training", "inference"]
    boundary: Boundary
    roots: tuple[Root, ...]
    optimizers: tuple[OptimizerFact, ...]
    loaders: tuple[LoaderFact, ...]
    sites: tuple[SiteFact, ...]
    backwards_per_step: float
    evaluation_calls: int
    device: str
    steps_seen: int
    step_s: float
    notes: tuple[str, ...] = ()


# ----------------------------------------------------------------------------------------------------------
# Events: what a worker says, one JSON line each
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SessionStarted:
    """The first line of every session. ``python`` is the interpreter that runs the script."""

    at_s: float
    session: int
    pid: int
    python: str


@dataclass(frozen=True)
class TorchLoaded:
    """``facts`` is the allow-list of environment facts that reports may show."""

    at_s: float
    facts: dict[str, str]


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
    """One entry of Dynamo's structured trace. ``stack`` is innermost last."""

    reason: str
    explanation: str
    hints: tuple[str, ...]
    stack: tuple[Place, ...]
    compile_id: str | None


@dataclass(frozen=True)
class Recompile:
    """A frame was compiled again since a guard failed. ``stack`` is innermost last."""

    reason: str
    stack: tuple[Place, ...]
    compile_id: str | None


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
    Block,
    Memory,
    ArmClosed,
    FileTouched,
    ScriptEnded,
    SessionDone,
    SessionExit,
    ArmVoided,
]

# ----------------------------------------------------------------------------------------------------------
# Results: the verdict file
# ----------------------------------------------------------------------------------------------------------

VerdictKind = Literal["worth_it", "worth_it_after_fix", "not_worth_it", "unsafe", "inconclusive", "failed"]
PHASES = ("data", "transfer", "forward", "loss", "backward", "optimizer", "other")


@dataclass(frozen=True)
class Ratio:
    """A ratio of mean step times, eager / variant, with a 95% interval valid at any stopping time."""

    ratio: float
    low: float | None
    high: float | None
    pairs: int = 0


@dataclass(frozen=True)
class Mean:
    """Mean step time in milliseconds with its 95% interval."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Baseline:
    """The script as it is in eager mode. ``phases`` are shares of a step and add up to 1."""

    step_ms: Mean | None
    steps: int
    phases: dict[str, float] | None
    peak_bytes: int | None


@dataclass(frozen=True)
class Ceiling:
    """The most that any compiler could gain, given what it cannot touch (Amdahl)."""

    max_speedup: float | None
    why: str


@dataclass(frozen=True)
class Noise:
    """Eager against eager. ``smallest_effect`` is the gain, as a share, that this machine can resolve."""

    aa: Ratio | None
    smallest_effect: float | None


@dataclass(frozen=True)
class CompileCost:
    """Seconds that the warm-up stalls the loop, with an empty and with a filled compile cache."""

    cold: float | None
    warm: float | None


@dataclass(frozen=True)
class Numerics:
    """Whether the variant computes what eager computes; ``worst`` tells the largest difference."""

    status: Literal["pass", "fail", "not_checked"] = "not_checked"
    worst: str | None = None


@dataclass(frozen=True)
class Variant:
    """One row of the report: what was tried, how that ended, and what it gained and cost."""

    id: str
    label: str
    config: ArmConfig
    kind: Literal["compile", "rival"]
    outcome: Outcome
    why: str
    speedup: Ratio | None = None
    compile_s: CompileCost = CompileCost(None, None)
    break_even_steps: int | None = None
    peak_bytes: int | None = None
    graphs: int | None = None
    graph_breaks: int | None = None
    recompiles: int | None = None
    numerics: Numerics = Numerics()
    ops: int | None = None
    settled: bool | None = None
    compiling_share: float | None = None


Severity = Literal["info", "warning", "error"]
FindingLabel = Literal["user_code", "library", "compiler", "benign"]


@dataclass(frozen=True)
class Finding:
    """Something in the script that stands in the compiler's way. ``cost_ms`` is per step."""

    slug: str
    severity: Severity
    where: Place | None
    count: int | None
    cost_ms: float | None
    why: str
    hints: tuple[str, ...]
    label: FindingLabel
    fix: str | None = None


@dataclass(frozen=True)
class Claim:
    """A piece of common advice, answered for this script with evidence."""

    id: str
    answer: Literal["helps", "no_difference", "hurts", "not_applicable", "myth", "not_tried"]
    evidence: str


@dataclass(frozen=True)
class Verdict:
    """``reasons`` are slugs for machines, ``why`` says the same to people."""

    kind: VerdictKind
    summary: str
    best: str | None
    reasons: tuple[str, ...]
    advice: tuple[str, ...]
    why: str = ""  # the reasons in plain words and numbers


@dataclass(frozen=True)
class Result:
    """The verdict file of the contract, plus the anatomy."""

    schema_version: int
    verdict: Verdict
    baseline: Baseline
    ceiling: Ceiling
    noise: Noise
    variants: tuple[Variant, ...]
    findings: tuple[Finding, ...]
    claims: tuple[Claim, ...]
    environment: dict[str, str]
    command: tuple[str, ...]
    started: str
    elapsed_s: float
    anatomy: Anatomy | None = None
    files: tuple[FileTouched, ...] = ()
    failure: ScriptEnded | None = None
    exit_code: int = 0
    planned_steps: int | None = None
    sessions: int = 0


@dataclass(frozen=True)
class RunMeta:
    """What was asked for; written before the first process starts."""

    schema_version: int
    version: str
    command: Command
    cwd: str
    python: str
    started: str
    started_s: float
    budget_s: float
    threshold: float
    planned_steps: int | None
    seed: int
    arms: tuple[Arm, ...]
    environment: dict[str, str] = field(default_factory=dict)

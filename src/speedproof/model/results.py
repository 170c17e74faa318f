"""Results: the verdict file, and what is stored beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .anatomy import Anatomy, Place
from .asks import Arm, ArmConfig, Command
from .events import FileTouched, Outcome, ScriptEnded

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
    stages_s: dict[str, float] = field(default_factory=dict)  # seconds of compiling by stage, cold


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
class KernelRow:
    """The kernels of one kind in a mean step, eager and compiled: milliseconds and launches."""

    kind: str
    eager_ms: float
    compiled_ms: float
    eager_count: float
    compiled_count: float


@dataclass(frozen=True)
class KernelTable:
    """Where the time of a step went, eager against the variant ``arm``. All figures are of a mean profiled step.

    ``gap_ms`` is the part of a step in which no kernel ran: Python, guards, dispatch, waiting.
    ``largest`` are the largest compiled kernels, as name and milliseconds.
    """

    arm: str
    rows: tuple[KernelRow, ...]
    eager_step_ms: float
    compiled_step_ms: float
    eager_gap_ms: float
    compiled_gap_ms: float
    largest: dict[str, float] = field(default_factory=dict)


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
    kernels: KernelTable | None = None


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

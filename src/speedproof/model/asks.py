"""What the driver asks for: a command, arms, a schedule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .anatomy import Anatomy


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


Purpose = Literal["trial", "observe"]


@dataclass(frozen=True)
class SessionSpec:
    """Everything one worker process needs: a trial is this in, JSON lines out.

    ``purpose``: time arms (``trial``), or look at what the compiler does with the script, untimed (``observe``).
    """

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
    measure_kernels: bool = False  # off: a profiler started inside optimizer.step, where steps end, spoils the heap
    purpose: Purpose = "trial"
    environment: dict[str, str] = field(default_factory=dict)


Steer = Literal["try", "next", "stop"]


@dataclass(frozen=True)
class Control:
    """A line that the driver appends to the control file: queue ``add``, close ``arm``, or end the session."""

    verb: Steer
    arm: str | None = None
    add: Arm | None = None

"""One step of the loop, an arm on its way to the steady state, and why there may be none."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from .compile_log import CompileRecorder
from .places import is_user_file


@dataclass(frozen=True)
class Step:
    """One step of the loop, boundary to boundary."""

    start_ns: int
    end_ns: int
    calls: int
    elements: int
    compiles: int
    regular: bool

    @property
    def ns(self) -> int:
        return self.end_ns - self.start_ns


Steps = Generator[None, Step, None]


@dataclass
class WarmUp:
    """An arm on its way to the steady state."""

    arm: str
    busy_before_ns: int
    recorder: CompileRecorder = field(default_factory=CompileRecorder)
    steps: int = 0
    spent_ns: int = 0
    calls: int = 0
    quiet: int = 0

    def count(self, step: Step) -> None:
        self.steps += 1
        self.spent_ns += step.ns
        self.calls += step.calls
        self.quiet = 0 if step.compiles or not step.calls else self.quiet + 1


def why_nothing(calls: int, breaks: Iterable[object], frames: int) -> str:
    """Why a warm arm has no graph (design, facts 19 and 24)."""
    first = next(iter(breaks), None)
    if calls == 0:
        return "nothing was compiled: the switched modules were not called in the warm-up"
    if first is not None:
        reason = getattr(first, "reason", "")
        stack = getattr(first, "stack", ())
        own = [p for p in stack if is_user_file(p.file)] or list(stack)
        place = f" at {os.path.basename(own[-1].file)}:{own[-1].line}" if own else ""
        return f"nothing was compiled: Dynamo gave the whole frame up because of a graph break{place}: {reason}"
    if frames == 0:
        return "nothing was compiled: no frame reached Dynamo (the calls bypass the compiled entry)"
    return f"nothing was compiled: Dynamo looked at {frames} frames and captured no operation"

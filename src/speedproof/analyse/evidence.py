"""What the findings get to see: the ledger, the figures made from it, and the user's source as it was."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ..model import Anatomy, Baseline, CompileLog, Place, RunMeta, Sighted, Variant
from .ledger import Ledger
from .source import Sources

_LIBRARY = re.compile(r"^<|/(?:site|dist)-packages/|/lib/python3\.\d+/|/speedproof/(?:worker|trace)/")


@dataclass(frozen=True)
class Evidence:
    """All that is known of a run. Findings read it and nothing else; none of it is changed."""

    meta: RunMeta
    ledger: Ledger
    baseline: Baseline
    variants: tuple[Variant, ...]
    sources: Sources = field(default_factory=Sources)
    memo: dict[str, object] = field(default_factory=dict, compare=False, repr=False)

    @property
    def anatomy(self) -> Anatomy | None:
        """The loop, where it was understood."""
        return self.ledger.anatomy

    @property
    def step_ms(self) -> float | None:
        """The mean time of an eager step."""
        if self.baseline.step_ms is not None:
            return self.baseline.step_ms.mean
        phases = self.ledger.phases  # no block was timed: the stop watch of the phases is the next best
        return phases.total_ns / phases.steps / 1e6 if phases is not None and phases.steps else None

    @property
    def script_steps(self) -> int | None:
        """How long the job is: as planned, else as seen to the end."""
        return self.meta.planned_steps if self.meta.planned_steps is not None else self.ledger.script_steps

    def is_user(self, place: Place) -> bool:
        """Whether this is a line of the user's own code: not of a library, the interpreter or generated code."""
        if _LIBRARY.search(place.file):
            return False
        return not place.file.startswith(tuple(self.ledger.libraries))

    def own(self, stack: Iterable[Place]) -> tuple[Place, ...]:
        """The user's own frames of a stack, innermost last."""
        return tuple(p for p in stack if self.is_user(p))

    def innermost(self, stack: Iterable[Place]) -> Place | None:
        """The innermost line of the user's own code, with the function it is in."""
        own = self.own(stack)
        return own[-1] if own else None

    def sighted(self, what: str) -> tuple[Sighted, ...]:
        """What was seen under this word, in the order of first sight."""
        return tuple(s for s in self.ledger.sighted.values() if s.what == what)

    @cached_property
    def logs(self) -> tuple[tuple[str, CompileLog], ...]:
        """Every compile log by arm; the diagnosis pass, named ``observed``, comes first."""
        return tuple(self._logs())

    def _logs(self) -> Iterator[tuple[str, CompileLog]]:
        if self.ledger.observed is not None:
            yield "observed", self.ledger.observed.log
        for arm, record in self.ledger.arms.items():
            if record.ready:
                yield arm, (record.cold or record.ready[0][1]).log
            elif record.warming is not None:
                yield arm, record.warming.log

    @property
    def compiles_itself(self) -> bool:
        """Whether the script itself asks for compilation."""
        return self.anatomy is not None and bool(self.anatomy.sites)

    def share_of_step(self, ms: float | None) -> float | None:
        """A cost a step as a share of the eager step; ``None`` where either is not known."""
        return None if ms is None or not self.step_ms else ms / self.step_ms

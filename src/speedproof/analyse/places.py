"""Which of the user's files the events of a run point at: those are worth keeping beside it."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import SCHEMA_VERSION, Anatomy, Baseline, Command, CompileLog, Place, RunMeta
from .evidence import Evidence
from .ledger import Ledger
from .source import Sources

# Stands in where there was no run: nothing was asked for.
_NO_RUN = RunMeta(
    schema_version=SCHEMA_VERSION,
    version="",
    command=Command(None, None),
    cwd="",
    python="",
    started="",
    started_s=0.0,
    budget_s=0.0,
    threshold=0.05,
    planned_steps=None,
    seed=0,
    arms=(),
)


def bare_evidence(ledger: Ledger, sources: Sources | None = None) -> Evidence:
    """What a ledger alone tells, without a run: no baseline and no variants."""
    return Evidence(_NO_RUN, ledger, Baseline(None, 0, None, None), (), sources or Sources())


def user_files(ledger: Ledger) -> tuple[str, ...]:
    """The files of the user's own code that events name, each once, the most telling first."""
    evidence = bare_evidence(ledger)
    return tuple(dict.fromkeys(p.file for p in _places(evidence) if p.file and evidence.is_user(p)))


def _places(evidence: Evidence) -> Iterator[Place]:
    """Every place that a finding may point at: the loop first, then what was seen, then what the compiler said."""
    ledger = evidence.ledger
    named = [*_of_anatomy(ledger.anatomy), *(e.where for e in ledger.endings)]
    named += [s.where for s in ledger.sighted.values()]
    yield from (place for place in named if place is not None)
    logs = [log for _, log in evidence.logs]
    for log in logs:
        yield from _of_stacks(log)
    for log in logs:
        yield from _of_graphs(log)


def _of_anatomy(anatomy: Anatomy | None) -> Iterator[Place | None]:
    if anatomy is None:
        return
    yield from (site.where for site in anatomy.sites)
    yield from (root.where for root in anatomy.roots)
    yield from (loader.where for loader in anatomy.loaders)
    yield from (optimizer.where for optimizer in anatomy.optimizers)


def _of_stacks(log: CompileLog) -> Iterator[Place]:
    stacks = [b.stack for b in log.breaks] + [r.stack for r in log.recompiles]
    for stack in stacks:
        yield from reversed(stack)  # the innermost line is the one that is told


def _of_graphs(log: CompileLog) -> Iterator[Place]:
    for graph in log.captured:
        if graph.where is not None:
            yield graph.where
        for line in graph.lines:
            file, _, number = line.rpartition(":")
            yield Place(file, int(number) if number.isdigit() else 0)

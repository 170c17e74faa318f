"""Starts the worker as the driver does, without driver or guard, and keeps all that it said. For tests."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from speedproof import codec
from speedproof.analyse.findings import find_all
from speedproof.analyse.ledger import fold
from speedproof.analyse.places import bare_evidence, user_files
from speedproof.analyse.source import Sources
from speedproof.execute.environment import TRACKERS_OFF
from speedproof.execute.local import WORKER_PROGRAM
from speedproof.model import (
    Anatomy,
    AnatomyFound,
    Arm,
    Command,
    Event,
    Finding,
    PhasesMeasured,
    Root,
    Schedule,
    SessionSpec,
)
from speedproof.store import decode_events, read_sources

SCRIPTS = Path(__file__).parent / "scripts"
LIMIT_S = 100.0
TWO_PAIRS = Schedule(max_pairs=2, block_s=0.002)
T = TypeVar("T")


@dataclass(frozen=True)
class Told:
    """What a process left: its status, its output, and the events where it was a worker."""

    code: int
    stdout: str
    stderr: str
    events: tuple[Event, ...] = ()

    def all(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    def one(self, kind: type[T]) -> T:
        found = self.all(kind)
        assert len(found) == 1, f"{len(found)} of {kind.__name__}\n{self.events}\n{self.stdout[-500:]}\n{self.stderr}"
        return found[0]

    @property
    def anatomy(self) -> Anatomy:
        return self.one(AnatomyFound).anatomy

    @property
    def targets(self) -> list[str]:
        return [root.name for root in self.anatomy.roots if root.target]

    def roots(self, name: str) -> list[Root]:
        return [root for root in self.anatomy.roots if root.name == name]


def spec_of(folder: Path, command: Command, arms: tuple[Arm, ...], schedule: Schedule) -> SessionSpec:
    scratch = folder / "session"
    return SessionSpec(
        session=0,
        command=command,
        arms=arms,
        schedule=schedule,
        events_path=str(scratch / "events.jsonl"),
        control_path=str(scratch / "control.jsonl"),
        scratch_dir=str(scratch / "scratch"),
        cache_dir=str(folder / "cache"),
        measure_phases=bool(arms),
        environment=TRACKERS_OFF,
    )


def under_worker(
    folder: Path,
    command: Command,
    arms: tuple[Arm, ...] = (),
    schedule: Schedule = TWO_PAIRS,
    cwd: Path | None = None,
) -> Told:
    """One session. Without arms it ends as soon as the anatomy is known, or with the script."""
    spec = spec_of(folder, command, arms, schedule)
    Path(spec.scratch_dir).mkdir(parents=True)
    Path(spec.cache_dir).mkdir(exist_ok=True)
    written = folder / "session" / "spec.json"
    written.write_text(codec.dumps(spec))
    told = process([str(WORKER_PROGRAM), str(written)], cwd or folder, spec.environment)
    return Told(told.code, told.stdout, told.stderr, tuple(decode_events(Path(spec.events_path).read_bytes())))


def diagnosed(folder: Path, script: Path) -> tuple[Finding, ...]:
    """The findings of a look at the loop and a diagnosis pass, without any timing."""
    command = Command(str(script), None)
    look = spec_of(folder / "look", command, (), Schedule())
    events = _events_of(replace(look, measure_phases=True), folder)
    anatomy = next(e.anatomy for e in events if isinstance(e, AnatomyFound))
    if not any(isinstance(e, PhasesMeasured) for e in events):  # it was over before its loop was understood
        again = spec_of(folder / "again", command, (), Schedule())
        events += _events_of(replace(again, measure_phases=True, anatomy=anatomy), folder)
    observe = spec_of(folder / "observe", command, (), Schedule())
    events += _events_of(replace(observe, anatomy=anatomy, purpose="observe"), folder)
    ledger = fold(events)
    return find_all(bare_evidence(ledger, Sources(read_sources(user_files(ledger)))))


def _events_of(spec: SessionSpec, cwd: Path) -> list[Event]:
    Path(spec.scratch_dir).mkdir(parents=True)
    Path(spec.cache_dir).mkdir(exist_ok=True)
    written = Path(spec.events_path).with_name("spec.json")
    written.write_text(codec.dumps(spec))
    told = process([str(WORKER_PROGRAM), str(written)], cwd, spec.environment)
    assert told.code == 0, told.stderr
    return decode_events(Path(spec.events_path).read_bytes())


def plain(cwd: Path, *words: str) -> Told:
    """``python WORDS``, without us."""
    return process(list(words), cwd, {})


def process(words: list[str], cwd: Path, environment: dict[str, str]) -> Told:
    # a session of its own, since a worker that trained in a child ends its whole process group
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        start_new_session=True,
    )
    return Told(done.returncode, done.stdout, done.stderr)

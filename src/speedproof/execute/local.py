"""Sessions as processes of this machine, each under its own guard (see ``guard``).

A session is a folder: ``spec.json`` goes in, ``events.jsonl`` comes out, ``control.jsonl`` holds our wishes,
``output.log`` what the script printed. The worker may run in any interpreter; only the guard runs in ours.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from .. import codec
from ..model import Control, Event, SessionExit, SessionSpec
from ..store import append_line, decode_events
from . import guard

WORKER_PROGRAM = Path(__file__).resolve().parent.parent / "worker" / "bootstrap.py"
KEPT_MANIFEST = "kept.jsonl"  # in the scratch folder; written by the worker, read by the guard
LOG_LIMIT_BYTES = 1 << 20
TAIL_BYTES = 8 << 10
LOOK_S = 0.03
GUARD_PATIENCE_S = 10.0


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a guarded command ended. ``not_restored``: files of the user's that could not be put back."""

    code: int
    output_tail: str
    restored: tuple[str, ...] = ()
    not_restored: tuple[guard.NotRestored, ...] = ()


class LocalExecutor:
    """Runs sessions here. As a context manager, or at the driver's exit, it ends those that still live.

    ``python`` is the user's interpreter, ``driver_python`` the one for the guard. ``environment`` is the
    complete environment of the workers (default: ours); what a spec asks for is laid over it. Relative paths
    of a spec are taken from ``run_dir``.
    """

    def __init__(
        self,
        run_dir: Path,
        python: str,
        cwd: str,
        environment: Mapping[str, str] | None = None,
        terminal: bool = False,
        driver_python: str = sys.executable,
        worker_program: Path = WORKER_PROGRAM,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._run_dir, self._cwd = run_dir.absolute(), cwd
        self._python, self._driver_python = python, driver_python
        self._environment = dict(os.environ if environment is None else environment)
        self.terminal, self._worker_program, self._clock = terminal, worker_program, clock
        # Weak, as a long-lived driver would otherwise keep each session and its executor until it exits.
        self._sessions: weakref.WeakSet[LocalSession] = weakref.WeakSet()
        atexit.register(_close_if_there, weakref.ref(self))

    def start(self, spec: SessionSpec) -> LocalSession:
        spec = self._with_whole_paths(spec)
        folder = Path(spec.events_path).parent
        for needed in (folder, Path(spec.scratch_dir), Path(spec.cache_dir)):
            needed.mkdir(parents=True, exist_ok=True)
        written = folder / "spec.json"
        written.write_text(codec.dumps(spec), encoding="utf-8")
        config: guard.GuardConfig = {
            "command": [self._python, str(self._worker_program), str(written)],
            "cwd": self._cwd,
            "env": {**self._environment, **spec.environment},
            "log_path": str(folder / "output.log"),
            "kept_manifest": str(Path(spec.scratch_dir) / KEPT_MANIFEST),
            "terminal": self.terminal,
            "log_limit_bytes": LOG_LIMIT_BYTES,
        }
        session = LocalSession(spec, Guarded(config, self._driver_python), self._clock)
        self._sessions.add(session)
        return session

    def close(self) -> None:
        """End every session that still lives."""
        for session in list(self._sessions):
            session.kill("the driver ended")

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _with_whole_paths(self, spec: SessionSpec) -> SessionSpec:
        return dataclasses.replace(
            spec,
            events_path=str(self._run_dir / spec.events_path),
            control_path=str(self._run_dir / spec.control_path),
            scratch_dir=str(self._run_dir / spec.scratch_dir),
            cache_dir=str(self._run_dir / spec.cache_dir),
        )


class LocalSession:
    """One worker process; made by ``LocalExecutor.start``."""

    def __init__(self, spec: SessionSpec, guarded: Guarded, clock: Callable[[], float]) -> None:
        self.spec = spec
        self._guarded, self._clock = guarded, clock
        self._events = EventTail(Path(spec.events_path))
        self._exit: SessionExit | None = None
        self._killed: str | None = None
        self._not_restored: tuple[guard.NotRestored, ...] = ()

    @property
    def exit(self) -> SessionExit | None:
        return self._exit

    @property
    def not_restored(self) -> tuple[guard.NotRestored, ...]:
        """Files of the user's that could not be put back after the trial; known once ``exit`` is."""
        return self._not_restored

    def poll(self, wait_s: float) -> list[Event]:
        deadline = time.monotonic() + wait_s
        while self._exit is None:
            ended = self._guarded.has_ended()  # asked before the file is read, so that no last line is missed
            events = self._events.new()
            if ended:
                return [*events, self._finish()]
            left_s = deadline - time.monotonic()
            if events or left_s <= 0:
                return events
            time.sleep(min(LOOK_S, left_s))
        return []

    def send(self, control: Control) -> None:
        append_line(Path(self.spec.control_path), codec.encode_line(control))

    def kill(self, why: str) -> None:
        if not self._guarded.has_ended():
            self._killed = self._killed or why
            self._guarded.end()

    def _finish(self) -> SessionExit:
        ended = self._guarded.ended()
        self._not_restored = ended.not_restored
        self._exit = SessionExit(
            at_s=self._clock(),
            session=self.spec.session,
            code=ended.code,
            killed_by_driver=self._killed,
            output_tail=ended.output_tail,
        )
        append_line(Path(self.spec.events_path), codec.encode_line(self._exit))
        return self._exit


def run_plain(
    python: str,
    words: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    timeout_s: float,
    log_path: Path,
    terminal: bool = False,
) -> tuple[int | None, str]:
    """Run ``python WORDS...`` without a worker. Returns its exit code and the end of its output.

    The code is ``None`` where the command still ran after ``timeout_s`` seconds and was ended.
    """
    config: guard.GuardConfig = {
        "command": [python, *words],
        "cwd": cwd,
        "env": dict(environment),
        "log_path": str(log_path),
        "kept_manifest": None,
        "terminal": terminal,
        "log_limit_bytes": LOG_LIMIT_BYTES,
    }
    guarded = Guarded(config, sys.executable)
    try:
        in_time = guarded.wait(timeout_s)
    finally:
        guarded.end()
    ended = guarded.ended()
    return (ended.code if in_time else None), ended.output_tail


class Guarded:
    """A command under a guard process. The guard's own files lie beside the log."""

    def __init__(self, config: guard.GuardConfig, driver_python: str) -> None:
        self._config = config
        log = Path(config["log_path"]).absolute()
        log.parent.mkdir(parents=True, exist_ok=True)
        self._said = log.with_name(f"{log.stem}.guard.out")
        self._config_path = log.with_name(f"{log.stem}.guard.json")
        _write_private(self._config_path, json.dumps(config))
        # Its words go to a file: a pipe would fill up and block it, or break when the driver is gone. A
        # session of its own, since Ctrl-C and a closed terminal are the driver's to handle.
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [driver_python, "-I", "-S", guard.__file__, str(self._config_path)],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self, timeout_s: float) -> bool:
        """Whether the command ended by itself within the time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> None:
        """End the command and all that it started; returns when they are gone and files are put back."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended already
            self._process.stdin.write(b"kill\n")
        if not self.wait(GUARD_PATIENCE_S):
            self._process.kill()
            self._process.wait()

    def ended(self) -> Ended:
        """What the guard had to say. Where it was itself killed, we do what it could not do any more."""
        self._let_go()
        said = read_tail(self._said, 1 << 30)
        tail = read_tail(Path(self._config["log_path"]), TAIL_BYTES)
        report = _line_with("code", said)
        if report is not None:
            return Ended(report["code"], tail, tuple(report["restored"]), tuple(report["not_restored"]))
        started = _line_with("pid", said)
        if started is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(started["pid"], signal.SIGKILL)
        restored, failed = guard.put_back(self._config["kept_manifest"])
        lost = f"{tail}\nspeedproof: the guard of this process was lost\n{said[-TAIL_BYTES:]}"
        return Ended(-signal.SIGKILL, lost, tuple(restored), tuple(failed))

    def _let_go(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._config_path.unlink(missing_ok=True)


def _line_with(key: str, said: str) -> dict[str, Any] | None:
    for line in said.splitlines():
        with contextlib.suppress(ValueError):
            plain = json.loads(line)
            if isinstance(plain, dict) and key in plain:
                return plain
    return None


class EventTail:
    """Reads the events that a worker appends to its file, whole lines only."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def new(self) -> list[Event]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._offset += len(whole) + len(newline)
        return decode_events(whole)


def read_tail(path: Path, size: int) -> str:
    """The last ``size`` bytes of a file as text; nothing where there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _write_private(path: Path, text: str) -> None:
    """For our eyes only: the environment in it holds people's keys."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _close_if_there(executor: weakref.ref[LocalExecutor]) -> None:
    there = executor()
    if there is not None:
        there.close()

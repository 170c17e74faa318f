"""The run directory: everything a run measured, append-only, so that reports can be made from it at any time.

::

    .speedproof/20261201-153012-train/
        meta.json                 what was asked for (RunMeta)
        driver.jsonl              the driver's own events
        sessions/000/events.jsonl what the worker of the first session said, its SessionExit last
        verdict.json              the Result, once there is one

Whole files are written atomically. Event files may end in half a line when a process is killed; readers leave
it out, and so does what is appended later.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from . import codec
from .errors import SpeedproofError
from .model import SCHEMA_VERSION, Event, Result, RunMeta

META, DRIVER_EVENTS, VERDICT, SESSIONS, EVENTS = (
    "meta.json",
    "driver.jsonl",
    "verdict.json",
    "sessions",
    "events.jsonl",
)
T = TypeVar("T", RunMeta, Result)


@dataclass(frozen=True)
class RunStore:
    """Where one run writes."""

    path: Path

    @staticmethod
    def create(base: Path, meta: RunMeta, exact: Path | None = None) -> RunStore:
        """A new run directory under ``base``, or the ``exact`` one; ``meta`` is written to it.

        An ``exact`` directory that holds a former run is moved aside to PATH.1, PATH.2, ... Raises
        ``SpeedproofError`` where ``exact`` is anything else that we must not write into.
        """
        path = _new_directory(base, meta) if exact is None else _exact_directory(exact)
        store = RunStore(path.absolute())
        write_atomically(store.path / META, codec.dumps(meta))
        return store

    @staticmethod
    def open(path: Path) -> RunStore:
        """An existing run directory. Raises ``SpeedproofError`` where ``path`` is none."""
        load_meta(path)
        return RunStore(path.absolute())

    def session_dir(self, session: int) -> Path:
        """The directory of a session; made if needed."""
        folder = self.path / SESSIONS / f"{session:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def append(self, event: Event) -> None:
        append_line(self.path / DRIVER_EVENTS, codec.encode_line(event))

    def write_result(self, result: Result) -> None:
        write_atomically(self.path / VERDICT, codec.dumps(result))


# -----------------------------------------------------------------------------------------------------------
# Reading
# -----------------------------------------------------------------------------------------------------------


def load_meta(path: Path) -> RunMeta:
    """Raises ``SpeedproofError`` where ``path`` is no run directory, or one of a newer version."""
    if not (path / META).is_file():
        seen = "it has no meta.json" if path.is_dir() else "there is no such directory"
        raise SpeedproofError(
            "no-run-directory",
            f"{path} is no speedproof run: {seen}.",
            "Pass the directory of a run, such as .speedproof/20261201-153012-train; "
            "`speedproof list` shows those that are there.",
        )
    return _load(RunMeta, path / META)


def load_result(path: Path) -> Result:
    """The verdict of a run. Raises ``SpeedproofError`` where it has none."""
    load_meta(path)
    if not (path / VERDICT).is_file():
        raise SpeedproofError(
            "no-verdict",
            f"The run in {path} has no verdict.json: it is still at work, or was cut off before its end.",
            "What it measured is kept. Wait for its end, or run it again with `speedproof run`.",
        )
    return _load(Result, path / VERDICT)


def load_events(path: Path) -> list[Event]:
    """All events of a run, by time. Those of one process stay in the order in which it wrote them.

    Missing files are empty; what cannot be read as an event is left out.
    """
    files = [path / DRIVER_EVENTS, *sorted((path / SESSIONS).glob(f"*/{EVENTS}"))]
    # A merge, not a sort: a wall clock that is set back must not turn cause and effect round.
    return list(heapq.merge(*map(_events_of, files), key=lambda event: event.at_s))


def list_runs(base: Path) -> list[Path]:
    """The run directories in ``base``, newest first."""
    runs = []
    for meta in base.glob(f"*/{META}"):
        with contextlib.suppress(SpeedproofError):
            runs.append((load_meta(meta.parent).started_s, meta.parent))
    return [path for _, path in sorted(runs, reverse=True)]


def decode_events(lines: bytes) -> list[Event]:
    """The events in the bytes of an event file. Half lines and junk are left out."""
    events: list[Event] = []
    for line in lines.split(b"\n"):
        with contextlib.suppress(codec.DecodeError):
            events.append(codec.decode_line(Event, line.decode("utf-8", "replace")))
    return events


def _events_of(file: Path) -> list[Event]:
    try:
        return decode_events(file.read_bytes())
    except FileNotFoundError:
        return []


def _load(kind: type[T], file: Path) -> T:
    try:
        loaded = codec.loads(kind, file.read_text(encoding="utf-8"))
    except (codec.DecodeError, UnicodeDecodeError) as error:
        raise SpeedproofError(
            "damaged-run",
            f"{file} cannot be read as {kind.__name__}: {error}.",
            "The file was changed or damaged after it was written. Run again with `speedproof run`.",
        ) from error
    if loaded.schema_version > SCHEMA_VERSION:
        raise SpeedproofError(
            "newer-run",
            f"{file} has schema version {loaded.schema_version}, and this speedproof reads {SCHEMA_VERSION}.",
            "Upgrade speedproof to at least the version that made the run.",
        )
    return loaded


# -----------------------------------------------------------------------------------------------------------
# Writing
# -----------------------------------------------------------------------------------------------------------


def append_line(path: Path, line: str) -> None:
    """Append one line with one ``write``, so that a kill leaves all of it or none.

    Where the file ends in half a line, its remains are closed first and do not swallow this one.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(fd).st_size
        torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        os.write(fd, b"\n" * torn + line.encode() + b"\n")
    finally:
        os.close(fd)


def write_atomically(path: Path, text: str) -> None:
    """Readers see the file before or after, never in between."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _new_directory(base: Path, meta: RunMeta) -> Path:
    if not base.exists():
        base.mkdir(parents=True)
        (base / ".gitignore").write_text("*\n", encoding="utf-8")
    name = f"{datetime.fromtimestamp(meta.started_s):%Y%m%d-%H%M%S}-{_stem(meta)}"
    for number in range(1, 10_000):
        path = base / (name if number == 1 else f"{name}-{number}")
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path
    raise AssertionError(f"{name} was taken 10,000 times")


def _stem(meta: RunMeta) -> str:
    what = Path(meta.command.script or "").stem or (meta.command.module or "").rpartition(".")[2]
    return re.sub(r"[^\w.-]+", "_", what)[:60] or "run"


def _exact_directory(path: Path) -> Path:
    if path.is_dir() and any(path.iterdir()):
        if not (path / META).is_file():
            raise SpeedproofError(
                "out-not-empty",
                f"{path} is not empty and holds no speedproof run, so nothing was written to it.",
                "Pass a directory that does not exist yet, or an empty one.",
            )
        path.rename(_free_name(path))
    elif path.exists() and not path.is_dir():
        raise SpeedproofError("out-not-a-directory", f"{path} is a file.", "Pass the path of a directory for the run.")
    path.mkdir(parents=True, exist_ok=True)
    return path


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    return aside

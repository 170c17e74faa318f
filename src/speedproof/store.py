"""The run directory: everything a run measured, append-only, so that reports can be made from it at any time.

::

    .speedproof/20261201-153012-train/
        meta.json                 what was asked for (RunMeta)
        driver.jsonl              the driver's own events
        sessions/000/events.jsonl what the worker of the first session said, its SessionExit last
        sources/                  the user's files that events point at, as they were; index.json says which is which
        verdict.json              the Result, once there is one

Whole files are written atomically. Event files may end in half a line when a process is killed; readers leave
it out, and so does what is appended later.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from . import codec
from .errors import SpeedproofError
from .model import SCHEMA_VERSION, Event, Result, RunMeta

META, DRIVER_EVENTS, VERDICT, SESSIONS, EVENTS, SOURCES, INDEX = (
    "meta.json",
    "driver.jsonl",
    "verdict.json",
    "sessions",
    "events.jsonl",
    "sources",
    "index.json",
)
BASE = Path(".speedproof")  # where runs are, unless they are told another place
LATEST = "latest"
MOST_SOURCES = 60
LARGEST_SOURCE_BYTES = 1_000_000
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

    def keep_sources(self, paths: Iterable[str]) -> dict[str, str]:
        """Copy these files into the run, so that it can be explained elsewhere and later; returns their texts.

        The most important come first: only ``MOST_SOURCES`` are kept. What cannot be read, or written, is left out:
        a report without excerpts is better than none.
        """
        texts = read_sources(paths)
        with contextlib.suppress(OSError):
            _write_sources(self.path / SOURCES, texts)
        return texts


# -----------------------------------------------------------------------------------------------------------
# Reading
# -----------------------------------------------------------------------------------------------------------


def load_meta(path: Path) -> RunMeta:
    """Raises ``SpeedproofError`` where ``path`` is no run directory, or one of a newer version."""
    if not is_run(path):
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


def read_sources(paths: Iterable[str]) -> dict[str, str]:
    """The texts of those files that are there, are text, and are not too large; at most ``MOST_SOURCES``."""
    texts: dict[str, str] = {}
    for path in paths:
        if len(texts) == MOST_SOURCES:
            break
        text = _text_of(Path(path))
        if text is not None:
            texts[path] = text
    return texts


def load_sources(run: Path) -> dict[str, str]:
    """The source files that a run kept, by the path they had; empty where it kept none."""
    folder = run / SOURCES
    texts: dict[str, str] = {}
    for path, name in _index_of(folder).items():
        # a run may come from anybody: its index must not make us read what lies elsewhere
        inside = isinstance(name, str) and Path(name).name == name and not (folder / name).is_symlink()
        text = _kept_text(folder / str(name)) if inside else None
        if text is not None and len(texts) < MOST_SOURCES:
            texts[path] = text
    return texts


def is_run(path: Path) -> bool:
    """Whether this is a run directory; of which version, and whether it can be read, is another matter."""
    return (path / META).is_file()


def resolve_run(path: Path) -> Path:
    """The run directory that is meant: ``path`` itself, the newest in it, or the newest of all for ``latest``."""
    if is_run(path):
        return path
    is_latest = str(path) == LATEST and not path.exists()
    runs = list_runs(BASE if is_latest else path)
    if is_latest and not runs:
        raise SpeedproofError(
            "no-runs", f"There is no run under {BASE} yet.", "Make one with `speedproof run SCRIPT.py`, or name one."
        )
    return runs[0] if runs else path


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


def _index_of(folder: Path) -> dict[str, object]:
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return index if isinstance(index, dict) else {}


def _text_of(file: Path) -> str | None:
    """The text of a source file, decoded as Python would; ``None`` where it is none."""
    try:
        if not file.is_file() or file.stat().st_size > LARGEST_SOURCE_BYTES:
            return None
        with tokenize.open(file) as opened:
            text = opened.read()
    except (OSError, ValueError, SyntaxError):  # unreadable; not in its encoding; of an encoding that nobody knows
        return None
    return None if "\0" in text else text


def _kept_text(file: Path) -> str | None:
    """A text that was kept: in UTF-8, whatever its first lines say of its encoding."""
    try:
        return file.read_text(encoding="utf-8") if file.stat().st_size <= 4 * LARGEST_SOURCE_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None


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


def _write_sources(folder: Path, texts: dict[str, str]) -> None:
    if not texts:
        return
    folder.mkdir(exist_ok=True)
    names = {path: f"{number:03d}-{_plain_name(path)}" for number, path in enumerate(texts)}
    for path, name in names.items():
        write_atomically(folder / name, texts[path])
    write_atomically(folder / INDEX, json.dumps(names, indent=1))


def _plain_name(path: str) -> str:
    return re.sub(r"[^\w.-]+", "_", Path(path).name, flags=re.ASCII)[-60:]


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

"""Trace files, as ``TORCH_TRACE=folder`` writes them: one for each process, hundreds of megabytes if need be.

A record is a line ``V1203 12:00:00.123456 pid path:line] {json}``, and its payload the lines after it, each behind a
tab. Several processes may share a file: a launcher that collects the output of its ranks puts ``[rank1]:`` before
each line. Records are told apart by that and by the process id, so ranks may be interleaved line by line.

Files are read once, in pieces, and never held: payloads that nobody reads are dropped as they pass by. Nothing about
the content raises; lines that make no sense are passed over. Errors of the file system are raised as ``OSError``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..model import CompileLog
from .fold import KINDS, TraceFold, payload_wanted
from .values import mapping, parsed, whole

PIECE_BYTES = 256 * 1024
MOST_LINE_BYTES = 1024 * 1024
MOST_PROCESSES = 256

_HEADER = re.compile(rb"[VIWEC]\d{4,8} [\d:.]{5,20} +(\d{1,10}) [^\]]{1,4096}\](?: \[[^\]]{0,100}\])? (\{.*)", re.S)
_KIND = re.compile(rb'\{\s*"(\w{1,64})"')
_RANK = re.compile(rb"\[[A-Za-z_]{0,40}(\d{1,6})\]: ?(.*)", re.S)
_RANK_IN_NAME = re.compile(r"rank_?(\d{1,6})")
_KINDS = frozenset(kind.encode() for kind in KINDS)


def read_file(path: Path | str) -> CompileLog:
    """The log of one process: of the lowest rank, should the file hold several (``read_ranks`` has them all).

    An empty log if there is no record in the file. ``OSError`` if it cannot be read or is no regular file.
    """
    logs = read_ranks(path)
    return next(iter(logs.values()), TraceFold().log())


def read_ranks(path: Path | str) -> dict[str, CompileLog]:
    """All processes in a file, in the order of their ranks: by ``rank3``, or by the file's name if it has no rank."""
    path = Path(path)
    return read_stream(_pieces(path), path.name)


def read_folder(path: Path | str) -> dict[str, CompileLog]:
    """All ``*.log`` files right in a folder, keyed as in ``read_ranks``; a second of a name gets its file's name too.

    Files without records are left out. ``OSError`` if the folder cannot be listed, or a file in it not be read.
    """
    logs: dict[str, CompileLog] = {}
    for file in sorted(Path(path).iterdir()):
        if file.suffix == ".log" and file.is_file():
            for label, log in read_ranks(file).items():
                logs[label if label not in logs else f"{label} of {file.name}"] = log
    return logs


def read_stream(pieces: Iterable[bytes], name: str = "trace") -> dict[str, CompileLog]:
    """As ``read_ranks``, of bytes that come in pieces of any size. ``name`` stands for the file's name."""
    reader = TraceReader(name)
    for piece in pieces:
        reader.feed(piece)
    return reader.logs()


def _pieces(path: Path) -> Iterator[bytes]:
    """The file as long as it is now: one that is still being written is not followed."""
    if path.exists() and not path.is_file():  # to open a pipe may block for ever
        raise OSError(f"not a regular file: {path}")
    with open(path, "rb") as file:
        left = os.fstat(file.fileno()).st_size
        while left > 0 and (piece := file.read(min(PIECE_BYTES, left))):
            left -= len(piece)
            yield piece


class _Process:
    """What one process has written so far: its fold, and the record whose payload is being read."""

    def __init__(self, pid: bytes, rank: int | None) -> None:
        self.pid, self.rank = int(pid), rank
        self.fold = TraceFold()
        self.wanted = 0  # characters of the payload that are still of use
        self._metadata: Mapping[str, Any] | None = None
        self._payload: list[str] = []

    def begin(self, metadata: Mapping[str, Any]) -> None:
        """A record begins; the one before it has ended."""
        self.end()
        rank = whole(metadata.get("rank"))
        if self.rank is None and rank is not None and rank >= 0:
            self.rank = rank
        self._metadata, self.wanted = metadata, payload_wanted(metadata)

    def add(self, line: bytes) -> None:
        """A line of payload, of which there may be more than is of use."""
        if self.wanted > 0:
            text = line[: self.wanted].rstrip(b"\r").decode("utf-8", "replace")
            self._payload.append(text)
            self.wanted -= len(line) + 1

    def end(self) -> None:
        """Hands the record over to the fold, if there is one."""
        metadata, payload = self._metadata, self._payload
        self._metadata, self._payload, self.wanted = None, [], 0
        if metadata is not None:
            self.fold.record(metadata, "\n".join(payload))


class TraceReader:
    """Takes the bytes of a trace with ``feed``, in pieces of any size; ``logs`` ends it."""

    def __init__(self, name: str = "trace") -> None:
        self._name = name
        in_name = _RANK_IN_NAME.search(name)
        self._rank = int(in_name[1]) if in_name else None
        self._processes: dict[tuple[bytes, bytes], _Process] = {}
        self._latest: _Process | None = None
        self._latest_of: dict[bytes, _Process] = {}  # by rank prefix
        self._unfinished: list[bytes] = []
        self._unfinished_bytes = 0

    def feed(self, data: bytes) -> None:
        """The next bytes. Of a line longer than ``MOST_LINE_BYTES``, the rest is passed over."""
        if b"\n" not in data:
            self._keep(data)
            return
        lines = data.split(b"\n")
        self._keep(lines[0])
        lines[0] = self._unfinished_line()
        tail = lines.pop()
        for line in lines:
            # nearly all of a trace is payload that nobody reads
            if line[:1] != b"\t":
                self._line(line)
            elif self._latest is not None and self._latest.wanted > 0:
                self._latest.add(line[1:])
        self._keep(tail)

    def logs(self) -> dict[str, CompileLog]:
        """The log of each process that wrote any record, in the order of the ranks."""
        self._line(self._unfinished_line())
        for process in self._processes.values():
            process.end()
        found = [p for p in self._processes.values() if p.fold.records]
        logs: dict[str, CompileLog] = {}
        for process in sorted(found, key=lambda p: (p.rank is None, p.rank or 0, -p.fold.frames, p.pid)):
            label = self._name if process.rank is None else f"rank{process.rank}"
            logs[self._free(label, process.pid, logs)] = process.fold.log()
        return logs

    @staticmethod
    def _free(label: str, pid: int, taken: Mapping[str, CompileLog]) -> str:
        """The label, with the process id should there be one of that name already."""
        while label in taken:
            label = f"{label} pid {pid}"
        return label

    def _keep(self, data: bytes) -> None:
        room = MOST_LINE_BYTES - self._unfinished_bytes
        if data and room > 0:
            self._unfinished.append(data[:room])
            self._unfinished_bytes += len(data)

    def _unfinished_line(self) -> bytes:
        line = b"".join(self._unfinished)
        self._unfinished, self._unfinished_bytes = [], 0
        return line

    def _line(self, line: bytes, rank: bytes = b"") -> None:
        first = line[:1]
        if first == b"\t":
            process = self._latest_of.get(rank) if rank else self._latest
            if process is not None:
                process.add(line[1:])
        elif first == b"[":
            # a launcher may put its own mark before the one of torch: the inner one counts
            for _ in range(2):
                if marked := _RANK.match(line):
                    rank, line = marked[1], marked[2]
            if rank and line[:1] != b"[":
                self._line(line, rank)
        elif header := _HEADER.match(line):
            self._header(header[1], header[2], rank)

    def _header(self, pid: bytes, record: bytes, rank: bytes) -> None:
        kind = _KIND.match(record)
        metadata: Mapping[str, Any] = {}
        if kind is not None and kind[1] in _KINDS:
            metadata = mapping(parsed(record.rstrip(b"\r").decode("utf-8", "replace")))
        process = self._process(pid, rank)
        if process is not None:
            process.begin(metadata)
        self._latest = process
        if process is not None:
            self._latest_of[rank] = process

    def _process(self, pid: bytes, rank: bytes) -> _Process | None:
        known = self._processes.get((rank, pid))
        if known is None and len(self._processes) < MOST_PROCESSES:
            known = self._processes[rank, pid] = _Process(pid, int(rank) if rank else self._rank)
        return known

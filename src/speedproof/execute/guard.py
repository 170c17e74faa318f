"""The guard: a small supervisor between the driver and the user's process.

Run as ``PYTHON -I -S guard.py CONFIG``.

It promises four things, however the driver or the script end. No process that the script started outlives it.
The script never waits for us to take its output, and the log of that output stays bounded. Files that the
script overwrote in a trial are put back. The driver learns the exit status.

It is a program of its own, and not a thread of the driver, since a driver that is killed with SIGKILL can
clean up nothing: the guard reads the driver's end as end-of-file on its standard input. Standard library
only.

CONFIG is a JSON file, ``GuardConfig`` says what is in it. It holds the whole environment of the child,
secrets included, so the guard removes it as soon as it is read. Standard output gets one JSON line when the
child runs, ``{"pid"}``, and one at the end, ``{"code", "restored", "not_restored"}``.

Elsewhere than on Linux there is neither a subreaper nor a parent-death signal: there a daemon that has left
its session can escape, and a guard that is itself killed with SIGKILL leaves the child to the driver.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypedDict

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CANNOT_START = 127  # what a shell says for a command that is not there
FLUSH_S = 1.0
END_S = 5.0  # how long we go on killing; a process in uninterruptible sleep may never end
ROWS, COLUMNS = 24, 80


class GuardConfig(TypedDict):
    """``env`` is the complete environment of the child; ``kept_manifest`` see ``put_back``."""

    command: list[str]
    cwd: str
    env: dict[str, str]
    log_path: str
    kept_manifest: str | None
    terminal: bool
    log_limit_bytes: int


class NotRestored(TypedDict):
    """A file of the user's that could not be put back, and where its content is."""

    path: str
    kept: str
    why: str


# -----------------------------------------------------------------------------------------------------------
# The log
# -----------------------------------------------------------------------------------------------------------


class BoundedLog:
    """The first and the last ``limit_bytes // 2`` bytes of an output of any length.

    ``feed`` only copies memory, so that the thread that empties the child's pipe never waits for a disk.
    ``flush`` writes: the head once, the tail over its former state, with a note between on what is left out.
    """

    def __init__(self, path: str, limit_bytes: int) -> None:
        self._half = max(1, limit_bytes // 2)
        self._head, self._tail = bytearray(), bytearray()
        self._total = self._flushed = self._head_written = 0
        self._lock = threading.Lock()
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - lives as long as the guard

    def feed(self, data: bytes) -> None:
        with self._lock:
            room = self._half - len(self._head)
            self._head += data[:room]
            self._tail += data[room:]
            if len(self._tail) > 2 * self._half:
                del self._tail[: -self._half]
            self._total += len(data)

    def flush(self) -> None:
        with self._lock:
            if self._total == self._flushed:
                return
            head, tail = bytes(self._head), bytes(self._tail[-self._half :])
            self._flushed = total = self._total
        left_out = total - len(head) - len(tail)
        note = f"\n... {left_out} bytes left out by speedproof ...\n".encode() if left_out else b""
        with contextlib.suppress(OSError):  # a full disk must not end the script
            self._write(self._head_written, head[self._head_written :])
            self._head_written = len(head)
            self._write(len(head), note + tail)
            self._file.truncate(len(head) + len(note) + len(tail))

    def _write(self, offset: int, data: bytes) -> None:
        while data:
            written = os.pwrite(self._file.fileno(), data, offset)
            offset, data = offset + written, data[written:]


def pump(source: int, log: BoundedLog) -> None:
    """Read the child's output until every process that could write to it is gone."""
    with contextlib.suppress(OSError):  # how Linux says that a terminal has no one at its other end
        while data := os.read(source, 1 << 16):
            log.feed(data)


# -----------------------------------------------------------------------------------------------------------
# Processes
# -----------------------------------------------------------------------------------------------------------


def parents() -> dict[int, int]:
    """Parent of each live process of this machine, zombies left out."""
    if sys.platform == "linux":
        return dict(_parents_from_proc())
    return dict(_parents_from_ps())


def _parents_from_proc() -> Iterator[tuple[int, int]]:
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it ended while we looked
            with open(f"/proc/{name}/stat", "rb") as stat:
                # field 2 is the program's name in brackets, which may itself hold spaces and brackets
                state, parent = stat.read().rpartition(b")")[2].split()[:2]
            if state not in (b"Z", b"X"):
                yield int(name), int(parent)


def _parents_from_ps() -> Iterator[tuple[int, int]]:
    with subprocess.Popen(["ps", "-A", "-o", "pid=,ppid=,state="], stdout=subprocess.PIPE, text=True) as listing:
        assert listing.stdout is not None
        for line in listing.stdout:
            pid, parent, state = line.split()[:3]
            if not state.startswith("Z") and int(pid) != listing.pid:
                yield int(pid), int(parent)


def descendants(ancestor: int) -> list[int]:
    """All live processes below ``ancestor``."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found = list(children.get(ancestor, ()))
    for pid in found:  # grows while it is walked
        found.extend(children.get(pid, ()))
    return found


class Family:
    """The child and everything below it. ``code`` is the child's exit status, negative for a signal."""

    def __init__(self, child: int) -> None:
        self._child = child
        self.code: int | None = None

    def reap(self) -> None:
        """Collect all that have ended: the child, and orphans that were handed to us as their subreaper."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                if ended[0] == self._child:
                    self.code = os.waitstatus_to_exitcode(ended[1])

    def end(self) -> None:
        """SIGKILL to all, again and again: while we look, a dying one may have started another."""
        deadline, pause_s = time.monotonic() + END_S, 0.005
        while True:
            self._kill_group()
            alive = descendants(os.getpid())
            for pid in alive:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self.reap()
            if not alive or time.monotonic() > deadline:
                return
            time.sleep(pause_s)
            pause_s = min(0.1, 2 * pause_s)

    def _kill_group(self) -> None:
        # Only while the child is not reaped is its number certain to be its own.
        if self.code is None or sys.platform != "linux":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child, signal.SIGKILL)


# -----------------------------------------------------------------------------------------------------------
# Starting the child
# -----------------------------------------------------------------------------------------------------------


def linux_prctl() -> Callable[[int, int], None] | None:
    """``prctl`` of the C library; ``None`` where there is none (macOS, a Python without ctypes)."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (ImportError, OSError, AttributeError):
        return None

    def call(option: int, value: int) -> None:
        prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))

    return call


def open_terminal() -> tuple[int, int]:
    """A terminal of 24 x 80: the end that we read, and the end that the child gets."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.ONLCR  # the log keeps plain line ends
    # Nobody types here: a script that asks a question reads end-of-file at once, as it would from /dev/null.
    attributes[3] &= ~(termios.ICANON | termios.ECHO)
    attributes[6][termios.VMIN] = attributes[6][termios.VTIME] = 0
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    return ours, theirs


def start(config: GuardConfig, prctl: Callable[[int, int], None] | None) -> tuple[int, int]:
    """Start the command in a session of its own. Returns its process id and where to read its output."""
    if config["terminal"]:
        source, output = open_terminal()
        stdin = output
    else:
        source, output = os.pipe()
        stdin = os.open(os.devnull, os.O_RDONLY)
    guard = os.getpid()

    def in_the_child() -> None:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:  # the guard was gone before the line above
                os._exit(CANNOT_START)
        if config["terminal"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    try:
        child = subprocess.Popen(
            config["command"],
            cwd=config["cwd"],
            env=config["env"],
            stdin=stdin,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=in_the_child,
        )
    finally:
        for theirs in {stdin, output}:
            os.close(theirs)
    child.returncode = 0  # ``Family`` waits for it; Popen must not
    return child.pid, source


# -----------------------------------------------------------------------------------------------------------
# Watching it
# -----------------------------------------------------------------------------------------------------------


def catch_signals() -> int:
    """Turn signals into bytes that ``select`` can wait for; returns where to read them.

    A handler that does nothing, not SIG_IGN: an ignored signal stays ignored in the child, and Python would
    then not raise ``KeyboardInterrupt`` in the user's script.
    """
    source, sink = os.pipe()
    os.set_blocking(source, False)
    os.set_blocking(sink, False)
    signal.set_wakeup_fd(sink, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return source


def watch(family: Family, log: BoundedLog, signals: int) -> None:
    """Return when the child has ended or is to be ended: on "kill", SIGTERM or the driver's own end."""
    orders = b""
    while family.code is None:
        readable = select.select([0, signals], [], [], FLUSH_S)[0]
        log.flush()
        if signals in readable and signal.SIGTERM in os.read(signals, 1024):
            return
        family.reap()
        if 0 in readable:
            said = os.read(0, 1024)
            orders += said
            if not said or b"kill\n" in orders:
                return


# -----------------------------------------------------------------------------------------------------------
# Putting files back
# -----------------------------------------------------------------------------------------------------------


def put_back(manifest: str | None) -> tuple[list[str], list[NotRestored]]:
    """Copy back what stood at each path before the trial. Raises nothing; may be run twice.

    ``manifest`` is a file of JSON lines ``{"path", "kept"}``, in the order in which the copies were made.
    ``path`` must have its symbolic links resolved: a link that is found there now was put there by the
    script, and is replaced. The first copy of a path is the one from before the trial. Files that were not
    there are left alone.
    """
    restored: list[str] = []
    failed: list[NotRestored] = []
    _take_links_away(manifest)
    for path, kept in reversed(_kept_copies(manifest).items()):
        try:
            _copy_over(kept, path)
        except (OSError, shutil.Error, ValueError) as error:
            failed.append({"path": path, "kept": kept, "why": str(error)})
        else:
            restored.append(path)
    return restored, failed


def _entries(manifest: str | None) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = []
    if manifest is None:
        return entries
    with contextlib.suppress(OSError), open(manifest, "rb") as lines:
        for line in lines:
            with contextlib.suppress(ValueError):  # half a line, of a killed process
                entry = json.loads(line)
                if isinstance(entry, dict) and isinstance(entry.get("path"), str):
                    entries.append(entry)
    return entries


def _kept_copies(manifest: str | None) -> dict[str, str]:
    copies: dict[str, str] = {}
    for entry in _entries(manifest):
        if isinstance(entry.get("kept"), str):
            copies.setdefault(str(entry["path"]), str(entry["kept"]))
    return copies


def _take_links_away(manifest: str | None) -> None:
    """Links of ours, to checkpoints in the scratch folder, where nothing stood before. What is no link stays."""
    for entry in _entries(manifest):
        path, link = str(entry["path"]), entry.get("link")
        with contextlib.suppress(OSError):
            if isinstance(link, str) and os.path.islink(path) and os.readlink(path) == link:
                os.unlink(path)


def _copy_over(kept: str, path: str) -> None:
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name[:200]}.speedproof-{os.getpid()}")
    try:
        os.makedirs(folder or ".", exist_ok=True)
        shutil.copy2(kept, beside)
        os.replace(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        if os.path.islink(path):  # writing through it would change a file that is not this one
            raise
        # A folder that takes no new file, or a file system that has no room for both copies
        shutil.copyfile(kept, path)
        shutil.copystat(kept, path)


# -----------------------------------------------------------------------------------------------------------
# The program
# -----------------------------------------------------------------------------------------------------------


def read_config(path: str) -> GuardConfig:
    """Read the driver's orders and remove the file, which is for this guard alone."""
    with open(path, encoding="utf-8") as file:
        config: GuardConfig = json.load(file)
    os.unlink(path)
    return config


def say(**line: Any) -> None:
    """One line of JSON to the driver."""
    with contextlib.suppress(OSError):  # the driver may be gone
        print(json.dumps(line), flush=True)


def supervise(config: GuardConfig, log: BoundedLog) -> int:
    """Run the command to its end, or to ours. Returns its exit status."""
    prctl = linux_prctl()
    if prctl is not None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    signals = catch_signals()
    try:
        child, source = start(config, prctl)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        log.feed(f"speedproof: cannot start {config['command'][0]}: {error}\n".encode())
        return CANNOT_START
    say(pid=child)
    family = Family(child)
    pumping = threading.Thread(target=pump, args=(source, log), daemon=True)
    pumping.start()
    watch(family, log, signals)
    family.end()
    pumping.join(timeout=2.0)
    return -signal.SIGKILL if family.code is None else family.code


def main(config_path: str) -> None:
    """Watch over one worker, then put the user's files back and report how it ended."""
    config = read_config(config_path)
    log = BoundedLog(config["log_path"], config["log_limit_bytes"])
    code = supervise(config, log)
    restored, not_restored = put_back(config["kept_manifest"])
    for failure in not_restored:
        log.feed(
            f"\nspeedproof: could not put back {failure['path']}: {failure['why']}. "
            f"Its content from before the trial is in {failure['kept']}\n".encode("utf-8", "replace")
        )
    log.flush()
    say(code=code, restored=restored, not_restored=not_restored)


if __name__ == "__main__":
    main(sys.argv[1])

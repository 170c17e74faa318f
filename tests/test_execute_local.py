"""Real processes under the guard: nothing survives, nothing blocks, and the user's files stand as before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from speedproof import codec
from speedproof.execute import guard
from speedproof.execute.base import Executor, Session
from speedproof.execute.local import (
    KEPT_MANIFEST,
    WORKER_PROGRAM,
    LocalExecutor,
    LocalSession,
    read_tail,
    run_plain,
)
from speedproof.model import (
    Command,
    Control,
    Event,
    Schedule,
    SessionDone,
    SessionExit,
    SessionSpec,
    StepsSeen,
)

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc")

# What each worker program below starts with: the spec, and a way to say an event.
PRELUDE = """
import json, os, subprocess, sys, time
spec = json.load(open(sys.argv[1]))
def say(text, end="\\n"):
    with open(spec["events_path"], "a") as events:
        events.write(text + end)
def say_steps(steps):
    say(json.dumps({"type": "StepsSeen", "at_s": time.time(), "steps": steps, "arm": None}))
def say_pids(*pids):
    say(json.dumps({"type": "TorchLoaded", "at_s": time.time(), "facts": {"pids": " ".join(map(str, pids))}}))
"""

# A daemon as in the textbooks: forked twice, in a session of its own, with no tie left to the worker.
FAMILY = """
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, str(os.getpid()).encode())
        time.sleep(300)
    os._exit(0)
os.wait()
daemon = int(os.read(read, 100))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
say_pids(os.getpid(), child.pid, daemon)
"""


def spec_for(folder: Path) -> SessionSpec:
    return SessionSpec(
        session=3,
        command=Command("train.py", None, ("--epochs", "2")),
        arms=(),
        schedule=Schedule(seed=7),
        events_path=str(folder / "session" / "events.jsonl"),
        control_path=str(folder / "session" / "control.jsonl"),
        scratch_dir=str(folder / "scratch"),
        cache_dir=str(folder / "cache"),
        environment={"SPEEDPROOF_TEST": "from the spec"},
    )


Start = Callable[..., LocalSession]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def start(program: str, terminal: bool = False) -> LocalSession:
        worker = tmp_path / "worker.py"
        worker.write_text(PRELUDE + textwrap.dedent(program))
        executor = LocalExecutor(tmp_path, sys.executable, str(tmp_path), terminal=terminal, worker_program=worker)
        return executor.start(spec_for(tmp_path))

    return start


def play_out(session: Session, limit_s: float = 15.0) -> list[Event]:
    events: list[Event] = []
    deadline = time.monotonic() + limit_s
    while session.exit is None:
        assert time.monotonic() < deadline, f"still running; so far: {events}"
        events += session.poll(0.5)
    return events


def first_event(session: Session, limit_s: float = 10.0) -> Event:
    events = session.poll(limit_s)
    assert events, "the worker said nothing"
    return events[0]


def pids_in(event: Event) -> list[int]:
    return [int(word) for word in event.facts["pids"].split()]  # type: ignore[union-attr]


def wait_until_gone(pids: list[int], limit_s: float = 5.0) -> None:
    deadline = time.monotonic() + limit_s
    while alive := set(pids) & set(guard.parents()):
        assert time.monotonic() < deadline, f"still alive: {alive}"
        time.sleep(0.02)


def exit_of(session: Session) -> SessionExit:
    play_out(session)
    assert session.exit is not None
    return session.exit


def test_round_trip_of_spec_events_and_exit(start: Start, tmp_path: Path) -> None:
    session = start("""
        print("hello", os.environ["SPEEDPROOF_TEST"], "PATH" in os.environ, os.getcwd())
        say_steps(1)
        say("no JSON at all")
        say_steps(2)
        sys.exit(5)
    """)
    events = play_out(session)

    assert [event.steps for event in events if isinstance(event, StepsSeen)] == [1, 2]
    assert events[-1] is session.exit
    assert session.exit is not None
    assert (session.exit.session, session.exit.code, session.exit.killed_by_driver) == (3, 5, None)
    assert session.exit.output_tail == f"hello from the spec True {tmp_path}\n"
    assert session.poll(1.0) == []
    folder = tmp_path / "session"
    assert codec.loads(SessionSpec, (folder / "spec.json").read_text()) == session.spec
    last = (folder / "events.jsonl").read_text().splitlines()[-1]
    assert codec.decode_line(Event, last) == session.exit
    secrets = [path for path in folder.iterdir() if "PATH" in path.read_text() and path.name != "output.log"]
    assert secrets == [], "the environment must not stay in the run directory"


def test_half_a_line_waits_for_its_end_and_a_torn_one_is_left_out(start: Start, tmp_path: Path) -> None:
    session = start("""
        whole = json.dumps({"type": "StepsSeen", "at_s": 1.0, "steps": 1, "arm": None})
        say(whole[:20], end="")
        while not os.path.exists("go"):
            time.sleep(0.01)
        say(whole[20:])
        say(whole[:30], end="")
    """)
    assert session.poll(0.4) == []
    (tmp_path / "go").touch()
    assert play_out(session) == [StepsSeen(1.0, 1, None), session.exit]
    last = (tmp_path / "session" / "events.jsonl").read_bytes().splitlines()[-1]
    assert codec.decode_line(Event, last.decode()) == session.exit


def test_poll_returns_as_soon_as_there_is_something(start: Start) -> None:
    session = start("say_steps(1); time.sleep(60)")
    begin = time.monotonic()
    assert session.poll(0.0) == []
    first_event(session)
    assert time.monotonic() - begin < 5
    session.kill("test")


def test_controls_reach_the_worker(start: Start) -> None:
    session = start("""
        say_steps(0)
        lines = []
        while len(lines) < 2:
            time.sleep(0.01)
            if os.path.exists(spec["control_path"]):
                lines = [json.loads(line) for line in open(spec["control_path"])]
        say(json.dumps({"type": "SessionDone", "at_s": 1.0, "why": str(lines), "steps": 0}))
    """)
    first_event(session)
    session.send(Control("next", "default"))
    session.send(Control("stop"))
    done = next(event for event in play_out(session) if isinstance(event, SessionDone))
    assert "'verb': 'next', 'arm': 'default'" in done.why and "'verb': 'stop'" in done.why


def test_log_of_30_mb_stays_bounded_and_keeps_both_ends(start: Start, tmp_path: Path) -> None:
    session = start("""
        print("the first line")
        for _ in range(30):
            print("x" * (1 << 20))
        print("the last line")
    """)
    ended = exit_of(session)
    log = tmp_path / "session" / "output.log"
    assert ended.code == 0
    assert log.stat().st_size < (1 << 20) + 200
    text = log.read_text()
    assert text.startswith("the first line\nxxx") and text.endswith("xxx\nthe last line\n")
    assert "bytes left out by speedproof" in text
    assert ended.output_tail.endswith("the last line\n") and len(ended.output_tail) <= 8192


def test_log_is_readable_while_the_script_runs(start: Start, tmp_path: Path) -> None:
    session = start('print("early sign", flush=True); time.sleep(60)')
    deadline = time.monotonic() + 10
    while "early sign" not in read_tail(tmp_path / "session" / "output.log", 1000):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    session.kill("test")


@linux_only
def test_kill_leaves_no_orphan(start: Start) -> None:
    session = start(FAMILY + "time.sleep(300)")
    pids = pids_in(first_event(session))
    assert set(pids) <= set(guard.parents())
    session.kill("timed out")
    assert not set(pids) & set(guard.parents())
    ended = exit_of(session)
    assert (ended.code, ended.killed_by_driver) == (-signal.SIGKILL, "timed out")
    session.kill("again")
    assert session.exit == ended


@linux_only
def test_what_the_script_leaves_behind_is_ended_with_it(start: Start) -> None:
    session = start(FAMILY + "sys.exit(0)")
    pids = pids_in(first_event(session))
    ended = exit_of(session)
    assert (ended.code, ended.killed_by_driver) == (0, None)
    assert not set(pids) & set(guard.parents())


def test_a_worker_that_is_killed_is_told_from_one_that_we_killed(start: Start) -> None:
    session = start("os.kill(os.getpid(), 9)")
    ended = exit_of(session)
    assert (ended.code, ended.killed_by_driver) == (-signal.SIGKILL, None)


@linux_only
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_worker_tree_ends_with_the_driver(tmp_path: Path, ending: signal.Signals) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(PRELUDE + FAMILY + "time.sleep(300)")
    (tmp_path / "spec.json").write_text(codec.dumps(spec_for(tmp_path)))
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert driver.stdout is not None
    pids = [int(word) for word in driver.stdout.readline().split()]
    assert len(pids) == 3 and set(pids) <= set(guard.parents())
    driver.send_signal(ending)
    driver.wait(10)
    driver.stdout.close()
    wait_until_gone(pids)


DRIVER = """
import sys, time
from pathlib import Path
from speedproof import codec
from speedproof.execute.local import LocalExecutor
from speedproof.model import SessionSpec
folder = Path(sys.argv[1])
executor = LocalExecutor(folder, sys.executable, str(folder), worker_program=folder / "worker.py")
session = executor.start(codec.loads(SessionSpec, (folder / "spec.json").read_text()))
print(session.poll(20)[0].facts["pids"], flush=True)
time.sleep(300)
"""


@linux_only
def test_losing_the_guard_ends_the_worker_and_files_are_still_put_back(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    data.write_text("before")
    session = start(OVERWRITE + "say_pids(os.getpid(), os.getppid()); time.sleep(300)")
    worker, its_guard = pids_in(first_event(session))
    os.kill(its_guard, signal.SIGKILL)
    ended = exit_of(session)
    wait_until_gone([worker])
    assert ended.code == -signal.SIGKILL
    assert "the guard of this process was lost" in ended.output_tail
    assert data.read_text() == "before"


def test_closing_the_executor_ends_its_sessions(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(PRELUDE + "say_steps(1); time.sleep(300)")
    with LocalExecutor(tmp_path, sys.executable, str(tmp_path), worker_program=worker) as executor:
        typed: Executor = executor
        session = typed.start(spec_for(tmp_path))
        first_event(session)
    assert exit_of(session).killed_by_driver == "the driver ended"


@linux_only
def test_terminal(start: Start) -> None:
    session = start(
        """
        print(os.get_terminal_size(), flush=True)
        subprocess.run(["stty", "size"], check=True)
        print([os.isatty(fd) for fd in (0, 1, 2)], os.ctermid(), open("/dev/tty").isatty())
        try:
            input("continue? ")
        except EOFError:
            print("nobody there")
        """,
        terminal=True,
    )
    ended = exit_of(session)
    assert ended.code == 0, ended.output_tail
    lines = ended.output_tail.splitlines()
    assert lines[0] == "os.terminal_size(columns=80, lines=24)"
    assert lines[1:3] == ["24 80", "[True, True, True] /dev/tty True"]
    assert lines[3] == "continue? nobody there"


def test_without_a_terminal_there_is_none(start: Start) -> None:
    session = start("print([os.isatty(fd) for fd in (0, 1, 2)], sys.stdin.read() == '')")
    assert exit_of(session).output_tail == "[False, False, False] True\n"


def test_interrupts_still_raise_in_the_script(start: Start) -> None:
    session = start("import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)")
    assert exit_of(session).output_tail == "True\n"


# What the worker does when the script opens a file to write: keep a copy, once before each overwrite.
OVERWRITE = f"""
import shutil
def overwrite(name, text, copy):
    kept = os.path.join(spec["scratch_dir"], copy)
    shutil.copy2(name, kept)
    with open(os.path.join(spec["scratch_dir"], "{KEPT_MANIFEST}"), "a") as manifest:
        manifest.write(json.dumps({{"path": os.path.abspath(name), "kept": kept}}) + "\\n")
    open(name, "w").write(text)
overwrite("data.txt", "after", "0")
"""


def test_files_are_put_back(start: Start, tmp_path: Path) -> None:
    for name in ("data.txt", "removed.txt", "sub/moved.txt", "lost.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"before {name}")
    (tmp_path / "data.txt").chmod(0o640)
    os.utime(tmp_path / "data.txt", (1e9, 1e9))
    session = start(
        OVERWRITE
        + textwrap.dedent("""
        overwrite("data.txt", "after that", "1")
        overwrite("removed.txt", "", "2"); os.remove("removed.txt")
        overwrite("sub/moved.txt", "", "3"); shutil.rmtree("sub")
        overwrite("lost.txt", "after", "4"); os.remove(os.path.join(spec["scratch_dir"], "4"))
        open("created.txt", "w").write("new")
        with open(os.path.join(spec["scratch_dir"], "kept.jsonl"), "a") as manifest:
            manifest.write('{"path": "/somewhere", "ke')
        """)
    )
    ended = exit_of(session)

    data = tmp_path / "data.txt"
    assert data.read_text() == "before data.txt"
    assert (data.stat().st_mode & 0o777, data.stat().st_mtime) == (0o640, 1e9)
    assert (tmp_path / "removed.txt").read_text() == "before removed.txt"
    assert (tmp_path / "sub" / "moved.txt").read_text() == "before sub/moved.txt"
    assert (tmp_path / "created.txt").read_text() == "new"
    assert [failure["path"] for failure in session.not_restored] == [str(tmp_path / "lost.txt")]
    assert "could not put back" in ended.output_tail and "lost.txt" in ended.output_tail
    assert not list(tmp_path.glob(".*speedproof*"))


def test_files_are_put_back_after_a_kill(start: Start, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("before")
    session = start(OVERWRITE + "say_steps(1); time.sleep(60)")
    first_event(session)
    session.kill("test")
    assert (tmp_path / "data.txt").read_text() == "before"


def test_a_link_that_the_script_made_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    path, other, kept = tmp_path / "last.pt", tmp_path / "best.pt", tmp_path / "kept"
    other.write_text("another file of the user's")
    kept.write_text("before")
    path.symlink_to(other)
    manifest = tmp_path / "manifest"
    manifest.write_text(json.dumps({"path": str(path), "kept": str(kept)}) + "\n")
    assert guard.put_back(str(manifest)) == ([str(path)], [])
    assert (path.is_symlink(), path.read_text()) == (False, "before")
    assert other.read_text() == "another file of the user's"


def test_a_folder_in_place_of_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "kept").write_text("before")
    manifest = tmp_path / "manifest"
    manifest.write_text(json.dumps({"path": str(tmp_path / "path"), "kept": str(tmp_path / "kept")}) + "\n")
    restored, failed = guard.put_back(str(manifest))
    assert restored == [] and "directory" in failed[0]["why"]
    assert list((tmp_path / "path").iterdir()) == []


def test_no_manifest_restores_nothing(tmp_path: Path) -> None:
    assert guard.put_back(None) == guard.put_back(str(tmp_path / "none")) == ([], [])


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    executor = LocalExecutor(tmp_path, str(tmp_path / "no-python"), str(tmp_path))
    ended = exit_of(executor.start(spec_for(tmp_path)))
    assert ended.code == 127
    assert "cannot start" in ended.output_tail and "no-python" in ended.output_tail


def test_the_real_worker_program_is_where_the_executor_looks() -> None:
    assert WORKER_PROGRAM.is_file()


def plain(tmp_path: Path, code: str, timeout_s: float = 10.0) -> tuple[int | None, str]:
    environment = dict(os.environ)
    return run_plain(sys.executable, ["-c", code], str(tmp_path), environment, timeout_s, tmp_path / "plain.log")


def test_run_plain(tmp_path: Path) -> None:
    assert plain(tmp_path, "print('out'); raise SystemExit(4)") == (4, "out\n")
    assert plain(tmp_path, "import os; os.abort()")[0] == -signal.SIGABRT


def test_run_plain_ends_what_takes_too_long(tmp_path: Path) -> None:
    begin = time.monotonic()
    code, tail = plain(tmp_path, "import time; print('begun', flush=True); time.sleep(60)", timeout_s=0.7)
    assert (code, tail) == (None, "begun\n")
    assert time.monotonic() - begin < 5

"""The player of recorded sessions keeps the rules that its docstring states."""

from __future__ import annotations

import pytest

from speedproof.execute.base import Executor
from speedproof.execute.scripted import Item, ScriptedExecutor, ScriptedSession, Wait
from speedproof.model import (
    ArmClosed,
    ArmStarted,
    Command,
    Control,
    Event,
    Schedule,
    SessionDone,
    SessionExit,
    SessionSpec,
    SessionStarted,
    StepsSeen,
)

SPEC = SessionSpec(2, Command("train.py", None), (), Schedule(), "events", "control", "scratch", "cache")
STARTED = SessionStarted(10.0, 2, 1, "3.11")


def closed(arm: str) -> ArmClosed:
    return ArmClosed(20.0, arm, "completed", "enough pairs")


def steps(*numbers: int) -> list[Item]:
    return [StepsSeen(15.0, number, "default") for number in numbers]


def play(*items: Item) -> tuple[ScriptedExecutor, ScriptedSession]:
    executor = ScriptedExecutor([items])
    return executor, executor.start(SPEC)


def rest(session: ScriptedSession, wait_s: float = 1.0) -> list[Event]:
    events: list[Event] = []
    for _ in range(1000):
        if session.exit is not None:
            return events
        events += session.poll(wait_s)
    raise AssertionError("no end")


def test_plays_one_event_a_poll_and_then_ends() -> None:
    _, session = play(STARTED, closed("a"))
    assert session.poll(1.0) == [STARTED]
    assert session.exit is None
    assert session.poll(1.0) == [closed("a")]
    assert session.poll(1.0) == [SessionExit(0.0, 2, 0, None)] == [session.exit]
    assert session.poll(1.0) == []


def test_a_recorded_exit_is_the_end() -> None:
    crash = SessionExit(30.0, 2, -11, None, "Segmentation fault")
    _, session = play(STARTED, crash, closed("a"))
    assert rest(session) == [STARTED, crash]
    assert session.exit == crash


def test_batches_end_at_a_wait() -> None:
    executor = ScriptedExecutor([[*steps(1, 2, 3), Wait(1.0), *steps(4)]], batch=2)
    session = executor.start(SPEC)
    assert [len(session.poll(1.0)) for _ in range(3)] == [2, 1, 2]
    assert session.exit is not None


def test_waits_move_the_clock_by_no_more_than_the_poll_waits() -> None:
    executor, session = play(Wait(2.5), STARTED)
    assert session.poll(1.0) == [] and executor.clock() == 1.0
    assert session.poll(0.0) == [] and executor.clock() == 1.0
    executor.advance(1.0)
    assert session.poll(1.0) == [STARTED] and executor.clock() == 2.5


def test_sessions_side_by_side_share_the_time() -> None:
    executor = ScriptedExecutor([[Wait(4.0), STARTED], [Wait(2.0), STARTED]], start_s=100.0)
    first, second = executor.start(SPEC), executor.start(SPEC)
    assert first.poll(0.5) == second.poll(0.5) == []  # the second one's wait began at 100.5
    assert first.poll(1.0) == []
    assert second.poll(1.0) == [STARTED]
    assert executor.clock() == 102.5
    assert first.poll(2.0) == [STARTED]
    assert executor.clock() == 104.0


def test_a_worker_that_hangs_is_ended_by_a_time_limit() -> None:
    executor, session = play(STARTED, Wait(float("inf")), closed("a"))
    while session.exit is None:
        if executor.clock() >= 60.0:
            session.kill("timed out")
        session.poll(0.5)
    assert session.exit == SessionExit(60.0, 2, -9, "timed out")


def test_next_jumps_to_the_end_of_that_arm() -> None:
    _, session = play(*steps(1, 2), closed("a"), *steps(3, 4), Wait(99.0), closed("b"), *steps(5))
    session.poll(1.0)
    session.send(Control("next", "b"))
    assert rest(session) == [closed("b"), *steps(5), session.exit]
    assert session.sent == [Control("next", "b")]


def test_next_without_an_arm_closes_the_next_one_and_a_late_wish_changes_nothing() -> None:
    _, session = play(*steps(1), closed("a"), ArmStarted(1.0, "b", 2, True), closed("b"))
    session.send(Control("next"))
    assert session.poll(1.0) == [closed("a")]
    session.send(Control("next", "a"))
    assert rest(session) == [ArmStarted(1.0, "b", 2, True), closed("b"), session.exit]


def test_stop_ends_the_session_in_good_order() -> None:
    _, session = play(*steps(1, 7), Wait(5.0), *steps(8), closed("a"))
    session.poll(1.0), session.poll(1.0)
    session.send(Control("stop"))
    session.send(Control("next", "a"))
    assert rest(session) == [SessionDone(0.0, "control", 7), SessionExit(0.0, 2, 0, None)]


def test_kill_is_final() -> None:
    _, session = play(*steps(1, 2))
    session.kill("interrupted")
    session.send(Control("stop"))
    assert rest(session) == [SessionExit(0.0, 2, -9, "interrupted")]
    session.kill("again")
    assert session.exit is not None and session.exit.killed_by_driver == "interrupted"


def test_recordings_may_depend_on_the_spec() -> None:
    executor = ScriptedExecutor([lambda spec: [SessionStarted(1.0, spec.session, 1, "3.12")], [STARTED]])
    typed: Executor = executor
    assert typed.start(SPEC).poll(1.0) == [SessionStarted(1.0, 2, 1, "3.12")]
    assert [session.spec for session in executor.started] == [SPEC]
    executor.start(SPEC)
    with pytest.raises(LookupError, match="only 2 were recorded"):
        executor.start(SPEC)

"""The fold over events: what is known of a run at any moment, over all its sessions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import anatomy, block, ended, pair_of_blocks, ready

from speedproof.analyse.ledger import Ledger, fold
from speedproof.model import (
    AnatomyFound,
    ArmClosed,
    ArmStarted,
    ArmVoided,
    Event,
    FileTouched,
    Memory,
    PhasesMeasured,
    SessionDone,
    SessionExit,
    SessionStarted,
    StepsSeen,
    TorchLoaded,
)


def started(session: int, at_s: float = 0.0) -> SessionStarted:
    return SessionStarted(at_s, session, 4711, "python")


def trial(arm: str, session: int, pairs: range, cold: bool = True, at_s: float = 0.0) -> list[Event]:
    events: list[Event] = [ArmStarted(at_s, arm, session, cold, 0), ready(arm, at_s)]
    for number in pairs:
        events += [replace(b, at_s=at_s) for b in pair_of_blocks(arm, number, 20.0, 10.0)]
    return events


def gone(session: int, at_s: float = 0.0, code: int = 0) -> SessionExit:
    return SessionExit(at_s, session, code, None)


def test_an_empty_run_knows_nothing() -> None:
    ledger = fold([])
    assert ledger.anatomy is None and ledger.sessions == 0 and ledger.arms == {}
    assert ledger.arm("default").ratio() is None and ledger.arm("default").open


def test_pairs_of_a_restarted_session_go_on_where_the_former_stopped() -> None:
    first = [started(0), *trial("default", 0, range(3)), gone(0)]
    second = [started(1), *trial("default", 1, range(3, 8), cold=False), gone(1)]
    record = fold(first + second).arm("default")
    assert sorted(record.blocks) == list(range(8)) and len(record.pairs()) == 8
    assert record.started == 2
    ratio = record.ratio()
    assert ratio is not None and ratio.pairs == 8 and ratio.ratio == pytest.approx(2.0)


def test_half_a_pair_is_ignored_until_its_other_half_is_there() -> None:
    ledger = fold([started(0), ArmStarted(0.0, "default", 0, True), block("default", 0, "arm", 10.0)])
    assert ledger.arm("default").pairs() == []
    ledger.add(block("default", 0, "base", 20.0))
    assert len(ledger.arm("default").pairs()) == 1


def test_a_pair_is_the_mean_time_and_the_mean_elements_of_a_step_of_each_side() -> None:
    base, arm = block("d", 0, "base", 20.0, steps=2), block("d", 0, "arm", 10.0, steps=5)
    (pair,) = fold([base, arm]).arm("d").pairs()
    assert (pair.base_ns, pair.arm_ns, pair.base_elements, pair.arm_elements) == (20e6, 10e6, 64.0, 64.0)


def test_blocks_in_which_something_compiled_are_left_out() -> None:
    events = [e for n in range(6) for e in pair_of_blocks("d", n, 20.0, 10.0)]
    events += [e for n in range(6, 8) for e in pair_of_blocks("d", n, 20.0, 900.0, compiles=1)]
    record = fold(events).arm("d")
    assert len(record.pairs()) == 6 and {p.arm_ns for p in record.pairs()} == {10e6}
    assert record.compiling_share() == 0.25


def test_an_arm_that_compiles_in_most_of_its_blocks_is_judged_with_them() -> None:
    events = [e for n in range(6) for e in pair_of_blocks("d", n, 20.0, 30.0, compiles=int(n > 0))]
    assert len(fold(events).arm("d").pairs()) == 6


def test_cold_is_the_first_cold_warm_up_and_warm_the_last_warm_one() -> None:
    events: list[Event] = []
    for session, (cold, warmup_s) in enumerate([(True, 60.0), (False, 9.0), (False, 7.0)]):
        events += [started(session), ArmStarted(0.0, "d", session, cold), ready("d", warmup_s=warmup_s)]
    record = fold(events).arm("d")
    assert record.cold is not None and record.cold.warmup_ns == 60e9
    assert record.warm is not None and record.warm.warmup_ns == 7e9
    assert fold(events[:3]).arm("d").warm is None


def test_the_time_an_arm_took_is_counted_from_its_start_to_its_end_over_all_sessions() -> None:
    events: list[Event] = [
        started(0, 100.0),
        ArmStarted(110.0, "aa", 0, True),
        ArmClosed(112.0, "aa", "completed", ""),
        ArmStarted(115.0, "d", 0, True),
        StepsSeen(118.0, 40, "d"),
        gone(0, 125.0),
        started(1, 200.0),
        ArmStarted(230.0, "d", 1, False),
        ArmClosed(233.0, "d", "completed", ""),
        gone(1, 300.0),
    ]
    ledger = fold(events)
    assert ledger.arm("aa").spent_s == 2.0
    assert ledger.arm("d").spent_s == 10.0 + 3.0
    assert ledger.startup_s == 30.0


def test_a_clock_that_is_set_back_takes_no_time_away() -> None:
    ledger = fold([started(0, 100.0), ArmStarted(110.0, "d", 0, True), StepsSeen(50.0, 3, "d")])
    assert ledger.arm("d").spent_s == 0.0 and ledger.last_event_s == 110.0


def test_the_length_of_the_script_is_known_once_it_ends_by_itself() -> None:
    assert fold([started(0), ended(0, steps=50)]).script_steps == 50
    assert fold([started(0), ended(1, "ValueError", arm="aa", steps=50)]).script_steps == 50  # no compiler's fault
    trying = ArmStarted(0.0, "d", 0, True)
    assert fold([started(0), trying, ended(1, "ValueError", arm="d", steps=50)]).script_steps is None
    assert fold([started(0), SessionDone(0.0, "control", 50)]).script_steps is None
    assert fold([started(0), ended(0, steps=0)]).script_steps is None


def test_steps_add_up_over_sessions_and_begin_anew_in_each() -> None:
    ledger = fold([started(0), StepsSeen(0.0, 10, None), StepsSeen(0.0, 30, "d"), gone(0), started(1)])
    assert (ledger.steps, ledger.session_steps) == (30, 0)
    ledger.add(StepsSeen(0.0, 12, None))
    ledger.add(SessionDone(0.0, "queue", 20))
    assert (ledger.steps, ledger.session_steps) == (50, 20)


def test_the_reach_of_eager_grows_only_while_nothing_is_compiled() -> None:
    ledger = fold([started(0), ArmStarted(0.0, "aa", 0, True, 10), StepsSeen(0.0, 25, "aa")])
    assert ledger.eager_reach == 25
    ledger.add(ArmStarted(0.0, "d", 0, True, 30))
    ledger.add(ended(1, "ValueError", arm="d", steps=90))
    assert ledger.eager_reach == 30 and ledger.session_steps == 90
    for event in (gone(0, code=1), started(1), ArmStarted(0.0, "verify", 1, True, 5), StepsSeen(0.0, 95, "verify")):
        ledger.add(event)
    assert ledger.eager_reach == 95


def test_the_current_arm_follows_the_events() -> None:
    ledger = Ledger()
    seen: list[tuple[str | None, bool]] = []
    for event in (started(0), ArmStarted(0.0, "d", 0, True), ready("d"), ArmClosed(0.0, "d", "completed", "")):
        ledger.add(event)
        seen.append((ledger.current, ledger.ready))
    assert seen == [(None, False), ("d", False), ("d", True), (None, True)]


def test_the_arm_that_was_on_when_the_process_died_is_kept() -> None:
    ledger = fold([started(0), ArmStarted(0.0, "d", 0, True), gone(0, code=-9)])
    assert (ledger.arm_at_exit, ledger.current) == ("d", None)
    assert ledger.exits[-1].code == -9 and ledger.arm("d").open


def test_the_last_word_on_an_arm_counts() -> None:
    ledger = fold(
        [ArmClosed(0.0, "d", "crashed", "boom", "Traceback"), ArmVoided(1.0, "d", "cancelled", "not its own")]
    )
    record = ledger.arm("d")
    assert (record.outcome, record.why, record.traceback) == ("cancelled", "not its own", "Traceback")


def test_peaks_are_the_largest_of_each_side() -> None:
    ledger = fold([Memory(0.0, "d", "base", 5), Memory(0.0, "d", "base", 3), Memory(0.0, "d", "arm", 9)])
    assert ledger.arm("d").peaks == {"base": 5, "arm": 9}


def test_facts_files_phases_and_anatomy_are_kept() -> None:
    touched = FileTouched(0.0, "model.pt", "diverted", None)
    phases = PhasesMeasured(0.0, 3, 9, {"forward": 9})
    found = AnatomyFound(0.0, anatomy())
    ledger = fold([started(0), TorchLoaded(0.0, {"torch": "2.14.1"}), found, phases, touched])
    assert ledger.facts == {"torch": "2.14.1"} and ledger.files == [touched]
    assert ledger.phases == phases and ledger.anatomy == anatomy() and ledger.session_has_steps
    ledger.add(started(1))
    assert ledger.anatomy is not None and not ledger.session_has_steps


ANY_EVENT = st.one_of(
    st.builds(started, st.integers(0, 3), st.floats(0, 99)),
    st.builds(lambda arm, at: ArmStarted(at, arm, 0, True, 3), st.sampled_from("abc"), st.floats(0, 99)),
    st.builds(lambda arm, n: block(arm, n, "base"), st.sampled_from("abc"), st.integers(0, 4)),
    st.builds(lambda arm, n: block(arm, n, "arm", compiles=n % 2), st.sampled_from("abc"), st.integers(0, 4)),
    st.builds(lambda arm: ready(arm), st.sampled_from("abc")),
    st.builds(lambda arm: ArmClosed(0.0, arm, "completed", ""), st.sampled_from("abc")),
    st.builds(lambda code: ended(code, "ValueError", steps=9), st.integers(0, 1)),
    st.builds(lambda code: gone(0, 1.0, code), st.integers(-9, 1)),
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.lists(ANY_EVENT, max_size=40))
def test_any_order_of_events_can_be_folded(events: list[Event]) -> None:
    ledger = fold(events)
    for record in ledger.arms.values():
        assert record.spent_s >= 0.0
        assert len(record.pairs()) <= len(record.blocks)
        record.ratio()

"""Which arms, in which order, when to stop: decisions from what is known, without a process or a clock."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import anatomy, ended, network, pair_of_blocks, ready, site

from speedproof.analyse.ledger import Ledger, fold
from speedproof.errors import Exit, SpeedproofError
from speedproof.model import (
    AnatomyFound,
    Arm,
    ArmClosed,
    ArmConfig,
    ArmStarted,
    Block,
    Ceiling,
    Control,
    Event,
    Ratio,
    SessionExit,
    SessionStarted,
    StepsSeen,
)
from speedproof.plan import limits as policy
from speedproof.plan.arms import (
    AA,
    AS_WRITTEN,
    VERIFY,
    applicable,
    as_written_is_default,
    mode_arm,
    named_arms,
    none_can_gain,
    standard_arms,
)
from speedproof.plan.limits import Limits
from speedproof.plan.sessions import SessionPlan, next_session, unproven_crash
from speedproof.plan.steer import Kill, Share, Steering, enough, share_of, steer

LIMITS = Limits(budget_s=600.0, threshold=0.05)
DEFAULT, OTHER = mode_arm("default"), mode_arm("max-autotune")


def ids(arms: tuple[Arm, ...]) -> list[str]:
    return [a.id for a in arms]


# -------------------------------------------------------------------------------------------------------------------
# Which arms apply
# -------------------------------------------------------------------------------------------------------------------


def test_on_a_cpu_only_the_default_mode_is_tried_and_the_others_say_why_not() -> None:
    tried, skipped = applicable(standard_arms(), anatomy("cpu"), explicit=False, now_s=7.0)
    assert ids(tried) == ["default"]
    assert [v.arm for v in skipped] == ["reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
    assert all(v.outcome == "skipped" and v.at_s == 7.0 and "cpu" in v.why for v in skipped)
    assert "no CUDA graphs" in skipped[0].why


def test_on_cuda_all_four_modes_are_tried() -> None:
    tried, skipped = applicable(standard_arms(), anatomy("cuda"), explicit=False, now_s=0.0)
    assert ids(tried) == ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
    assert skipped == ()


def test_what_the_user_names_is_tried_even_where_it_is_not_expected_to_help() -> None:
    wanted = named_arms("reduce-overhead,max-autotune")
    tried, skipped = applicable(wanted, anatomy("cpu"), explicit=True, now_s=0.0)
    assert tried == wanted and skipped == ()


def test_a_script_that_compiles_with_the_defaults_is_tried_as_written_in_place_of_default() -> None:
    tried, skipped = applicable(standard_arms(), anatomy(sites=(site(),)), explicit=False, now_s=0.0)
    assert ids(tried) == ["as_written"]
    assert skipped[0].arm == "default" and "see as_written" in skipped[0].why


@pytest.mark.parametrize(
    "sites",
    [(site({"mode": "max-autotune"}),), (site(name="Block"),)],
    ids=["other options", "another module"],
)
def test_a_script_that_compiles_otherwise_is_tried_as_written_and_with_the_default(sites: tuple[object, ...]) -> None:
    tried, _ = applicable(standard_arms(), anatomy(sites=sites), explicit=False, now_s=0.0)  # type: ignore[arg-type]
    assert ids(tried) == ["as_written", "default"]


def test_default_is_not_left_out_where_as_written_was_not_asked_for() -> None:
    tried, _ = applicable((DEFAULT,), anatomy(sites=(site(),)), explicit=False, now_s=0.0)
    assert ids(tried) == ["default"]


def test_without_a_module_that_the_loop_calls_everything_is_skipped() -> None:
    tried, skipped = applicable(standard_arms(), anatomy(roots=(network(target=False),)), explicit=True, now_s=0.0)
    assert tried == () and [v.arm for v in skipped] == ids(standard_arms())
    assert "does not ask for compilation" in skipped[0].why
    assert all("calls no module" in v.why for v in skipped[1:])


def test_where_the_step_leaves_nothing_to_gain_all_but_as_written_is_skipped() -> None:
    little = Ceiling(1.03, "only 3% of the step is compilable")
    skipped = none_can_gain((AS_WRITTEN, DEFAULT, OTHER), little, 1.05, 7.0)
    assert [(v.arm, v.outcome, v.at_s) for v in skipped] == [(a, "skipped", 7.0) for a in ("default", "max-autotune")]
    assert "3.0%" in skipped[0].why and little.why in skipped[0].why
    assert none_can_gain((DEFAULT,), Ceiling(1.05, ""), 1.05, 7.0) == ()
    assert none_can_gain((DEFAULT,), Ceiling(None, ""), 1.05, 7.0) == ()


def test_as_written_is_the_default_only_where_it_compiles_all_targets_without_options() -> None:
    both = (network(0, "Encoder"), network(1, "Decoder"))
    one, two = site(name="Encoder"), replace(site(name="Decoder"), index=1)
    assert as_written_is_default(anatomy(roots=both, sites=(one, two)))
    assert not as_written_is_default(anatomy(roots=both, sites=(one,)))
    assert not as_written_is_default(anatomy())


# -------------------------------------------------------------------------------------------------------------------
# --variants
# -------------------------------------------------------------------------------------------------------------------


def test_variants_are_named_in_a_comma_list() -> None:
    assert ids(named_arms(" default , eager,as_written,")) == ["default", "eager", "as_written"]
    assert named_arms("aot_eager")[0].config == ArmConfig(backend="aot_eager")


@pytest.mark.parametrize("text", ["", " , ", "fastest", "default,turbo"])
def test_an_unknown_variant_is_an_error_that_names_those_there_are(text: str) -> None:
    with pytest.raises(SpeedproofError) as caught:
        named_arms(text)
    assert caught.value.slug == "unknown-variant" and caught.value.code == Exit.USAGE
    assert "max-autotune-no-cudagraphs" in caught.value.hint


def test_variants_may_come_from_a_json_file(tmp_path: Path) -> None:
    file = tmp_path / "arms.json"
    plain = [{"id": "d", "label": "dynamic", "kind": "compile", "config": {"dynamic": True}}]
    file.write_text(json.dumps(plain))
    assert named_arms(str(file)) == (Arm("d", "dynamic", "compile", ArmConfig(dynamic=True)),)


@pytest.mark.parametrize("text", ["", "7", "null", "{}x", '["default"]', '[{"id": "d"}]', '{"id": "d"}'])
def test_a_bad_variants_file_is_an_error_that_shows_a_good_one(tmp_path: Path, text: str) -> None:
    file = tmp_path / "arms.json"
    file.write_text(text)
    with pytest.raises(SpeedproofError) as caught:
        named_arms(str(file))
    assert caught.value.slug == "bad-variants-file" and '"dynamic"' in caught.value.hint


def test_a_variants_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SpeedproofError, match="holds no list of variants"):
        named_arms(str(tmp_path / "none.json"))


def test_a_variants_file_without_variants_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "arms.json"
    file.write_text("[]")
    with pytest.raises(SpeedproofError):
        named_arms(str(file))


def test_a_variant_that_is_named_twice_is_tried_once() -> None:
    assert ids(named_arms("default,default")) == ["default"]


# -------------------------------------------------------------------------------------------------------------------
# Sharing the time
# -------------------------------------------------------------------------------------------------------------------


def test_what_is_left_is_divided_evenly_among_the_arms_that_wait() -> None:
    share = share_of("default", 2, 0.0, 100.0, LIMITS)
    assert share.end_s == pytest.approx(100.0 + (LIMITS.end_s - 100.0) / 3)
    assert share.compile_end_s == pytest.approx(100.0 + 0.85 * (share.end_s - 100.0))
    assert share_of("default", 0, 0.0, 100.0, LIMITS).end_s == pytest.approx(LIMITS.end_s)


def test_eager_against_eager_has_a_fixed_part_less_what_it_has_had() -> None:
    assert share_of("aa", 4, 0.0, 10.0, LIMITS).end_s == pytest.approx(10.0 + 72.0)
    assert share_of("aa", 4, 70.0, 10.0, LIMITS).end_s == pytest.approx(10.0 + 2.0)
    assert share_of("aa", 0, 0.0, 590.0, LIMITS).end_s <= LIMITS.end_s


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.integers(-1, 9), st.floats(0, 700), st.floats(0, 700), st.sampled_from(["aa", "default", "verify"]))
def test_no_share_goes_beyond_the_budget(waiting: int, spent_s: float, now_s: float, arm: str) -> None:
    share = share_of(arm, waiting, spent_s, now_s, LIMITS)
    assert share.end_s <= max(now_s, LIMITS.end_s) + 1e-9
    assert share.compile_end_s <= share.end_s + 1e-9


# -------------------------------------------------------------------------------------------------------------------
# Enough
# -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "arm", "answer"),
    [
        (None, "default", False),
        (Ratio(1.5, None, None, 20), "default", False),
        (Ratio(1.50, 1.49, 1.51, policy.FEWEST_PAIRS - 1), "default", False),
        (Ratio(1.50, 1.48, 1.52, 6), "default", True),
        (Ratio(1.50, 1.45, 1.55, 6), "default", True),  # 3.3% wide, but far above the bar
        (Ratio(1.50, 1.40, 1.60, 6), "default", False),  # decided, and still too wide to report
        (Ratio(1.08, 1.055, 1.105, 6), "default", False),  # decided, but just so, and wide
        (Ratio(1.075, 1.055, 1.095, 6), "default", True),
        (Ratio(1.05, 1.04, 1.06, 60), "default", False),  # undecided, however narrow
        (Ratio(0.90, 0.89, 0.91, 6), "default", True),
        (Ratio(1.00, 0.991, 1.009, 12), "aa", True),
        (Ratio(1.00, 0.991, 1.009, 11), "aa", False),
        (Ratio(1.00, 0.98, 1.02, 40), "aa", False),
    ],
)
def test_more_pairs_are_wanted_until_decided_and_narrow(ratio: Ratio | None, arm: str, answer: bool) -> None:
    assert enough(ratio, arm, LIMITS) is answer


# -------------------------------------------------------------------------------------------------------------------
# Steering a session
# -------------------------------------------------------------------------------------------------------------------

LOOKED: list[Event] = [SessionStarted(0.0, 0, 1, "python"), AnatomyFound(2.0, anatomy())]
WARMING: list[Event] = [*LOOKED, ArmStarted(3.0, "default", 0, True)]
TIMING: list[Event] = [*WARMING, ready("default", 10.0)]
SHARE = Share("default", end_s=300.0, compile_end_s=250.0)


def timed(arm: str, pairs: int, base_ms: float = 20.0, arm_ms: float = 10.0, first: int = 0) -> list[Event]:
    """Noise of 1% that is the same on both sides of an even number of pairs."""
    return [
        b
        for n in range(first, first + pairs)
        for b in pair_of_blocks(arm, n, base_ms * (1 + 0.01 * (n % 2)), arm_ms * (1 + 0.01 * (n // 2 % 2)))
    ]


def word_to(ledger: Ledger, share: Share | None, now_s: float, silent_s: float) -> Steering | None:
    """What the first session of a run is told."""
    return steer(ledger, share, LIMITS, now_s, now_s, silent_s)


def test_a_session_at_work_is_left_alone() -> None:
    assert word_to(fold(TIMING), SHARE, 20.0, 0.0) is None
    assert word_to(fold(LOOKED), None, 20.0, 0.0) is None
    assert word_to(fold(LOOKED[:1]), None, 20.0, 0.0) is None


def test_an_arm_that_is_known_well_enough_is_followed_by_the_next() -> None:
    assert word_to(fold([*TIMING, *timed("default", 30)]), SHARE, 60.0, 0.0) == Control("next", "default")


def test_an_arm_whose_share_is_used_up_is_followed_by_the_next() -> None:
    assert word_to(fold([*TIMING, *timed("default", 2)]), SHARE, 301.0, 0.0) == Control("next", "default")


def test_an_arm_that_compiles_beyond_its_share_is_ended_by_force() -> None:
    word = word_to(fold(WARMING), SHARE, 251.0, 0.0)
    assert isinstance(word, Kill) and word.arm == "default" and word.outcome == "timed_out"
    assert "--budget" in word.why
    assert word_to(fold(WARMING), SHARE, 249.0, 200.0) is None  # silent, as compilers are


@pytest.mark.parametrize(("events", "outcome"), [(WARMING, "timed_out"), (TIMING, "completed")])
def test_the_end_of_the_budget_is_the_end(events: list[Event], outcome: str) -> None:
    word = word_to(fold(events), SHARE, LIMITS.end_s, 0.0)
    assert isinstance(word, Kill) and (word.arm, word.outcome) == ("default", outcome)


def test_a_script_that_falls_silent_is_ended_as_crashed() -> None:
    assert word_to(fold(TIMING), SHARE, 120.0, policy.SILENCE_S) is None
    word = word_to(fold(TIMING), SHARE, 120.0, policy.SILENCE_S + 1)
    assert isinstance(word, Kill) and (word.arm, word.outcome) == ("default", "crashed")
    assert "no sign of life for 91 s" in word.why


def test_long_steps_may_be_silent_for_longer() -> None:
    slow = replace(anatomy(), step_s=10.0)
    ledger = fold([*TIMING, AnatomyFound(11.0, slow)])
    patience_s = policy.SILENT_STEPS * slow.step_s
    assert patience_s > policy.SILENCE_S
    assert word_to(ledger, SHARE, 250.0, patience_s - 1) is None
    assert isinstance(word_to(ledger, SHARE, 250.0, patience_s + 1), Kill)


def test_silence_between_arms_is_noticed_too() -> None:
    word = word_to(fold(LOOKED), None, 120.0, policy.SILENCE_S + 1)
    assert isinstance(word, Kill) and word.arm is None


def test_a_hang_is_noticed_also_when_the_share_is_used_up() -> None:
    short = Share("default", end_s=50.0, compile_end_s=45.0)
    assert isinstance(word_to(fold(TIMING), short, 200.0, policy.SILENCE_S + 50), Kill)


def test_looking_for_a_loop_ends_at_two_fifths_of_the_budget() -> None:
    ledger = fold(LOOKED[:1])
    assert word_to(ledger, None, 240.0, 200.0) is None
    word = word_to(ledger, None, 241.0, 0.0)
    assert isinstance(word, Kill) and word.arm is None and "no step" in word.why


def test_eager_against_eager_is_neither_killed_for_compiling_nor_ended_before_its_share() -> None:
    looking = [*LOOKED, ArmStarted(3.0, "aa", 0, True)]
    share = Share("aa", 75.0, 75.0)
    assert word_to(fold(looking), share, 70.0, 0.0) is None
    assert word_to(fold(looking), share, 76.0, 0.0) == Control("next", "aa")


# -------------------------------------------------------------------------------------------------------------------
# The next session
# -------------------------------------------------------------------------------------------------------------------


def after(*events: Event, session_s: float = 60.0) -> Ledger:
    """A first session with these events that is over."""
    return fold([*LOOKED, *events, SessionExit(session_s, 0, 0, None)])


def done(arm: str, ratio: float, cold: bool = True) -> list[Event]:
    started = ArmStarted(3.0, arm, 0, cold)
    return [started, ready(arm, 9.0), *timed(arm, 20, 20.0, 20.0 / ratio), ArmClosed(50.0, arm, "completed", "")]


AA_DONE: list[Event] = [
    ArmStarted(2.5, "aa", 0, True),
    *timed("aa", 20, 20.0, 20.0),
    ArmClosed(3.0, "aa", "completed", ""),
]


def next_plan(ledger: Ledger, arms: tuple[Arm, ...] | None, now_s: float, idle: dict[str, int]) -> SessionPlan | None:
    return next_session(ledger, arms, LIMITS, now_s, idle, attempts=ledger.sessions)


def test_the_first_session_looks_and_measures_eager_against_eager() -> None:
    plan = next_plan(Ledger(), None, 0.0, {})
    assert plan is not None and plan.arms == (AA,) and plan.add_later


def test_arms_that_are_still_open_go_on_in_a_new_session() -> None:
    ledger = after(*AA_DONE, *done("default", 1.5))
    plan = next_plan(ledger, (DEFAULT, OTHER), 60.0, {})
    assert plan is not None and plan.arms == (OTHER,) and not plan.add_later


def test_eager_against_eager_is_repeated_while_the_noise_is_unknown_and_never_for_long() -> None:
    few = [ArmStarted(2.5, "aa", 0, True), *timed("aa", 3, 20.0, 20.0)]
    plan = next_plan(after(*few, session_s=10.0), (DEFAULT,), 60.0, {})
    assert plan is not None and ids(plan.arms) == ["aa", "default"]
    long = next_plan(after(*few, session_s=100.0), (DEFAULT,), 120.0, {})
    assert long is not None and ids(long.arms) == ["default"]
    known = [ArmStarted(2.5, "aa", 0, True), *timed("aa", 12, 20.0, 20.0)]
    plan = next_plan(after(*known, session_s=10.0), (DEFAULT,), 60.0, {})
    assert plan is not None and ids(plan.arms) == ["default"]


def test_a_script_of_few_steps_gets_one_arm_a_session() -> None:
    short = after(*AA_DONE, ended(0, steps=policy.SHORT_SCRIPT_STEPS - 1))
    plan = next_plan(short, (DEFAULT, OTHER), 60.0, {})
    assert plan is not None and plan.arms == (DEFAULT,)
    longer = next_plan(after(*AA_DONE, ended(0, steps=policy.SHORT_SCRIPT_STEPS)), (DEFAULT, OTHER), 60.0, {})
    assert longer is not None and longer.arms == (DEFAULT, OTHER)


def test_an_arm_that_got_nowhere_twice_is_not_started_again() -> None:
    ledger = after(*AA_DONE)
    assert next_plan(ledger, (DEFAULT,), 60.0, {"default": policy.MOST_IDLE_SESSIONS}) is None
    assert next_plan(ledger, (DEFAULT,), 60.0, {"default": policy.MOST_IDLE_SESSIONS - 1}) is not None


def test_no_session_is_started_in_the_last_seconds() -> None:
    ledger = after(*AA_DONE)
    last_s = LIMITS.end_s - policy.FEWEST_LEFT_S - ledger.startup_s
    assert next_plan(ledger, (DEFAULT,), last_s - 0.1, {}) is not None
    assert next_plan(ledger, (DEFAULT,), last_s + 0.1, {}) is None


def test_without_an_anatomy_there_is_no_second_session() -> None:
    assert next_plan(fold([LOOKED[0], SessionExit(1.0, 0, 0, None)]), None, 1.0, {}) is None


def test_the_best_of_the_proven_is_confirmed_once_in_a_fresh_process() -> None:
    ledger = after(*AA_DONE, *done("default", 1.5), *done("max-autotune", 1.7))
    plan = next_plan(ledger, (DEFAULT, OTHER), 60.0, {})
    assert plan is not None and plan.arms == (OTHER,) and plan.why.startswith("confirm")
    assert next_plan(ledger, (DEFAULT, OTHER), 60.0, {"confirm": 1}) is None


def test_what_has_been_warm_already_or_gains_nothing_is_not_confirmed() -> None:
    warm = after(*AA_DONE, *done("default", 1.5), *done("default", 1.5, cold=False))
    assert next_plan(warm, (DEFAULT,), 60.0, {}) is None
    assert next_plan(after(*AA_DONE, *done("default", 1.02)), (DEFAULT,), 60.0, {}) is None


def crash(steps: int) -> list[Event]:
    return [ArmStarted(3.0, "default", 0, True), ended(1, "ValueError", arm="default", steps=steps)]


def test_a_crash_beyond_the_reach_of_eager_is_verified_once() -> None:
    ledger = after(*AA_DONE, *crash(200), ArmClosed(50.0, "default", "crashed", "ValueError"))
    assert unproven_crash(ledger)
    plan = next_plan(ledger, (DEFAULT,), 60.0, {})
    assert plan is not None and plan.arms == (VERIFY,)
    assert next_plan(ledger, (DEFAULT,), 60.0, {"verify": 1}) is None


def test_a_crash_at_a_step_that_eager_has_passed_needs_no_verification() -> None:
    passed = StepsSeen(2.9, 300, "aa")
    ledger = after(AA_DONE[0], passed, *AA_DONE[1:], *crash(200), ArmClosed(50.0, "default", "crashed", "ValueError"))
    assert not unproven_crash(ledger)
    assert not unproven_crash(after(*AA_DONE))


def test_verification_comes_after_the_arms_that_are_still_open() -> None:
    ledger = after(*AA_DONE, *crash(200), ArmClosed(50.0, "default", "crashed", "ValueError"))
    plan = next_plan(ledger, (DEFAULT, AS_WRITTEN), 60.0, {})
    assert plan is not None and plan.arms == (AS_WRITTEN,)


def test_blocks_of_the_helper_are_what_the_tests_take_them_for() -> None:
    assert all(isinstance(e, Block) for e in timed("default", 3)) and len(timed("default", 3)) == 6

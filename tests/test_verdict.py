"""The judge: every kind and reason that it can give, that it always gives one, and what it never says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import COMPUTE_PHASES, LOADER_PHASES, block, ended, pair_of_blocks, ready

from speedproof.analyse.conclude import exit_code
from speedproof.analyse.ledger import Ledger, fold
from speedproof.analyse.result import (
    baseline_of,
    break_even,
    ceiling_of,
    compile_cost,
    noise_of,
    phase_shares,
    variants_of,
)
from speedproof.analyse.verdict import SHORT_RUN_FACTOR, Case, failed, judge
from speedproof.errors import Exit
from speedproof.model import (
    PHASES,
    ArmClosed,
    ArmConfig,
    ArmStarted,
    ArmVoided,
    Baseline,
    Ceiling,
    CompileCost,
    Event,
    Mean,
    Memory,
    Noise,
    Outcome,
    PhasesMeasured,
    Ratio,
    Variant,
    Verdict,
)
from speedproof.plan.arms import AS_WRITTEN, mode_arm

OPEN = Ceiling(50.0, "the rest of the loop sets no limit that matters")
FASTER, SLOWER, SAME = Ratio(1.4, 1.3, 1.5, 20), Ratio(0.8, 0.7, 0.9, 20), Ratio(1.01, 0.99, 1.03, 20)
UNKNOWN = Ratio(1.06, 0.9, 1.2, 8)


def variant(
    speedup: Ratio | None = None, outcome: Outcome = "completed", why: str = "", name: str = "default", **more: object
) -> Variant:
    config = ArmConfig(mode=name, backend="inductor")
    base = Variant(name, f"torch.compile ({name})", config, "compile", outcome, why, speedup)
    return replace(base, **more)  # type: ignore[arg-type]


def case(*variants: Variant, **more: object) -> Case:
    phases = {**dict.fromkeys(PHASES, 0.0), "forward": 0.4, "backward": 0.6}
    baseline = Baseline(Mean(20.0, 19.0, 21.0), 200, phases, None)
    base = Case(variants, baseline, OPEN, Noise(Ratio(1.0, 0.99, 1.01, 20), 0.01), 0.05, None, None)
    return replace(base, **more)  # type: ignore[arg-type]


def told(verdict: Verdict) -> tuple[str, tuple[str, ...]]:
    return verdict.kind, verdict.reasons


def said(verdict: Verdict) -> str:
    return " ".join((verdict.summary, *verdict.advice, verdict.why))


# -------------------------------------------------------------------------------------------------------------------
# Worth it, or too short a run
# -------------------------------------------------------------------------------------------------------------------


def test_a_proven_gain_is_worth_it_and_names_the_change() -> None:
    verdict = judge(case(variant(FASTER, break_even_steps=120)))
    assert told(verdict) == ("worth_it", ("faster",))
    assert verdict.best == "default" and "1.40x" in verdict.summary and "120" in verdict.summary
    assert "model.compile()" in said(verdict)


def test_the_best_of_several_gains_is_chosen_and_its_mode_spelled_out() -> None:
    better = variant(Ratio(1.6, 1.5, 1.7, 20), name="reduce-overhead")
    verdict = judge(case(variant(FASTER), better, variant(SLOWER, name="max-autotune")))
    assert verdict.best == "reduce-overhead"
    assert "model.compile(mode='reduce-overhead')" in said(verdict)


def test_what_the_script_compiles_itself_is_to_be_kept() -> None:
    verdict = judge(case(variant(FASTER, name="as_written")))
    assert verdict.best == "as_written" and "keep it" in said(verdict)


def test_a_crash_or_a_timeout_elsewhere_does_not_take_a_proven_gain_away() -> None:
    others = variant(None, "crashed", "boom", "max-autotune"), variant(None, "timed_out", "slow", "reduce-overhead")
    assert told(judge(case(variant(FASTER), *others))) == ("worth_it", ("faster",))


def test_a_planned_run_that_ends_before_the_break_even_is_too_short() -> None:
    winner = variant(FASTER, break_even_steps=1_001, compile_s=CompileCost(60.0, 7.0))
    verdict = judge(case(winner, planned_steps=1_000))
    assert told(verdict) == ("not_worth_it", ("too_few_steps",))
    assert verdict.best == "default" and "1,001" in verdict.summary and "--steps" in said(verdict)
    assert "warm start costs 7 s" in said(verdict)
    assert judge(case(winner, planned_steps=1_001)).kind == "worth_it"


def test_a_run_that_was_only_seen_may_end_ten_times_before_the_break_even() -> None:
    winner = variant(FASTER, break_even_steps=100 * SHORT_RUN_FACTOR)
    assert told(judge(case(winner, seen_steps=99))) == ("not_worth_it", ("too_few_steps",))
    within = judge(case(winner, seen_steps=100))
    assert within.kind == "worth_it" and "this run ends after 100 steps" in said(within)


def test_planned_steps_count_before_those_that_were_seen() -> None:
    winner = variant(FASTER, break_even_steps=500)
    assert judge(case(winner, planned_steps=100, seen_steps=10_000)).kind == "not_worth_it"
    assert judge(case(winner, planned_steps=10_000, seen_steps=5)).kind == "worth_it"


def test_an_unknown_break_even_does_not_forbid_a_proven_gain() -> None:
    assert judge(case(variant(FASTER), planned_steps=1)).kind == "worth_it"


# -------------------------------------------------------------------------------------------------------------------
# Not worth it
# -------------------------------------------------------------------------------------------------------------------

LITTLE = Ceiling(1.03, "only 3% of the step is in forward, loss, backward and optimizer")


def phases(**shares: float) -> Baseline:
    return Baseline(Mean(20.0, 19.0, 21.0), 200, {**dict.fromkeys(PHASES, 0.0), **shares}, None)


def test_a_loop_that_waits_for_its_data_hears_that() -> None:
    verdict = judge(case(variant(UNKNOWN), ceiling=LITTLE, baseline=phases(data=0.97, forward=0.03)))
    assert told(verdict) == ("not_worth_it", ("waits_for_data",))
    assert "3% at most" in verdict.summary and "num_workers" in said(verdict)


def test_a_loop_of_other_code_hears_that() -> None:
    verdict = judge(case(variant(UNKNOWN), ceiling=LITTLE, baseline=phases(other=0.97, forward=0.03)))
    assert told(verdict) == ("not_worth_it", ("other_code",))


def test_a_loop_that_waits_for_transfers_is_not_told_to_mend_its_loader() -> None:
    verdict = judge(case(variant(UNKNOWN), ceiling=LITTLE, baseline=phases(transfer=0.97, forward=0.03)))
    assert "waits_for_data" not in verdict.reasons


def test_a_proven_gain_beats_a_ceiling_that_says_there_is_none() -> None:
    assert judge(case(variant(FASTER), ceiling=LITTLE)).kind == "worth_it"


def test_no_gain_says_how_fast_the_best_ran() -> None:
    verdict = judge(case(variant(SAME), variant(SLOWER, name="max-autotune")))
    assert told(verdict) == ("not_worth_it", ("no_gain",))
    assert "1.01x" in verdict.summary and verdict.best is None


def test_slower_is_called_slower() -> None:
    assert told(judge(case(variant(SLOWER)))) == ("not_worth_it", ("slower",))


def test_no_gain_in_a_loop_that_mostly_waits_says_both() -> None:
    verdict = judge(case(variant(SAME), baseline=phases(data=0.6, forward=0.4)))
    assert told(verdict) == ("not_worth_it", ("no_gain", "waits_for_data"))


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("crashed", "compile_crashes"),
        ("out_of_memory", "compile_out_of_memory"),
        ("unsupported", "nothing_compiled"),
    ],
)
def test_what_broke_is_a_reason_beside_the_measured_one_or_alone(outcome: Outcome, reason: str) -> None:
    broken = variant(None, outcome, "because of a thing\nand more", "max-autotune")
    assert told(judge(case(variant(SAME), broken))) == ("not_worth_it", ("no_gain", reason))
    alone = judge(case(broken, variant(None, "skipped", "no CUDA graphs", "reduce-overhead")))
    assert told(alone) == ("not_worth_it", (reason,))
    assert "because of a thing" in alone.summary and "and more" not in alone.summary


def test_where_all_is_skipped_there_is_nothing_to_compile() -> None:
    verdict = judge(case(variant(None, "skipped", "the loop calls no module at its top level")))
    assert told(verdict) == ("not_worth_it", ("nothing_to_compile",))
    assert "no module" in verdict.summary


# -------------------------------------------------------------------------------------------------------------------
# Inconclusive, failed
# -------------------------------------------------------------------------------------------------------------------


def test_an_interval_around_the_bar_is_noise_and_says_how_long_it_would_take() -> None:
    verdict = judge(case(variant(UNKNOWN)))
    assert told(verdict) == ("inconclusive", ("noise",))
    assert "min" in said(verdict) or "no amount of time" in said(verdict)
    farther = judge(case(variant(Ratio(1.12, 1.03, 1.21, 20)), budget_s=600.0))
    assert "--budget" in said(farther)


def test_a_gain_right_at_the_threshold_is_not_promised_to_be_decided_by_time() -> None:
    assert "no amount of time" in said(judge(case(variant(Ratio(1.0501, 1.0, 1.1, 30)))))


def test_a_variant_without_an_interval_yet_is_undecided() -> None:
    assert told(judge(case(variant(Ratio(1.9, None, None, 2))))) == ("inconclusive", ("noise",))


@pytest.mark.parametrize(
    ("variants", "more", "reason"),
    [
        ((variant(None, "timed_out", "still compiling"),), {}, "no_time"),
        ((), {}, "no_time"),
        ((variant(None, "cancelled", "the script ends before more could be measured"),), {}, "script_too_short"),
        ((variant(None, "cancelled", "the run ended"),), {"interrupted": True}, "interrupted"),
        ((), {"interrupted": True}, "interrupted"),
    ],
)
def test_what_got_no_result_is_inconclusive(
    variants: tuple[Variant, ...], more: dict[str, object], reason: str
) -> None:
    assert told(judge(case(*variants, **more))) == ("inconclusive", (reason,))


def test_one_slower_variant_does_not_decide_for_another_that_got_no_time() -> None:
    verdict = judge(case(variant(SLOWER), variant(None, "timed_out", "still compiling", "max-autotune")))
    assert verdict.kind == "inconclusive"


def test_a_failing_script_is_quoted_with_its_own_error() -> None:
    verdict = failed(ended(1, "ZeroDivisionError"), "exit status 1", "mend it")
    assert told(verdict) == ("failed", ("script_fails",))
    assert verdict.summary == "ZeroDivisionError: it broke" and verdict.advice == ("mend it",)
    assert failed(None, "exit status 1", "mend it").summary == "exit status 1"


@pytest.mark.parametrize(
    ("kind", "reasons", "interrupted", "code"),
    [
        ("worth_it", ("faster",), False, Exit.VERDICT),
        ("not_worth_it", ("no_gain",), False, Exit.VERDICT),
        ("unsafe", (), False, Exit.VERDICT),
        ("worth_it_after_fix", (), False, Exit.VERDICT),
        ("inconclusive", ("noise",), False, Exit.INCONCLUSIVE),
        ("failed", ("script_fails",), False, Exit.SCRIPT_FAILED),
        ("failed", ("no_steps",), False, Exit.NO_STEPS),
        ("failed", ("speedproof_fails",), False, Exit.INTERNAL),
        ("worth_it", ("faster",), True, Exit.INTERRUPTED),
        ("failed", ("no_steps",), True, Exit.INTERRUPTED),
    ],
)
def test_the_exit_codes_are_those_of_the_contract(
    kind: str, reasons: tuple[str, ...], interrupted: bool, code: Exit
) -> None:
    verdict = Verdict(kind, "", None, reasons, ())  # type: ignore[arg-type]
    assert exit_code(verdict, interrupted) == code
    assert sorted(Exit) == [0, 1, 2, 3, 4, 5, 6, 130]


# -------------------------------------------------------------------------------------------------------------------
# The bar
# -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aa", "bar"),
    [
        (None, 1.05),
        (Ratio(1.02, None, None, 2), 1.05),
        (Ratio(1.04, 0.98, 1.1, 20), 1.05),  # contains 1: noise, but no bias
        (Ratio(1.03, 1.01, 1.04, 20), 1.05),  # a bias below the threshold
        (Ratio(1.10, 1.08, 1.12, 20), 1.12),
        (Ratio(0.88, 0.86, 0.90, 20), 1.14),
    ],
)
def test_eager_against_eager_that_excludes_1_raises_the_bar(aa: Ratio | None, bar: float) -> None:
    assert case(noise=Noise(aa, None)).bar == pytest.approx(bar)


def test_a_gain_that_the_biased_machine_also_shows_in_eager_is_not_worth_it() -> None:
    gain = variant(Ratio(1.11, 1.08, 1.13, 30))
    assert judge(case(gain)).kind == "worth_it"
    assert judge(case(gain, noise=Noise(Ratio(1.10, 1.08, 1.12, 20), 0.12))).kind == "inconclusive"


# -------------------------------------------------------------------------------------------------------------------
# All cases
# -------------------------------------------------------------------------------------------------------------------

SPAN = st.lists(st.floats(0.2, 5.0), min_size=3, max_size=3).map(sorted)
RATIOS = st.one_of(
    SPAN.map(lambda s: Ratio(s[1], s[0], s[2], 10)),
    st.floats(0.2, 5.0).map(lambda r: Ratio(r, None, None, 1)),
)
OUTCOMES = st.sampled_from(
    ["completed", "skipped", "crashed", "timed_out", "out_of_memory", "unsupported", "cancelled"]
)
VARIANTS = st.builds(
    variant,
    speedup=st.none() | RATIOS,
    outcome=OUTCOMES,
    why=st.sampled_from(["", "  ", "the script ends before", "two\nlines"]),
    name=st.sampled_from(["as_written", "default", "max-autotune", "eager"]),
    break_even_steps=st.none() | st.integers(0, 10**9),
    compile_s=st.builds(CompileCost, st.none() | st.floats(0, 900), st.none() | st.floats(0, 900)),
    graph_breaks=st.none() | st.integers(0, 9),
)
BASELINES = st.builds(
    Baseline,
    st.none() | st.floats(0.01, 1e5).map(lambda m: Mean(m, None, None)),
    st.integers(0, 99),
    st.none() | st.just(phase_shares(PhasesMeasured(0.0, 1, 1, LOADER_PHASES))),
    st.none(),
)
GENERATED = st.builds(
    Case,
    variants=st.lists(VARIANTS, max_size=5),
    baseline=BASELINES,
    ceiling=st.builds(Ceiling, st.none() | st.floats(1.0, 50.0), st.just("so")),
    noise=st.builds(Noise, st.none() | RATIOS, st.none() | st.floats(0.0, 1.0)),
    threshold=st.floats(0.0, 0.5),
    planned_steps=st.none() | st.integers(0, 10**7),
    seen_steps=st.none() | st.integers(1, 10**7),
    interrupted=st.booleans(),
    budget_s=st.floats(10.0, 1e5),
)


@settings(derandomize=True, max_examples=400, deadline=None)
@given(GENERATED)
def test_every_case_gets_a_verdict_that_its_figures_bear_out(case: Case) -> None:
    verdict = judge(case)
    assert verdict.summary and verdict.reasons and verdict.advice
    proven = [
        v
        for v in case.variants
        if v.outcome == "completed" and v.speedup is not None and (v.speedup.low or 0.0) >= case.bar
    ]
    assert (verdict.kind == "worth_it" or "too_few_steps" in verdict.reasons) == bool(proven)
    assert (verdict.best is not None) == bool(proven)
    if proven:
        assert verdict.best in {v.id for v in proven}
    assert exit_code(verdict, case.interrupted) in set(Exit)


# -------------------------------------------------------------------------------------------------------------------
# The figures that the judge gets: from the ledger to the verdict file
# -------------------------------------------------------------------------------------------------------------------


def measured(arm: str, pairs: int, base_ms: float, arm_ms: float, cold: bool = True) -> list[Event]:
    events: list[Event] = [ArmStarted(0.0, arm, 0, cold, 0)]
    if arm != "aa":
        events.append(ready(arm, warmup_s=10.0, steps=5))
    for number in range(pairs):
        events += pair_of_blocks(arm, number, base_ms * (1 + 0.001 * (number % 3)), arm_ms)
    return [*events, ArmClosed(0.0, arm, "completed", "")]


def test_the_baseline_is_all_eager_blocks_and_both_sides_of_the_eager_arms() -> None:
    ledger = fold([*measured("aa", 6, 20.0, 22.0), *measured("default", 6, 21.0, 10.0)])
    found = baseline_of(ledger)
    assert found.steps == 18 * 4
    assert found.step_ms is not None and found.step_ms.mean == pytest.approx(21.0, rel=0.01)
    assert found.phases is None and found.peak_bytes is None


def test_nothing_measured_is_a_baseline_of_unknowns() -> None:
    assert baseline_of(Ledger()) == Baseline(None, 0, None, None)
    assert noise_of(Ledger()) == Noise(None, None)


def test_the_peak_of_eager_is_the_least_that_was_seen() -> None:
    ledger = fold([Memory(0.0, "a", "base", 9), Memory(0.0, "b", "base", 7), Memory(0.0, "b", "arm", 5)])
    assert baseline_of(ledger).peak_bytes == 7


def test_phase_shares_name_all_phases_and_sum_to_1() -> None:
    shares = phase_shares(PhasesMeasured(0.0, 12, 999, COMPUTE_PHASES))
    assert shares is not None and tuple(shares) == PHASES
    assert sum(shares.values()) == pytest.approx(1.0) and shares["transfer"] == 0.0
    assert phase_shares(PhasesMeasured(0.0, 12, 0, {})) is None and phase_shares(None) is None


def test_the_ceiling_follows_from_the_share_that_may_be_compiled() -> None:
    shares = phase_shares(PhasesMeasured(0.0, 1, 1, {"data": 75, "forward": 25}))
    limited = ceiling_of(shares)
    assert limited.max_speedup == pytest.approx(1 / 0.75) and "waiting for data takes 75%" in limited.why
    assert ceiling_of(phase_shares(PhasesMeasured(0.0, 1, 1, {"forward": 1}))).max_speedup == 50.0
    assert ceiling_of(phase_shares(PhasesMeasured(0.0, 1, 1, {"other": 1}))).max_speedup == 1.0
    assert ceiling_of(None).max_speedup is None


def test_the_smallest_effect_is_the_farthest_that_eager_strays_from_itself() -> None:
    found = noise_of(fold(measured("aa", 12, 20.0, 20.0)))
    assert found.aa is not None and found.aa.low is not None and found.aa.high is not None
    assert found.smallest_effect == pytest.approx(max(found.aa.high - 1, 1 - found.aa.low))


def test_compiling_costs_the_warm_up_less_what_its_steps_usually_take() -> None:
    record = fold(measured("default", 6, 20.0, 10.0)).arm("default")
    cost = compile_cost(record, 20e6)
    assert cost.cold == pytest.approx(10.0 - 5 * 0.010) and cost.warm is None
    warm = fold(measured("default", 6, 20.0, 10.0, cold=False)).arm("default")
    assert compile_cost(warm, 20e6).cold is None and compile_cost(warm, 20e6).warm is not None


def test_the_break_even_is_where_the_gains_have_paid_and_unknown_without_a_proven_gain() -> None:
    assert break_even(10.0, 20e6, Ratio(2.0, 1.9, 2.1)) == 1001
    assert break_even(0.0, 20e6, Ratio(2.0, 1.9, 2.1)) == 1
    assert break_even(10.0, 20e6, Ratio(1.2, 0.9, 1.5)) is None
    assert break_even(10.0, 20e6, Ratio(2.0, None, None)) is None
    assert break_even(None, 20e6, FASTER) is break_even(1.0, None, FASTER) is break_even(1.0, 1.0, None) is None


ARMS = (AS_WRITTEN, mode_arm("default"), mode_arm("max-autotune"))


def test_a_measured_variant_has_its_figures() -> None:
    ledger = fold([*measured("default", 6, 20.0, 10.0), Memory(0.0, "default", "arm", 77)])
    (found,) = variants_of(ledger, ARMS, baseline_of(ledger))
    assert (found.id, found.outcome, found.kind, found.peak_bytes) == ("default", "completed", "compile", 77)
    assert found.speedup is not None and found.speedup.ratio == pytest.approx(2.0, rel=0.01)
    assert found.break_even_steps is not None and 990 < found.break_even_steps < 1010
    assert (found.graphs, found.ops, found.graph_breaks, found.recompiles) == (1, 120, 0, 0)
    assert found.settled is True and found.compiling_share == 0.0


def test_figures_of_a_variant_that_was_not_measured_are_unknown_never_zero() -> None:
    ledger = fold([ArmVoided(0.0, "default", "skipped", "no CUDA graphs")])
    (found,) = variants_of(ledger, ARMS, baseline_of(ledger))
    assert (found.outcome, found.why) == ("skipped", "no CUDA graphs")
    unknown = (found.speedup, found.break_even_steps, found.peak_bytes, found.graphs, found.graph_breaks)
    assert set(unknown) == {None} and found.compiling_share is None


def test_completed_without_a_single_pair_is_not_completed() -> None:
    ledger = fold([ArmStarted(0.0, "default", 0, True), ready("default"), block("default", 0, "base")])
    (found,) = variants_of(ledger, ARMS, baseline_of(ledger))
    assert found.outcome == "cancelled" and "ended before" in found.why
    ledger.add(ArmClosed(0.0, "default", "completed", ""))
    (found,) = variants_of(ledger, ARMS, baseline_of(ledger))
    assert found.outcome == "cancelled" and "not a single" in found.why.replace("before a single", "not a single")


def test_a_crash_keeps_no_speed_even_where_pairs_were_timed() -> None:
    ledger = fold([*measured("default", 6, 20.0, 10.0)[:-1], ArmClosed(0.0, "default", "crashed", "boom")])
    (found,) = variants_of(ledger, ARMS, baseline_of(ledger))
    assert found.outcome == "crashed" and found.speedup is None


def test_as_written_is_not_shown_where_the_script_does_not_ask_for_compilation() -> None:
    closed = ArmClosed(0.0, "as_written", "cancelled", "the script does not ask for compilation")
    ledger = fold([ArmStarted(0.0, "as_written", 0, True), closed])
    assert variants_of(ledger, ARMS, baseline_of(ledger)) == ()

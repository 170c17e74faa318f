"""The whole pipeline on recorded sessions and a clock that only moves when a recording waits."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from recordings import (
    LOADER_PHASES,
    Behaviour,
    CtrlC,
    Script,
    Stage,
    anatomy,
    capturing_nothing,
    crashing,
    dying,
    ended,
    hanging,
    meta,
    network,
    site,
    stop_script,
    timed,
)

from speedproof.analyse.conclude import conclude
from speedproof.analyse.ledger import Ledger
from speedproof.engine import Engine, Surroundings
from speedproof.errors import Exit
from speedproof.execute.scripted import Item, ScriptedExecutor, Wait
from speedproof.model import (
    AnatomyFound,
    ArmStarted,
    ArmVoided,
    Control,
    Event,
    Result,
    RunMeta,
    Schedule,
    SessionExit,
    SessionSpec,
    SessionStarted,
    StepsSeen,
    TrainingFound,
    Variant,
)
from speedproof.plan import limits as policy
from speedproof.plan.arms import AS_WRITTEN, mode_arm
from speedproof.store import RunStore, load_events, load_meta, load_result

Recording = Callable[[SessionSpec], list[Item]]
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclass
class Notes:
    """A view that remembers what was said."""

    said: list[str] = field(default_factory=list)
    pulses: int = 0

    def event(self, event: Event, ledger: Ledger, now_s: float) -> None:
        pass

    def pulse(self, ledger: Ledger, now_s: float) -> None:
        self.pulses += 1

    def say(self, text: str) -> None:
        self.said.append(text)


@dataclass
class Outcome:
    """All that a run left."""

    result: Result
    stage: Stage
    store: RunStore
    notes: Notes
    plain_runs: list[tuple[float, bool]]

    @property
    def plans(self) -> list[list[str]]:
        return self.stage.plans

    @property
    def spent_s(self) -> float:
        return self.stage.clock() - 1_000.0

    def variant(self, name: str) -> Variant:
        (found,) = [v for v in self.result.variants if v.id == name]
        return found

    def outcomes(self) -> dict[str, str]:
        return {v.id: v.outcome for v in self.result.variants}


def play(
    folder: Path,
    sessions: Sequence[Recording],
    asked: RunMeta | None = None,
    plain_code: Callable[[bool], int | None] = lambda terminal: 0,
    explicit: bool = False,
) -> Outcome:
    """Run the engine on these recordings; ``plain_code(terminal)`` is how the script ends without speedproof."""
    asked = asked or meta()
    stage, notes, plain_runs = Stage(sessions), Notes(), list[tuple[float, bool]]()
    store = RunStore.create(folder / "runs", asked)

    def plain_run(timeout_s: float, terminal: bool) -> int | None:
        plain_runs.append((timeout_s, terminal))
        return plain_code(terminal)

    world = Surroundings(stage, stage.clock, plain_run, notes, explicit_arms=explicit)
    return Outcome(Engine(asked, store, world).run(), stage, store, notes, plain_runs)


def script(arms: dict[str, Behaviour], device: str = "cpu", **more: object) -> Script:
    queued = tuple(name for name in arms if name not in ("aa", "verify"))
    made = Script(anatomy(device), {"aa": timed("aa", 1.0), "verify": timed("verify", 1.0), **arms}, queued)
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def run(folder: Path, arms: dict[str, Behaviour], asked: RunMeta | None = None, device: str = "cpu") -> Outcome:
    made = script(arms, device)
    return play(folder, [made.session] * 20, asked)


# -------------------------------------------------------------------------------------------------------------------
# Runs in which all goes well
# -------------------------------------------------------------------------------------------------------------------


def test_a_run_that_gains_ends_worth_it(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"default": timed("default", 1.4)})
    result = outcome.result
    assert (result.verdict.kind, result.verdict.best, result.exit_code) == ("worth_it", "default", Exit.VERDICT)
    found = outcome.variant("default")
    assert found.speedup is not None and found.speedup.low is not None and found.speedup.low > 1.35
    assert found.compile_s.cold == pytest.approx(8.0, abs=0.2) and found.compile_s.warm == pytest.approx(8.0, abs=0.2)
    gain_s = 0.02 * (1 - 1 / 1.4)
    assert found.break_even_steps == pytest.approx(8.0 / gain_s, rel=0.05)
    assert result.baseline.step_ms is not None and result.baseline.step_ms.mean == pytest.approx(20.0, rel=0.02)
    assert result.noise.aa is not None and result.noise.aa.ratio == pytest.approx(1.0, abs=0.01)


def test_a_winner_is_looked_at_in_one_session_and_confirmed_in_a_second(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"default": timed("default", 1.4)})
    assert outcome.plans == [["aa"], ["default"]]
    first, second = outcome.stage.sessions
    assert first.sent[0] == Control("try", "default", mode_arm("default"))
    assert second.spec.anatomy == anatomy() and not second.spec.measure_phases and first.spec.measure_phases
    done = second.spec.schedule.pairs_done["default"]
    assert done >= policy.FEWEST_PAIRS and second.spec.schedule.max_pairs == done + policy.CONFIRM_PAIRS


def test_a_run_that_loses_ends_not_worth_it_and_confirms_nothing(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"default": timed("default", 0.8)})
    assert outcome.result.verdict.kind == "not_worth_it" and outcome.result.verdict.reasons == ("slower",)
    assert outcome.result.exit_code == Exit.VERDICT and outcome.plans == [["aa"]]


def test_an_arm_is_left_as_soon_as_it_is_known_well_enough(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"default": timed("default", 0.8, pairs=1000)})
    speedup = outcome.variant("default").speedup
    assert speedup is not None and policy.FEWEST_PAIRS <= speedup.pairs <= 12
    assert Control("next", "default") in outcome.stage.sessions[0].sent
    assert outcome.spent_s < 30.0


def test_a_loop_that_waits_for_data_is_told_what_to_mend_instead(tmp_path: Path) -> None:
    made = script({"default": timed("default", 1.01)}, phases=LOADER_PHASES)
    result = play(tmp_path, [made.session] * 3).result
    assert result.verdict.reasons[0] == "waits_for_data" and result.ceiling.max_speedup is not None
    assert result.ceiling.max_speedup < 1.05


def test_where_no_variant_can_gain_none_is_tried_unless_it_was_named(tmp_path: Path) -> None:
    made = script({"default": timed("default", 1.01)}, phases=LOADER_PHASES)
    idle = dataclasses.replace(made, queued=())
    outcome = play(tmp_path / "standard", [idle.session] * 3)
    assert outcome.variant("default").outcome == "skipped" and outcome.result.verdict.reasons[0] == "waits_for_data"
    named = play(tmp_path / "named", [made.session] * 3, meta([mode_arm("default")]), explicit=True)
    assert named.variant("default").outcome == "completed"


def test_on_cuda_all_four_modes_are_tried_and_the_best_is_confirmed(tmp_path: Path) -> None:
    gains = dict(zip(MODES, (1.3, 1.8, 1.5, 1.4)))
    outcome = run(tmp_path, {m: timed(m, g) for m, g in gains.items()}, device="cuda")
    assert set(outcome.outcomes().values()) == {"completed"} and set(outcome.outcomes()) == set(MODES)
    assert outcome.result.verdict.best == "reduce-overhead"
    assert outcome.plans == [["aa"], ["reduce-overhead"]]
    for name, gain in gains.items():
        speedup = outcome.variant(name).speedup
        assert speedup is not None and speedup.ratio == pytest.approx(gain, rel=0.02)


def test_on_a_cpu_the_modes_that_cannot_matter_are_in_the_result_with_the_reason(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"default": timed("default", 1.4)})
    assert outcome.outcomes() == {"default": "completed", **dict.fromkeys(MODES[1:], "skipped")}
    assert "no CUDA graphs" in outcome.variant("reduce-overhead").why


def test_a_script_that_compiles_itself_is_measured_as_written(tmp_path: Path) -> None:
    made = script({"as_written": timed("as_written", 1.3)}, anatomy=anatomy(sites=(site(),)))
    outcome = play(tmp_path, [made.session] * 3)
    assert outcome.result.verdict.best == "as_written" and outcome.variant("default").outcome == "skipped"


def test_without_anything_to_compile_the_verdict_comes_at_once(tmp_path: Path) -> None:
    made = script({}, anatomy=anatomy(roots=(network(target=False),)))
    outcome = play(tmp_path, [made.session] * 3)
    assert outcome.result.verdict.reasons == ("nothing_to_compile",) and outcome.spent_s < 30.0


def test_a_variant_that_captures_nothing_is_unsupported_with_0_graphs(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"default": capturing_nothing("default")})
    found = outcome.variant("default")
    assert (found.outcome, found.graphs) == ("unsupported", 0)
    assert outcome.result.verdict.reasons == ("nothing_compiled",)


def test_as_written_of_a_script_that_does_not_compile_is_not_a_matter_of_time(tmp_path: Path) -> None:
    made = script({})
    outcome = play(tmp_path, [made.session] * 3, meta([AS_WRITTEN]), explicit=True)
    assert "no_time" not in outcome.result.verdict.reasons


# -------------------------------------------------------------------------------------------------------------------
# One variant goes wrong, the others are measured
# -------------------------------------------------------------------------------------------------------------------


def on_cuda_with(folder: Path, broken: Behaviour, name: str = "reduce-overhead", budget_s: float = 600.0) -> Outcome:
    arms = {m: timed(m, 1.5 if m == "max-autotune" else 1.3) for m in MODES} | {name: broken}
    return run(folder, arms, meta(budget_s=budget_s), device="cuda")


def others_completed(outcome: Outcome, name: str = "reduce-overhead") -> bool:
    return set(outcome.outcomes()) == set(MODES) and all(
        o == "completed" for arm, o in outcome.outcomes().items() if arm != name
    )


def test_a_variant_that_raises_leaves_the_others_measured_in_the_same_session(tmp_path: Path) -> None:
    outcome = on_cuda_with(tmp_path, crashing("reduce-overhead"))
    assert outcome.variant("reduce-overhead").outcome == "crashed" and others_completed(outcome)
    assert "no kernel" in outcome.variant("reduce-overhead").why
    assert outcome.result.verdict.best == "max-autotune" and outcome.plans == [["aa"], ["max-autotune"]]


@pytest.mark.parametrize(
    ("code", "expected", "word"),
    [(-9, "out_of_memory", "memory"), (-11, "crashed", "signal 11"), (1, "crashed", "status 1")],
)
def test_a_variant_that_takes_the_process_down_leaves_the_others_measured(
    tmp_path: Path, code: int, expected: str, word: str
) -> None:
    outcome = on_cuda_with(tmp_path, dying("reduce-overhead", code))
    found = outcome.variant("reduce-overhead")
    assert found.outcome == expected and word in found.why and found.speedup is None
    assert others_completed(outcome)
    assert outcome.plans == [["aa"], ["max-autotune", "max-autotune-no-cudagraphs"], ["max-autotune"]]


def test_a_script_error_about_memory_while_a_variant_is_on_is_out_of_memory(tmp_path: Path) -> None:
    end = dataclasses.replace(ended(1, "OutOfMemoryError", "reduce-overhead", 40), message="CUDA out of memory")
    outcome = on_cuda_with(tmp_path, dying("reduce-overhead", 1, [end]))
    assert outcome.variant("reduce-overhead").outcome == "out_of_memory"


def test_a_variant_that_hangs_after_its_warm_up_is_ended_and_the_others_are_measured(tmp_path: Path) -> None:
    outcome = on_cuda_with(tmp_path, hanging("reduce-overhead", while_compiling=False))
    found = outcome.variant("reduce-overhead")
    assert found.outcome == "crashed" and "no sign of life" in found.why
    assert others_completed(outcome) and outcome.spent_s < 200.0


def test_a_compile_that_does_not_end_is_timed_out_and_the_others_are_measured(tmp_path: Path) -> None:
    outcome = on_cuda_with(tmp_path, hanging("reduce-overhead", while_compiling=True))
    found = outcome.variant("reduce-overhead")
    assert found.outcome == "timed_out" and "--budget" in found.why
    assert others_completed(outcome) and outcome.spent_s < 300.0


def test_a_hang_does_not_use_up_a_short_budget(tmp_path: Path) -> None:
    outcome = on_cuda_with(tmp_path, hanging("reduce-overhead", while_compiling=False), budget_s=200.0)
    assert others_completed(outcome)


def test_a_slow_variant_ends_with_its_share_and_keeps_what_it_has(tmp_path: Path) -> None:
    noisy = timed("reduce-overhead", 1.05, pairs=2_000, noise=0.1, block_s=0.5)
    outcome = on_cuda_with(tmp_path, noisy)
    found = outcome.variant("reduce-overhead")
    assert found.outcome == "completed" and found.speedup is not None and found.speedup.pairs > 50
    assert others_completed(outcome) and outcome.spent_s < 600.0


# -------------------------------------------------------------------------------------------------------------------
# Scripts that end
# -------------------------------------------------------------------------------------------------------------------


def test_a_script_that_ends_early_is_started_again_until_enough_is_known(tmp_path: Path) -> None:
    short = {"aa": timed("aa", 1.0, pairs=12), "default": timed("default", 1.4, compile_s=2.0, noise=0.02)}
    made = script(short | {"default": stop_script(short["default"], 4, ended(0, arm="default", steps=60))})
    outcome = play(tmp_path, [made.session] * 20)
    assert outcome.result.verdict.kind == "worth_it"
    restarts = [s.spec for s in outcome.stage.sessions if [a.id for a in s.spec.arms] == ["default"]]
    assert [s.schedule.pairs_done["default"] for s in restarts][:2] == [4, 8]
    assert {s.schedule.script_steps for s in restarts} == {60}
    speedup = outcome.variant("default").speedup
    assert speedup is not None and speedup.pairs > policy.FEWEST_PAIRS
    assert outcome.result.planned_steps == 60


def test_an_arm_that_gets_nowhere_in_two_sessions_is_given_up(tmp_path: Path) -> None:
    def over_while_compiling(first: int, session: int) -> list[Item]:
        items = timed("default", 1.4)(first, session)
        return [items[0], Wait(3.0), ended(0, arm="default", steps=9), SessionExit(0.0, session, 0, None)]

    outcome = play(tmp_path, [script({"default": over_while_compiling}).session] * 20)
    assert len(outcome.plans) <= 3
    assert outcome.variant("default").outcome == "cancelled"
    assert outcome.result.verdict.reasons == ("script_too_short",) and outcome.result.exit_code == Exit.INCONCLUSIVE


def test_an_arm_that_is_warm_again_and_again_but_never_timed_is_given_up(tmp_path: Path) -> None:
    nothing = stop_script(timed("default", 1.4), 0, ended(0, arm="default", steps=9))
    outcome = play(tmp_path, [script({"default": nothing}).session] * 200)
    assert len(outcome.plans) <= 4


def over_in_three_steps(spec: SessionSpec) -> list[Item]:
    started = SessionStarted(0.0, spec.session, 1, "python")
    found = AnatomyFound(0.0, anatomy())
    return [started, Wait(4.0), found, ended(0, steps=3), SessionExit(0.0, spec.session, 0, None)]


def test_a_script_over_before_any_arm_begins_does_not_outlast_the_budget(tmp_path: Path) -> None:
    outcome = play(tmp_path, [over_in_three_steps] * 400)
    assert outcome.result.exit_code == Exit.INCONCLUSIVE and outcome.spent_s <= 600.0


def test_a_script_over_before_any_arm_begins_is_given_up_early(tmp_path: Path) -> None:
    outcome = play(tmp_path, [over_in_three_steps] * 400)
    assert len(outcome.plans) <= 5 and outcome.result.verdict.reasons == ("script_too_short",)


def prelude(spec: SessionSpec) -> list[Item]:
    """An evaluation that is taken for the loop, until the script begins to train."""
    looked = dataclasses.replace(anatomy(), kind="inference")
    started: list[Item] = [SessionStarted(0.0, spec.session, 1, "python"), AnatomyFound(0.0, looked)]
    measured = timed("aa", 1.3, pairs=5)(0, spec.session)[:-1]
    return [*started, *measured, TrainingFound(0.0), SessionExit(0.0, spec.session, 0, None)]


def test_what_was_measured_before_the_training_is_dropped_and_the_training_measured(tmp_path: Path) -> None:
    made = script({"default": timed("default", 1.4)})

    def training(spec: SessionSpec) -> list[Item]:
        return made.session(dataclasses.replace(spec, session=0))

    outcome = play(tmp_path, [prelude, training, made.session])
    first, second, third = outcome.stage.sessions
    assert (first.spec.schedule.training_ahead, second.spec.schedule.training_ahead) == (False, True)
    assert second.spec.anatomy is None and second.spec.measure_phases
    assert [a.id for a in second.spec.arms] == ["aa"] and [a.id for a in third.spec.arms] == ["default"]
    assert outcome.result.verdict.kind == "worth_it" and outcome.result.anatomy == anatomy()
    assert outcome.result.noise.aa is not None and outcome.result.noise.aa.ratio == pytest.approx(1.0, abs=0.01)


def test_a_training_that_is_announced_and_never_found_does_not_outlast_the_budget(tmp_path: Path) -> None:
    def nothing_more(spec: SessionSpec) -> list[Item]:
        return [SessionStarted(0.0, spec.session, 1, "python"), Wait(30.0), ended(0, steps=0)]

    outcome = play(tmp_path, [prelude, *[nothing_more] * 60])
    assert outcome.spent_s <= 600.0


# -------------------------------------------------------------------------------------------------------------------
# Scripts that fail
# -------------------------------------------------------------------------------------------------------------------


def fails(terminal: bool) -> int | None:
    return 1


def runs(terminal: bool) -> int | None:
    return 0


def failing_at_once(spec: SessionSpec) -> list[Item]:
    end = ended(1, "ModuleNotFoundError", steps=0)
    return [SessionStarted(0.0, spec.session, 1, "python"), Wait(1.0), end, SessionExit(0.0, spec.session, 1, None)]


def dead_at_once(spec: SessionSpec) -> list[Item]:
    return [SessionStarted(0.0, spec.session, 1, "python"), Wait(1.0), SessionExit(0.0, spec.session, -11, None)]


@pytest.mark.parametrize("recording", [failing_at_once, dead_at_once])
def test_a_script_that_fails_without_us_too_is_its_own_failure(tmp_path: Path, recording: Recording) -> None:
    outcome = play(tmp_path, [recording], plain_code=fails)
    assert (outcome.result.verdict.kind, outcome.result.exit_code) == ("failed", Exit.SCRIPT_FAILED)
    assert [terminal for _, terminal in outcome.plain_runs] == [False, True]
    assert "running it once without" in outcome.notes.said[0]


def test_its_own_traceback_is_in_the_result(tmp_path: Path) -> None:
    result = play(tmp_path, [failing_at_once], plain_code=fails).result
    assert "ModuleNotFoundError: it broke" in result.verdict.summary
    assert result.failure is not None and result.failure.traceback == "Traceback ..."


@pytest.mark.parametrize("recording", [failing_at_once, dead_at_once])
def test_a_script_that_only_fails_under_us_is_our_failure(tmp_path: Path, recording: Recording) -> None:
    outcome = play(tmp_path, [recording], plain_code=runs)
    assert outcome.result.verdict.reasons == ("speedproof_fails",)
    assert outcome.result.exit_code == Exit.INTERNAL and "report this" in outcome.result.verdict.advice[0]


def test_a_script_that_needs_a_terminal_is_started_again_in_one(tmp_path: Path) -> None:
    made = script({"default": timed("default", 1.4)})

    def in_a_terminal(spec: SessionSpec) -> list[Item]:
        return made.session(dataclasses.replace(spec, session=0))

    sessions = [failing_at_once, in_a_terminal, made.session]
    outcome = play(tmp_path, sessions, plain_code=lambda terminal: 0 if terminal else 1)
    assert outcome.stage.terminal and outcome.result.verdict.kind == "worth_it"
    assert any("needs a terminal" in line for line in outcome.notes.said)


def loopless(spec: SessionSpec) -> list[Item]:
    ending = ended(0, steps=0)
    return [SessionStarted(0.0, spec.session, 1, "python"), Wait(1.0), ending, SessionExit(0.0, spec.session, 0, None)]


def test_a_script_without_a_loop_has_no_steps(tmp_path: Path) -> None:
    outcome = play(tmp_path, [loopless])
    assert outcome.result.verdict.reasons == ("no_steps",) and outcome.result.exit_code == Exit.NO_STEPS
    assert "torch was never imported" in outcome.result.verdict.summary and outcome.plain_runs == []


def test_a_script_that_never_comes_to_its_loop_is_left_after_two_fifths_of_the_budget(tmp_path: Path) -> None:
    outcome = play(tmp_path, [lambda spec: [SessionStarted(0.0, spec.session, 1, "python"), Wait(float("inf"))]])
    assert outcome.result.exit_code == Exit.NO_STEPS and 240.0 <= outcome.spent_s < 242.0
    assert outcome.plain_runs == []


def test_a_script_that_leaves_in_good_order_by_os_exit_has_no_steps(tmp_path: Path) -> None:
    def leaving(spec: SessionSpec) -> list[Item]:
        return [SessionStarted(0.0, spec.session, 1, "python"), Wait(1.0), SessionExit(0.0, spec.session, 0, None)]

    assert play(tmp_path, [leaving], plain_code=runs).result.exit_code == Exit.NO_STEPS


def test_a_script_that_hangs_right_after_its_loop_was_found_does_not_crash_the_driver(tmp_path: Path) -> None:
    def hanging_in_the_phases(spec: SessionSpec) -> list[Item]:
        return [SessionStarted(0.0, spec.session, 1, "python"), AnatomyFound(0.0, anatomy()), Wait(float("inf"))]

    outcome = play(tmp_path, [hanging_in_the_phases] * 20)
    assert outcome.result.exit_code == Exit.INCONCLUSIVE and outcome.spent_s <= 600.0


class LateNews:
    """A session whose last lines come in when it is killed, as those of a real process do."""

    def __init__(self, stage: ScriptedExecutor, spec: SessionSpec) -> None:
        self._stage, self._spec = stage, spec
        self._news: deque[Event] = deque([SessionStarted(stage.clock(), spec.session, 1, "python")])
        self.exit: SessionExit | None = None

    def poll(self, wait_s: float) -> list[Event]:
        self._stage.advance(wait_s)
        events = list(self._news)
        self._news.clear()
        self.exit = next((e for e in events if isinstance(e, SessionExit)), None)
        return events

    def send(self, control: Control) -> None:
        pass

    def kill(self, why: str) -> None:
        now_s = self._stage.clock()
        self._news.extend([AnatomyFound(now_s, anatomy()), SessionExit(now_s, self._spec.session, -9, why)])


def test_a_loop_that_is_found_at_the_very_moment_of_the_kill_does_not_crash_the_driver(tmp_path: Path) -> None:
    clock = ScriptedExecutor([])

    class Executor:
        terminal = False

        def start(self, spec: SessionSpec) -> LateNews:
            return LateNews(clock, spec)

    store = RunStore.create(tmp_path, meta())
    world = Surroundings(Executor(), clock.clock, lambda limit_s, terminal: 0, Notes())
    Engine(meta(), store, world).run()


# -------------------------------------------------------------------------------------------------------------------
# Crashes: the compiler's or the script's own
# -------------------------------------------------------------------------------------------------------------------


def crash_at(arm: str, step: int) -> Behaviour:
    end = ended(1, "ValueError", arm=arm, steps=step, line=99)
    return stop_script(timed(arm, 1.4, noise=0.02), 4, end)


def test_a_crash_that_eager_repeats_is_not_blamed_on_the_compiler(tmp_path: Path) -> None:
    arms = {"default": crash_at("default", 200), "verify": crash_at("verify", 200)}
    outcome = run(tmp_path, arms)
    assert outcome.plans[:2] == [["aa"], ["verify"]]
    default = outcome.variant("default")
    assert default.outcome == "completed" and "the script itself" in default.why
    assert default.speedup is not None and default.speedup.pairs >= 4, "what was measured stays"
    assert any("script's own" in line for line in outcome.notes.said)


def test_a_crash_that_eager_repeats_before_anything_was_measured_leaves_no_result(tmp_path: Path) -> None:
    end = ended(1, "ValueError", arm="default", steps=200, line=99)
    arms = {"default": stop_script(timed("default", 1.4), 0, end), "verify": crash_at("verify", 200)}
    default = run(tmp_path, arms).variant("default")
    assert (default.outcome, default.speedup) == ("cancelled", None) and "the script itself" in default.why


def test_a_script_with_an_error_of_its_own_is_not_told_to_take_more_time(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"default": crash_at("default", 200), "verify": crash_at("verify", 200)})
    assert "raise --budget" not in outcome.result.verdict.advice


def test_a_crash_that_eager_does_not_repeat_stays_with_the_variant(tmp_path: Path) -> None:
    def passing(first: int, session: int) -> list[Item]:
        return [ArmStarted(0.0, "verify", session, True, 10), Wait(4.0), StepsSeen(0.0, 202, "verify"), Wait(60.0)]

    outcome = run(tmp_path, {"default": crash_at("default", 200), "verify": passing})
    assert outcome.plans == [["aa"], ["verify"]]
    assert outcome.variant("default").outcome == "crashed" and "ValueError" in outcome.variant("default").why
    assert set(outcome.stage.sessions[1].sent) == {Control("stop")}
    assert outcome.spent_s < 60.0


def test_verification_goes_on_until_eager_is_past_the_crash(tmp_path: Path) -> None:
    def long_way(first: int, session: int) -> list[Item]:
        items = timed("verify", 1.0, pairs=60)(first, session)
        return [
            *items[:-1],
            ended(1, "ValueError", arm="verify", steps=5_000, line=99),
            SessionExit(0.0, session, 1, None),
            items[-1],
        ]

    outcome = run(tmp_path, {"default": crash_at("default", 5_000), "verify": long_way})
    assert Control("next", "verify") not in outcome.stage.sessions[1].sent


# -------------------------------------------------------------------------------------------------------------------
# Ctrl-C, the budget, what is stored
# -------------------------------------------------------------------------------------------------------------------


def interrupted_in(behaviour: Behaviour, blocks: int) -> Behaviour:
    return lambda first, session: [*behaviour(first, session)[: 3 + 2 * blocks], CtrlC()]  # type: ignore[list-item]


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"default": interrupted_in(timed("default", 1.05, noise=0.05), 10)})
    result, default = outcome.result, outcome.variant("default")
    assert result.exit_code == Exit.INTERRUPTED and result.verdict.kind == "inconclusive"
    assert result.baseline.steps > 0 and result.noise.aa is not None and default.graphs == 1
    gone = outcome.stage.sessions[0].exit
    assert gone is not None and gone.killed_by_driver == "interrupted"
    assert load_result(outcome.store.path) == result


def test_ctrl_c_after_a_gain_is_proven_still_says_so(tmp_path: Path) -> None:
    arms = {"default": timed("default", 1.5), "reduce-overhead": interrupted_in(timed("reduce-overhead", 1.1), 0)}
    result = run(tmp_path, arms, device="cuda").result
    assert (result.verdict.kind, result.verdict.best, result.exit_code) == ("worth_it", "default", Exit.INTERRUPTED)


def test_ctrl_c_before_the_loop_is_not_called_a_script_without_steps(tmp_path: Path) -> None:
    def starting(spec: SessionSpec) -> list[Item]:
        return [SessionStarted(0.0, spec.session, 1, "python"), Wait(1.0), CtrlC()]  # type: ignore[list-item]

    result = play(tmp_path, [starting]).result
    assert result.exit_code == Exit.INTERRUPTED
    assert result.verdict.reasons == ("interrupted",)


@pytest.mark.parametrize("budget_s", [20.0, 60.0, 300.0])
@pytest.mark.parametrize("behaviour", ["hang", "compile", "noise"])
def test_the_budget_is_kept_whatever_the_variants_do(tmp_path: Path, budget_s: float, behaviour: str) -> None:
    arms: dict[str, Behaviour] = {
        m: {
            "hang": hanging(m, while_compiling=False),
            "compile": hanging(m, while_compiling=True),
            "noise": timed(m, 1.05, pairs=1_000, noise=0.2, block_s=0.5),
        }[behaviour]
        for m in MODES
    }
    outcome = run(tmp_path, arms, meta(budget_s=budget_s), device="cuda")
    assert outcome.spent_s <= budget_s + 1.0
    assert outcome.result.exit_code == Exit.INCONCLUSIVE


def test_every_verdict_is_stored_and_the_same_again_from_the_stored_events(tmp_path: Path) -> None:
    arms = {m: timed(m, 1.3) for m in MODES}
    cases: dict[str, Outcome] = {
        "win": run(tmp_path / "win", {"default": timed("default", 1.4)}),
        "lose": run(tmp_path / "lose", {"default": timed("default", 0.8)}),
        "raise": run(tmp_path / "raise", arms | {"default": crashing("default")}, device="cuda"),
        "killed": run(tmp_path / "killed", arms | {"max-autotune": dying("max-autotune", -9)}, device="cuda"),
        "hang": run(tmp_path / "hang", arms | {"default": hanging("default", True)}, device="cuda"),
        "own crash": run(tmp_path / "own", {"default": crash_at("default", 200), "verify": crash_at("verify", 200)}),
        "no steps": play(tmp_path / "none", [loopless]),
        "fails": play(tmp_path / "fails", [failing_at_once], plain_code=fails),
    }
    for name, outcome in cases.items():
        path = outcome.store.path
        stored = load_result(path)
        assert stored == outcome.result, name
        again = conclude(load_meta(path), load_events(path), stored.elapsed_s)
        assert dataclasses.replace(again, verdict=stored.verdict) == stored, name
        if name != "fails":  # what the plain run told is not among the events
            assert again.verdict == stored.verdict, name


def test_a_run_that_needed_a_terminal_is_the_same_again_from_the_stored_events(tmp_path: Path) -> None:
    made = script({"default": timed("default", 1.4)})
    sessions = [failing_at_once, lambda spec: made.session(dataclasses.replace(spec, session=0)), made.session]
    outcome = play(tmp_path, sessions, plain_code=lambda terminal: 0 if terminal else 1)
    path = outcome.store.path
    assert conclude(load_meta(path), load_events(path), outcome.result.elapsed_s) == outcome.result


def test_a_variant_that_was_never_reached_is_listed_live_and_from_the_stored_events(tmp_path: Path) -> None:
    arms = {m: timed(m, 0.8) for m in MODES} | {"default": hanging("default", while_compiling=False)}
    outcome = run(tmp_path, arms, meta(budget_s=60.0), device="cuda")
    path = outcome.store.path
    assert set(outcome.outcomes()) == set(MODES)
    assert conclude(load_meta(path), load_events(path), outcome.result.elapsed_s) == outcome.result


def test_the_drivers_own_decisions_are_in_its_event_file(tmp_path: Path) -> None:
    outcome = on_cuda_with(tmp_path, hanging("reduce-overhead", while_compiling=True))
    voided = [e for e in load_events(outcome.store.path) if isinstance(e, ArmVoided)]
    assert [(v.arm, v.outcome) for v in voided] == [("reduce-overhead", "timed_out")]


def test_the_scripted_executor_understands_that_an_arm_is_queued() -> None:
    executor = ScriptedExecutor([[StepsSeen(0.0, 1, None), StepsSeen(0.0, 2, None)]])
    spec = SessionSpec(0, meta().command, (), Schedule(), "", "", "", "")
    session = executor.start(spec)
    session.send(Control("try", "default", mode_arm("default")))
    assert session.poll(1.0) == [StepsSeen(0.0, 1, None)]

"""What ends a step: tapes of many kinds of loop, written by hand, and what is made of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from recordings import TRAIN

from speedproof.model import Boundary, CallMode
from speedproof.worker.anatomy import (
    ENOUGH_CALLS,
    ENOUGH_STEPS,
    TAPE_LIMIT,
    Circumstances,
    Notice,
    Rhythm,
    Tape,
    choose_boundary,
    is_site_boundary,
    rhythm_of,
    steps_of,
    what_of,
)

EVAL = CallMode(training=False, grad=False)
ROLLOUT = CallMode(training=True, grad=False)
WAITING = Circumstances(optimizer_alive=True, patience_over=False)
NO_OPTIMIZER = Circumstances(optimizer_alive=False, patience_over=False)
SCRIPT_OVER = Circumstances(optimizer_alive=False, patience_over=True, script_over=True)
LAST_STEP = "optimizer step"


class Loop:
    """Writes a tape as the watch does, one millisecond between notices."""

    def __init__(self) -> None:
        self.tape = Tape()
        self._now_ns = 0

    def note(self, what: str, key: int = 0, mode: CallMode | None = None, site: int | None = None) -> None:
        self._now_ns += 1_000_000
        self.tape.write(Notice(what, key, self._now_ns, mode, site))

    def batch(self, loader: int = 0) -> None:
        self.note("next", loader)

    def call(self, root: int = 0, mode: CallMode = TRAIN) -> None:
        self.note("call", root, mode)

    def backward(self) -> None:
        self.note("backward")

    def optimize(self, optimizer: int = 0, site: int | None = None) -> None:
        self.note("step_begin", optimizer, site=site)
        self.note("step", optimizer, site=site)

    def train(self, root: int = 0, optimizer: int = 0) -> None:
        self.batch()
        self.call(root)
        self.backward()
        self.optimize(optimizer)


def first_answer(loop: Loop, step: Iterator[None], now: Circumstances = WAITING) -> tuple[int, Boundary]:
    """How many rounds of ``step`` it takes until the boundary is known, and which it is."""
    for rounds in range(1, 100):
        next(step)
        boundary = choose_boundary(loop.tape, now)
        if boundary is not None:
            return rounds, boundary
    raise AssertionError("never known")


# -------------------------------------------------------------------------------------------------------------------
# Training with optimizers
# -------------------------------------------------------------------------------------------------------------------


def test_a_plain_loop_ends_its_steps_at_the_optimizer() -> None:
    loop = Loop()

    def rounds() -> Iterator[None]:
        while True:
            loop.train()
            yield

    assert first_answer(loop, rounds()) == (ENOUGH_STEPS, Boundary("optimizer", 0, 1, LAST_STEP))


def test_an_empty_tape_tells_nothing() -> None:
    assert choose_boundary(Tape(), NO_OPTIMIZER) is None
    assert choose_boundary(Tape(), SCRIPT_OVER) is None


def test_a_gan_ends_its_steps_at_the_last_of_its_two_optimizers() -> None:
    loop = Loop()
    for _ in range(4):
        loop.batch()
        for optimizer in (1, 0):  # the discriminator was made second and steps first
            loop.call(optimizer)
            loop.backward()
            loop.optimize(optimizer)
    assert choose_boundary(loop.tape, WAITING) == Boundary("optimizer", 0, 1, LAST_STEP)


def test_with_five_critic_steps_a_step_ends_at_the_generators_only() -> None:
    loop = Loop()
    for _ in range(4):
        for _ in range(5):
            loop.train(root=1, optimizer=1)
        loop.call(0)
        loop.backward()
        loop.optimize(0)
    boundary = choose_boundary(loop.tape, WAITING)
    assert boundary == Boundary("optimizer", 0, 1, LAST_STEP)
    rhythm = rhythm_of(loop.tape, boundary)
    assert rhythm.calls == {0: 1.0, 1: 5.0} and rhythm.backwards == 6.0


def test_an_optimizer_that_has_just_begun_to_step_is_waited_for() -> None:
    loop = Loop()
    for _ in range(6):
        loop.train(optimizer=0)
    loop.optimize(1)
    assert choose_boundary(loop.tape, WAITING) is None


def test_an_optimizer_that_steps_once_in_a_long_while_does_not_end_the_steps() -> None:
    loop = Loop()
    loop.optimize(1)
    for _ in range(24):
        loop.train(optimizer=0)
    assert choose_boundary(loop.tape, WAITING) == Boundary("optimizer", 0, 1, LAST_STEP)


def test_gradient_accumulation_is_one_step_of_forty_backwards() -> None:
    loop = Loop()
    for _ in range(4):
        for _ in range(40):
            loop.batch()
            loop.call()
            loop.backward()
        loop.optimize()
    boundary = choose_boundary(loop.tape, WAITING)
    assert boundary == Boundary("optimizer", 0, 1, LAST_STEP)
    rhythm = rhythm_of(loop.tape, boundary)
    assert (rhythm.backwards, rhythm.calls) == (40.0, {0: 40.0})


def test_an_rl_loop_of_sixteen_updates_and_a_rollout_is_one_step() -> None:
    loop = Loop()
    for _ in range(5):
        for _ in range(32):
            loop.call(0, ROLLOUT)
        for _ in range(16):
            loop.train()
    boundary = choose_boundary(loop.tape, WAITING)
    assert boundary == Boundary("optimizer", 0, 16, LAST_STEP)
    rhythm = rhythm_of(loop.tape, boundary)
    assert rhythm.backwards == 16.0 and rhythm.calls == {0: 48.0} and set(rhythm.modes[0]) == {TRAIN, ROLLOUT}
    assert rhythm.evaluation_calls == 0


def test_an_evaluation_at_regular_distances_is_no_cycle() -> None:
    loop = Loop()
    for _ in range(5):
        for _ in range(32):
            loop.call(0, EVAL)
        for _ in range(16):
            loop.train()
    assert choose_boundary(loop.tape, WAITING) == Boundary("optimizer", 0, 1, LAST_STEP)


def test_rollouts_at_irregular_distances_are_no_cycle() -> None:
    loop = Loop()
    for updates in (7, 16, 3, 11):
        loop.call(0, ROLLOUT)
        for _ in range(updates):
            loop.train()
    assert choose_boundary(loop.tape, WAITING) == Boundary("optimizer", 0, 1, LAST_STEP)


# -------------------------------------------------------------------------------------------------------------------
# Closures
# -------------------------------------------------------------------------------------------------------------------


def closure_step(loop: Loop, evaluations: int) -> None:
    loop.note("step_begin")
    for _ in range(evaluations):
        loop.call()
        loop.backward()
    loop.note("step")


def test_with_lbfgs_each_closure_evaluation_is_a_step() -> None:
    loop = Loop()
    closure_step(loop, 25)
    expected = Boundary("backward", 0, 1, "closure evaluation inside optimizer.step")
    assert choose_boundary(loop.tape, WAITING) == expected


def test_lbfgs_is_recognised_inside_its_first_step() -> None:
    loop = Loop()
    loop.note("step_begin")
    for _ in range(6):
        assert choose_boundary(loop.tape, WAITING) is None
        loop.call()
        loop.backward()
    boundary = choose_boundary(loop.tape, WAITING)
    assert boundary is not None and boundary.kind == "backward"


def test_a_closure_with_one_backward_as_lightning_has_ends_at_the_optimizer() -> None:
    loop = Loop()
    for _ in range(4):
        loop.batch()
        closure_step(loop, 1)
    boundary = choose_boundary(loop.tape, WAITING)
    assert boundary == Boundary("optimizer", 0, 1, LAST_STEP)
    assert rhythm_of(loop.tape, boundary).backwards == 1.0


# -------------------------------------------------------------------------------------------------------------------
# Without an optimizer
# -------------------------------------------------------------------------------------------------------------------


def test_hand_made_sgd_ends_its_steps_at_the_backward_pass() -> None:
    loop = Loop()
    for _ in range(5):
        loop.batch()
        loop.call()
        loop.backward()
    assert choose_boundary(loop.tape, NO_OPTIMIZER) == Boundary("backward", 0, 1, "backward pass (no optimizer steps)")


def test_hand_made_sgd_that_accumulates_ends_its_steps_at_the_loader() -> None:
    loop = Loop()
    for _ in range(5):
        loop.batch(loader=2)
        for _ in range(3):
            loop.call()
            loop.backward()
    assert choose_boundary(loop.tape, NO_OPTIMIZER) == Boundary("loader", 2, 1, "next batch of the loader")


def test_inference_with_a_loader_ends_its_steps_at_the_next_batch() -> None:
    loop = Loop()

    def rounds() -> Iterator[None]:
        while True:
            loop.batch()
            loop.call(0, EVAL)
            yield

    known = first_answer(loop, rounds(), NO_OPTIMIZER)
    assert known == (ENOUGH_CALLS, Boundary("loader", 0, 1, "next batch of the loader"))


def test_inference_without_a_loader_ends_its_steps_at_the_call_of_the_model() -> None:
    loop = Loop()
    for _ in range(5):
        loop.call(3, EVAL)
    assert choose_boundary(loop.tape, NO_OPTIMIZER) == Boundary("call", 3, 1, "call of the model")


def test_of_an_encoder_and_a_decoder_the_first_begins_the_iteration() -> None:
    loop = Loop()
    for _ in range(6):
        loop.call(0, EVAL)
        loop.call(1, EVAL)
    boundary = choose_boundary(loop.tape, NO_OPTIMIZER)
    assert boundary is not None and boundary.index == 0
    assert rhythm_of(loop.tape, boundary).calls == {0: 1.0, 1: 1.0}


def test_a_tokenizer_that_was_called_now_and_then_does_not_end_the_steps_of_a_decoder() -> None:
    loop = Loop()
    for _ in range(5):
        loop.call(0, EVAL)
        for _ in range(20):
            loop.call(1, EVAL)
    boundary = choose_boundary(loop.tape, NO_OPTIMIZER)
    assert boundary is not None and boundary.index == 1


# -------------------------------------------------------------------------------------------------------------------
# Evaluation before training
# -------------------------------------------------------------------------------------------------------------------


def evaluate(loop: Loop, calls: int) -> None:
    for _ in range(calls):
        loop.batch(loader=1)
        loop.call(0, EVAL)


def test_an_evaluation_of_400_calls_is_not_taken_for_the_loop_while_an_optimizer_is_alive() -> None:
    loop = Loop()
    evaluate(loop, 400)
    assert choose_boundary(loop.tape, WAITING) is None
    for _ in range(3):
        loop.train()
    boundary = choose_boundary(loop.tape, WAITING)
    assert boundary == Boundary("optimizer", 0, 1, LAST_STEP)
    rhythm = rhythm_of(loop.tape, boundary)
    assert rhythm.evaluation_calls == 400 and rhythm.calls == {0: 1.0} and rhythm.modes == {0: (TRAIN,)}


def test_patience_ends_the_wait_for_an_optimizer() -> None:
    loop = Loop()
    evaluate(loop, 400)
    over = choose_boundary(loop.tape, Circumstances(optimizer_alive=True, patience_over=True))
    assert over == Boundary("loader", 1, 1, "next batch of the loader")


def test_where_training_is_known_to_come_no_evaluation_is_taken_for_the_loop() -> None:
    loop = Loop()
    evaluate(loop, 400)
    ahead = Circumstances(optimizer_alive=False, patience_over=True, training_ahead=True)
    assert choose_boundary(loop.tape, ahead) is None
    for _ in range(4):
        loop.call()
        loop.backward()
    boundary = choose_boundary(loop.tape, ahead)
    assert boundary is not None and boundary.kind in ("backward", "loader")


def test_an_evaluation_in_the_middle_of_training_is_no_part_of_a_regular_step() -> None:
    loop = Loop()
    for step in range(9):
        loop.train()
        if step == 4:
            evaluate(loop, 30)
    rhythm = rhythm_of(loop.tape, Boundary("optimizer", 0))
    assert (rhythm.evaluation_calls, rhythm.calls, rhythm.modes) == (30, {0: 1.0}, {0: (TRAIN,)})


# -------------------------------------------------------------------------------------------------------------------
# Functions that the script compiles
# -------------------------------------------------------------------------------------------------------------------


def test_a_compiled_train_step_is_a_step_itself() -> None:
    loop = Loop()

    def rounds() -> Iterator[None]:
        while True:
            loop.batch()
            loop.note("site", 7)
            loop.note("call", 0, TRAIN, site=7)
            loop.note("backward", site=7)
            loop.optimize(site=7)
            yield

    calls, boundary = first_answer(loop, rounds())
    assert calls == ENOUGH_STEPS + 1 and (boundary.kind, boundary.index) == ("call", 7)
    assert is_site_boundary(boundary) and what_of(boundary) == "site"
    assert len(steps_of(loop.tape, boundary)) == calls - 1


def test_a_compiled_function_around_some_steps_only_is_not_the_step() -> None:
    loop = Loop()
    for site in (7, None, 7, None):
        loop.optimize(site=site)
    assert choose_boundary(loop.tape, WAITING) == Boundary("optimizer", 0, 1, LAST_STEP)


def test_a_compiled_function_without_an_optimizer_in_it_is_called_once_a_step_of_inference() -> None:
    loop = Loop()
    for _ in range(5):
        loop.note("site", 2)
    boundary = choose_boundary(loop.tape, NO_OPTIMIZER)
    assert boundary is not None and is_site_boundary(boundary) and boundary.index == 2


# -------------------------------------------------------------------------------------------------------------------
# Scripts that are over before they have told enough
# -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2])
def test_a_script_that_is_over_after_two_steps_has_told_what_a_step_is(steps: int) -> None:
    loop = Loop()
    for _ in range(steps):
        loop.train()
    assert choose_boundary(loop.tape, WAITING) is None
    boundary = choose_boundary(loop.tape, SCRIPT_OVER)
    assert boundary == (Boundary("optimizer", 0, 1, LAST_STEP) if steps == 2 else None)


def test_a_script_that_is_over_after_two_calls_has_told_that_it_infers() -> None:
    loop = Loop()
    loop.call(0, EVAL)
    assert choose_boundary(loop.tape, SCRIPT_OVER) is None
    loop.call(0, EVAL)
    assert choose_boundary(loop.tape, SCRIPT_OVER) == Boundary("call", 0, 1, "call of the model")


# -------------------------------------------------------------------------------------------------------------------
# The tape, steps and rhythm
# -------------------------------------------------------------------------------------------------------------------


def test_a_step_goes_from_one_boundary_to_the_next_and_the_first_part_is_dropped() -> None:
    loop = Loop()
    for _ in range(3):
        loop.train()
    steps = steps_of(loop.tape, Boundary("optimizer", 0))
    assert [[n.what for n in step] for step in steps] == [["next", "call", "backward", "step_begin", "step"]] * 2


def test_steps_of_several_boundary_events_are_counted_from_the_first() -> None:
    loop = Loop()
    for _ in range(9):
        loop.train()
    assert [len([n for n in s if n.what == "step"]) for s in steps_of(loop.tape, Boundary("optimizer", 0, 4))] == [4, 4]


def test_the_time_of_a_step_reaches_from_boundary_to_boundary() -> None:
    loop = Loop()
    for _ in range(5):
        loop.train()  # five notices, a millisecond each
    assert rhythm_of(loop.tape, Boundary("optimizer", 0)).step_s == pytest.approx(0.005)


def test_a_tape_without_a_whole_step_has_no_rhythm() -> None:
    loop = Loop()
    loop.train()
    assert rhythm_of(loop.tape, Boundary("optimizer", 0)) == Rhythm({}, {}, 1, 0.0, 0.0)


def test_a_long_tape_forgets_its_beginning_and_keeps_its_counts() -> None:
    loop = Loop()
    for _ in range(TAPE_LIMIT + 10):
        loop.call(0, EVAL)
    assert len(loop.tape.notices) <= TAPE_LIMIT and loop.tape.of("call") == {0: TAPE_LIMIT + 10}


def test_keys_are_ordered_by_when_they_were_last_seen() -> None:
    loop = Loop()
    for key in (2, 0, 1, 0):
        loop.batch(key)
    assert loop.tape.order_of("next") == [2, 1, 0]

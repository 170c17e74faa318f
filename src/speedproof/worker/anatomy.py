"""From what was noticed in the first eager steps to the anatomy of the loop: what ends a step, which modules count.

Pure: a ``Tape`` in, a decision out; no torch. The tape is what ``watch`` writes.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from ..model import Boundary, CallMode

ENOUGH_STEPS = 3
ENOUGH_CALLS = 5  # before a loop without backward is taken for inference
LONG_CLOSURE = 6  # backwards inside one optimizer.step that make each of them a step of its own (LBFGS)
RARE = 24  # an optimizer that stepped less than three times while another did so often is not what ends a step
LONGEST_CYCLE = 64
TAPE_LIMIT = 60_000
SITE_LABEL = "call of the function that the script compiles"


@dataclass(frozen=True)
class Notice:
    """One thing the loop did. ``what``: call, site, next, backward, step_begin, step. ``key``: which one."""

    what: str
    key: int
    at_ns: int
    mode: CallMode | None = None
    site: int | None = None  # the compiled function of the script's that it happened in


@dataclass
class Tape:
    """What the loop did so far, and how often."""

    notices: list[Notice] = field(default_factory=list)
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    in_step: bool = False
    backwards_in_step: int = 0

    def write(self, notice: Notice) -> None:
        self.notices.append(notice)
        self.counts[(notice.what, notice.key)] += 1
        if notice.what == "step_begin":
            self.in_step, self.backwards_in_step = True, 0
        elif notice.what == "step":
            self.in_step = False
        elif notice.what == "backward" and self.in_step:
            self.backwards_in_step += 1
        if len(self.notices) > TAPE_LIMIT:  # a long evaluation before training: its end is enough
            del self.notices[: TAPE_LIMIT // 2]

    def of(self, what: str) -> dict[int, int]:
        return {key: n for (kind, key), n in self.counts.items() if kind == what}

    def order_of(self, what: str) -> list[int]:
        """Keys in the order in which they last occurred, latest last."""
        last = {n.key: i for i, n in enumerate(self.notices) if n.what == what}
        return sorted(last, key=lambda key: last[key])


@dataclass(frozen=True)
class Circumstances:
    """What the decision needs beyond the tape: is an optimizer alive, is the patience at an end, is it all over."""

    optimizer_alive: bool
    patience_over: bool
    script_over: bool = False
    training_ahead: bool = False


def choose_boundary(tape: Tape, now: Circumstances) -> Boundary | None:
    """What ends a step of this loop; ``None`` while the tape does not tell yet (design, section 4)."""
    enough = 2 if now.script_over else ENOUGH_STEPS
    around = _site_around_the_steps(tape)
    if around is not None:
        enough_calls = tape.of("site")[around] > enough
        return Boundary("call", around, 1, SITE_LABEL) if enough_calls else None
    if tape.of("step"):
        return _by_optimizer(tape, enough)
    if tape.in_step and tape.backwards_in_step >= LONG_CLOSURE:
        return Boundary("backward", 0, 1, "closure evaluation inside optimizer.step")
    if now.training_ahead:
        return _by_backward(tape, enough) if tape.of("backward") else None
    may_wait = now.optimizer_alive and not now.patience_over and not now.script_over
    if may_wait:
        return None
    if tape.of("backward"):
        return _by_backward(tape, enough)
    return _by_calls(tape, 2 if now.script_over else ENOUGH_CALLS)


def _site_around_the_steps(tape: Tape) -> int | None:
    """The compiled function of the script's that contains its optimizer steps, if there is one."""
    sites = {n.site for n in tape.notices if n.what == "step"}
    return sites.pop() if len(sites) == 1 else None


def _by_optimizer(tape: Tape, enough: int) -> Boundary | None:
    steps = tape.of("step")
    if tape.backwards_in_step >= LONG_CLOSURE:
        return Boundary("backward", 0, 1, "closure evaluation inside optimizer.step")
    if max(steps.values()) >= RARE:
        steps = {key: n for key, n in steps.items() if n >= enough}
    rarest = min(steps.values())
    if rarest < enough:
        return None
    # one full cycle of several optimizers ends with the last of the least frequent ones
    last = [key for key in tape.order_of("step") if key in steps and steps[key] <= rarest][-1]
    return Boundary("optimizer", last, _cycle(tape, "step", last), "optimizer step")


def _by_backward(tape: Tape, enough: int) -> Boundary | None:
    backwards = sum(tape.of("backward").values())
    if backwards < enough + 1:
        return None
    loaders = tape.of("next")
    busiest = max(loaders, key=lambda key: loaders[key], default=None)
    if busiest is not None and enough <= loaders[busiest] < 0.75 * backwards:
        return Boundary("loader", busiest, 1, "next batch of the loader")
    return Boundary("backward", 0, 1, "backward pass (no optimizer steps)")


def _by_calls(tape: Tape, enough: int) -> Boundary | None:
    loaders = tape.of("next")
    calls = Counter({("call", k): n for k, n in tape.of("call").items()})
    calls.update({("site", k): n for k, n in tape.of("site").items()})
    if not calls:
        return None
    fed = [key for key, n in loaders.items() if n >= enough]
    if fed:
        return Boundary("loader", fed[-1], 1, "next batch of the loader")
    often = [key for key, n in calls.items() if n >= enough]
    if not often:
        return None
    most = max(calls[key] for key in often)
    # encoder and decoder called once each an iteration: the first of them begins the iteration
    kind, key = next(k for k in often if calls[k] >= 0.5 * most)
    return Boundary("call", key, 1, "call of the model" if kind == "call" else SITE_LABEL)


def is_site_boundary(boundary: Boundary) -> bool:
    """Whether steps end at a call that the script itself compiles."""
    return boundary.kind == "call" and boundary.label == SITE_LABEL


def what_of(boundary: Boundary) -> str:
    """The notice that this boundary counts."""
    if boundary.kind == "call":
        return "site" if is_site_boundary(boundary) else "call"
    return {"optimizer": "step", "backward": "backward", "loader": "next"}[boundary.kind]


def steps_of(tape: Tape, boundary: Boundary) -> list[list[Notice]]:
    """The notices of each whole step: from one boundary to the next. What came before the first is dropped."""
    what, seen = what_of(boundary), 0
    steps: list[list[Notice]] = []
    current: list[Notice] | None = None
    for notice in tape.notices:
        if current is not None:
            current.append(notice)
        if notice.what == what and (notice.key == boundary.index or boundary.kind == "backward"):
            seen += 1
            if seen % boundary.every == 0 or current is None:
                if current is not None:
                    steps.append(current)
                current, seen = [], 0
    return steps


def _cycle(tape: Tape, what: str, key: int) -> int:
    """After how many boundary events the loop repeats: 16 updates, then a rollout, is a cycle of 16 (RL)."""
    single = Boundary("optimizer", key, 1)
    foreign = [_rollout_calls(step) for step in steps_of(tape, single)]
    busy = [i for i, n in enumerate(foreign) if n > 0]
    gaps = {b - a for a, b in itertools.pairwise(busy)}
    if len(busy) >= 3 and len(gaps) == 1 and 2 <= (gap := gaps.pop()) <= LONGEST_CYCLE:
        return gap
    return 1


def _rollout_calls(step: list[Notice]) -> int:
    """Calls without gradients in training mode; those in eval mode are an evaluation, however regular."""
    return sum(n.what == "call" and n.mode is not None and n.mode.training and not n.mode.grad for n in step)


@dataclass(frozen=True)
class Rhythm:
    """How a regular step calls each root: how often, and in which modes."""

    calls: dict[int, float]
    modes: dict[int, tuple[CallMode, ...]]
    evaluation_calls: int
    backwards: float
    step_s: float


def rhythm_of(tape: Tape, boundary: Boundary) -> Rhythm:
    """The regular step: the modes that at least half of the steps call a root in, and the typical count."""
    steps = steps_of(tape, boundary)
    per_mode: dict[tuple[int, CallMode], list[int]] = defaultdict(list)
    for step in steps:
        counts = Counter((n.key, n.mode) for n in step if n.what == "call" and n.mode is not None)
        for (key, mode), n in counts.items():
            per_mode[(key, mode)].append(n)
    regular = {k: v for k, v in per_mode.items() if len(v) * 2 >= len(steps)}
    calls: dict[int, float] = defaultdict(float)
    modes: dict[int, tuple[CallMode, ...]] = defaultdict(tuple)
    for (key, mode), counts_seen in regular.items():
        calls[key] += float(statistics.median(counts_seen))
        modes[key] += (mode,)
    every_call = [(n.key, n.mode) for n in tape.notices if n.what == "call"]
    evaluation = sum(mode is not None and mode not in modes.get(key, ()) for key, mode in every_call)
    edges = [n.at_ns for n in tape.notices if n.what == what_of(boundary) and n.key == boundary.index]
    edges = edges[:: boundary.every]
    spans = [(b - a) / 1e9 for a, b in itertools.pairwise(edges)]
    backwards = [sum(n.what == "backward" for n in step) for step in steps]
    return Rhythm(
        calls=dict(calls),
        modes=dict(modes),
        evaluation_calls=evaluation,
        backwards=float(statistics.median(backwards)) if backwards else 0.0,
        step_s=float(statistics.median(spans)) if spans else 0.0,
    )

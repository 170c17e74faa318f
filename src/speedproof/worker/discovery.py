"""From the first notices to a running session: decide what a step is, then hand over.

A later session of the same run is told the anatomy and only has to find the same modules again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..model import Anatomy, AnatomyFound, Boundary, Root, RootRole
from .anatomy import (
    Circumstances,
    Notice,
    Rhythm,
    choose_boundary,
    is_site_boundary,
    rhythm_of,
    steps_of,
    what_of,
)
from .session import Session
from .sites import Sites
from .watch import SeenRoot, Watch

LOOK_S = 1.0  # a quick loop is watched this long, so that cycles of many steps (RL) show
LOOK_STEPS = 80


class Discovery:
    """Listens to the watch until the anatomy is known, then starts the session."""

    def __init__(
        self,
        session: Session,
        watch: Watch,
        sites: Sites,
        known: Anatomy | None,
        patience_s: float,
        claim: Callable[[], bool],
        training_ahead: bool = False,
    ) -> None:
        self._training_ahead = training_ahead
        self._claim = claim
        self._session, self._watch, self._sites = session, watch, sites
        self._known, self._patience_s = known, patience_s
        self._first_ns: int | None = None
        self._next_look = 0

    def noticed(self, notice: Notice) -> None:
        self._first_ns = self._first_ns or notice.at_ns
        if notice.what == "step_begin":
            return
        if self._known is not None:
            self._find_again(self._known, notice)
        elif notice.what != "call" or notice.at_ns >= self._next_look:
            self._next_look = notice.at_ns + 2_000_000  # thousands of calls a second need no look each
            self._look(notice)

    def begin_known(self) -> None:
        """Start without looking for the known modules: what compiles them itself needs no front."""
        if self._known is not None and self._claim():
            self._session.begin(self._known)

    def at_the_end(self) -> Anatomy | None:
        """The script is over: what its few steps tell, for the next session."""
        if self._watch.tape is None or self._known is not None:
            return None
        boundary = choose_boundary(self._watch.tape, Circumstances(False, True, script_over=True))
        return self._anatomy(boundary) if boundary is not None else None

    def _look(self, notice: Notice) -> None:
        tape = self._watch.tape
        assert tape is not None and self._first_ns is not None
        waited_s = (notice.at_ns - self._first_ns) / 1e9
        now = Circumstances(False, waited_s > self._patience_s, training_ahead=self._training_ahead)
        boundary = choose_boundary(tape, now)
        if boundary is None or not self._seen_enough(boundary, notice.at_ns):
            return
        waits = choose_boundary(tape, Circumstances(True, now.patience_over)) is None
        if waits and not tape.of("step") and self._watch.optimizer_alive():
            self._next_look = notice.at_ns + 500_000_000  # training is to come
            return
        if _ends_a_step(notice, boundary):  # hand over at a boundary only
            self._begin(self._anatomy(boundary))

    def _begin(self, anatomy: Anatomy) -> None:
        if self._claim():
            # a call that ends a step meets its new front on its way, and is counted there
            again = anatomy.boundary.kind == "call" and not is_site_boundary(anatomy.boundary)
            self._session.begin(anatomy, self.steps_on_tape(anatomy) - again)

    def _seen_enough(self, boundary: Boundary, now_ns: int) -> bool:
        tape, what = self._watch.tape, what_of(boundary)
        assert tape is not None
        of_kind = [n for n in tape.notices if n.what == what and (n.key == boundary.index or what == "backward")]
        return len(of_kind) >= LOOK_STEPS or (bool(of_kind) and now_ns - of_kind[0].at_ns >= LOOK_S * 1e9)

    def _find_again(self, known: Anatomy, notice: Notice) -> None:
        """Start as soon as the known targets have been called, at a boundary."""
        if not _ends_a_step(notice, known.boundary):
            return
        found = {r.index: r.name for r in self._watch.roots}
        for root in known.roots:
            if (root.target or root.index == known.boundary.index) and root.index not in found:
                return
            if root.index in found and found[root.index] != root.name:
                self._known = None  # another order than last time: look for yourself
                return
        self._begin(known)

    # --- putting the anatomy together ------------------------------------------------------------------

    def _anatomy(self, boundary: Boundary) -> Anatomy:
        tape = self._watch.tape
        assert tape is not None
        rhythm = rhythm_of(tape, boundary)
        roots = self._roots(rhythm, what_of(boundary))
        targets = [r for r in roots if r.target]
        trains = bool(tape.of("backward") or tape.of("step"))
        return Anatomy(
            kind="training" if trains else "inference",
            boundary=boundary,
            roots=roots,
            optimizers=tuple(f for f in (o.fact() for o in self._watch.optimizers) if f is not None),
            loaders=tuple(fact for _, fact in self._watch.loaders),
            sites=tuple(site.fact() for site in self._sites.found),
            backwards_per_step=rhythm.backwards,
            evaluation_calls=rhythm.evaluation_calls,
            device=targets[0].device if targets else (roots[0].device if roots else "cpu"),
            steps_seen=len(steps_of(tape, boundary)),
            step_s=rhythm.step_s,
        )

    def _roots(self, rhythm: Rhythm, what: str) -> tuple[Root, ...]:
        roles = {root.index: role_of(root, rhythm) for root in self._watch.roots}
        networks = [i for i, role in roles.items() if role == "network"]
        # a loop whose only modules have no parameters still has something to compile
        fallback = [r.index for r in self._watch.roots if r.index in rhythm.calls and not r.in_loader]
        targets = set(networks or (fallback if not self._sites.found else []))
        return tuple(
            Root(
                index=seen.index,
                name=seen.name,
                role=roles[seen.index],
                parameters=seen.parameters,
                calls_per_step=rhythm.calls.get(seen.index, 0.0),
                modes=rhythm.modes.get(seen.index, ()),
                device=seen.device,
                where=seen.where,
                target=seen.index in targets,
                shapes_seen=len(seen.shapes),
            )
            for seen in self._watch.roots
        )

    def steps_on_tape(self, anatomy: Anatomy) -> int:
        """Steps that the whole script had, where it ended before they counted."""
        tape = self._watch.tape
        if tape is None:
            return 0
        what, key = what_of(anatomy.boundary), anatomy.boundary.index
        if anatomy.boundary.kind == "backward":
            return sum(tape.of("backward").values()) // anatomy.boundary.every
        return tape.of(what).get(key, 0) // anatomy.boundary.every

    def say_partial(self, anatomy: Anatomy) -> None:
        self._session.channel.say(AnatomyFound(time.time(), anatomy))


def _ends_a_step(notice: Notice, boundary: Boundary) -> bool:
    return notice.what == what_of(boundary) and (notice.key == boundary.index or boundary.kind == "backward")


def role_of(root: SeenRoot, rhythm: Rhythm) -> RootRole:
    """Network, loss, transform or evaluation copy (design, fact 3)."""
    if root.in_loader:
        return "transform"
    if root.parameters == 0:
        return "loss" if root.fed_gradients else "transform"
    return "network" if root.index in rhythm.calls else "evaluation"

"""The sentence: start a session, listen, steer, until nothing is left to try; then conclude and store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from .analyse.conclude import of_ledger
from .analyse.ledger import Ledger
from .analyse.places import user_files
from .analyse.result import ceiling_of, phase_shares
from .analyse.source import Sources
from .analyse.statistics import FEWEST_PAIRS
from .analyse.verdict import failed
from .execute.base import Executor, Session
from .model import (
    Anatomy,
    Arm,
    ArmVoided,
    Control,
    Event,
    Outcome,
    Result,
    RunMeta,
    Schedule,
    ScriptEnded,
    SessionExit,
    SessionSpec,
    Verdict,
)
from .plan import limits as policy
from .plan.arms import AA, VERIFY, applicable, none_can_gain
from .plan.limits import Limits
from .plan.sessions import SessionPlan, next_session, unproven_crash
from .plan.steer import Kill, Share, enough, share_of, steer, steer_observation
from .store import RunStore

POLL_S = 0.1
FIRST_THOUGHT_S = 3.0  # how long a worker with an empty queue waits for us

PlainRun = Callable[[float, bool], "int | None"]


class View(Protocol):
    """Who watches a run: a board, plain lines, or nobody."""

    def event(self, event: Event, ledger: Ledger, now_s: float) -> None:
        """Something happened."""

    def pulse(self, ledger: Ledger, now_s: float) -> None:
        """Time has passed."""

    def say(self, text: str) -> None:
        """A line worth keeping."""


@dataclass(frozen=True)
class Surroundings:
    """What the engine needs of the world.

    ``plain_run(timeout_s, terminal)`` runs the script without us; its exit code, ``None`` if it still ran.
    """

    executor: Executor
    clock: Callable[[], float]
    plain_run: PlainRun
    view: View
    worker_environment: dict[str, str] = field(default_factory=dict)
    explicit_arms: bool = False
    block_s: float = 0.02
    max_pairs: int = 5000


class Engine:
    """One run of the main job."""

    def __init__(self, meta: RunMeta, store: RunStore, world: Surroundings) -> None:
        self.meta, self.store, self.world = meta, store, world
        self.ledger = Ledger()
        self.limits = Limits(meta.budget_s, meta.threshold)
        self.limits = replace(self.limits, observe_ahead=True)
        self._arms: tuple[Arm, ...] | None = None
        self._waiting: list[str] = []
        self._share: Share | None = None
        self._idle: dict[str, int] = {}
        self._started = self._attempts = 0
        self._began_anew = False
        self._session_began_s = 0.0
        self._loaded_s: float | None = None
        self._asked_to_stop = False
        self._begun = world.clock()

    def run(self) -> Result:
        """Measure until decided or out of budget. Ctrl-C keeps what was measured."""
        interrupted = False
        verdict = None
        try:
            verdict = self._sessions()
        except KeyboardInterrupt:
            interrupted = True
        self._close_what_is_open(interrupted)
        sources = Sources(self.store.keep_sources(user_files(self.ledger)))
        result = of_ledger(self.meta, self.ledger, self._now(), interrupted, verdict, sources)
        self.store.write_result(result)
        return result

    def _now(self) -> float:
        return self.world.clock() - self._begun

    def _sessions(self) -> Verdict | None:
        while True:
            plan = next_session(self.ledger, self._arms, self.limits, self._now(), self._idle, self._attempts)
            if plan is None:
                return None
            self._session(plan)
            if self.ledger.training_ahead and not self._began_anew:
                self._began_anew, self._arms, self._idle, self._attempts = True, None, {}, 0
                continue
            if self.ledger.anatomy is None:
                verdict = self._why_no_anatomy()
                if verdict is not None or self._attempts:
                    return verdict

    # --- one session -------------------------------------------------------------------------------------------------

    def _session(self, plan: SessionPlan) -> None:
        number, self._started = self._started, self._started + 1
        self._attempts += 1
        self._session_began_s = self._now()
        names = {AA.id, VERIFY.id, *(a.id for a in self.meta.arms)}
        before = {n: self._progress(n) for n in names}
        starts = {n: self.ledger.starts(n) for n in names}
        self._waiting = [a.id for a in plan.arms]
        self._share = None
        self._asked_to_stop, self._loaded_s = False, None
        if plan.purpose == "observe":
            self.limits = replace(self.limits, observe_ahead=False)
        session = self.world.executor.start(self._spec(plan, number))
        try:
            self._listen(session, plan)
        except BaseException:
            session.kill("interrupted")
            self._take(session.poll(0.2))
            raise
        self._account(plan, before, starts)

    def _spec(self, plan: SessionPlan, number: int) -> SessionSpec:
        folder = self.store.session_dir(number)
        confirming = plan.why.startswith("confirm")
        return SessionSpec(
            session=number,
            command=self.meta.command,
            arms=plan.arms,
            schedule=Schedule(
                seed=self.meta.seed + number,
                block_s=self.world.block_s,
                max_pairs=self._most_pairs(plan, confirming),
                pairs_done={a.id: self._next_pair(a.id) for a in plan.arms},
                script_steps=self.ledger.script_steps,
                patience_s=max(20.0, 0.25 * self.meta.budget_s),
                linger_s=FIRST_THOUGHT_S if plan.add_later else 0.0,
                training_ahead=self.ledger.training_ahead,
            ),
            events_path=str(folder / "events.jsonl"),
            control_path=str(folder / "control.jsonl"),
            scratch_dir=str(folder / "scratch"),
            cache_dir=str(self.store.path / "cache"),
            anatomy=self.ledger.anatomy,
            measure_phases=self.ledger.phases is None,
            purpose=plan.purpose,
            environment={
                **self.world.worker_environment,
                "TORCHINDUCTOR_CACHE_DIR": str(self.store.path / "cache" / "shared"),
                "TRITON_CACHE_DIR": str(self.store.path / "cache" / "shared" / "triton"),
            },
        )

    def _most_pairs(self, plan: SessionPlan, confirming: bool) -> int:
        if confirming:
            return self._next_pair(plan.arms[0].id) + policy.CONFIRM_PAIRS
        return self.world.max_pairs

    def _next_pair(self, arm: str) -> int:
        blocks = self.ledger.arm(arm).blocks
        return max(blocks) + 1 if blocks else 0

    def _listen(self, session: Session, plan: SessionPlan) -> None:
        heard_s = self._now()
        while session.exit is None:
            events = session.poll(POLL_S)
            if events:
                heard_s = self._now()
            self._take(events)
            ready = self.ledger.phases is not None or session.exit is not None
            if self._arms is None and self.ledger.anatomy is not None and ready:
                self._choose_arms(self.ledger.anatomy, session, plan)
            if session.exit is None and plan.purpose == "observe":
                self._steer_observation(session)
            elif session.exit is None:
                self._steer(session, self._now() - heard_s)
            self.world.view.pulse(self.ledger, self._now())

    def _take(self, events: list[Event]) -> None:
        for event in events:
            self.ledger.add(event)
            self.world.view.event(event, self.ledger, self._now())

    def _choose_arms(self, anatomy: Anatomy, session: Session | None, plan: SessionPlan) -> None:
        self._arms, skipped = applicable(self.meta.arms, anatomy, self.world.explicit_arms, self.world.clock())
        if not self.world.explicit_arms:
            ceiling = ceiling_of(phase_shares(self.ledger.phases))
            hopeless = none_can_gain(self._arms, ceiling, 1 + self.meta.threshold, self.world.clock())
            given_up = {voided.arm for voided in hopeless}
            self._arms = tuple(arm for arm in self._arms if arm.id not in given_up)
            skipped += hopeless
        for voided in skipped:
            self._void(voided)
        if plan.add_later and session is not None:
            for arm in self._arms:
                self._waiting.append(arm.id)
                session.send(Control("try", arm.id, arm))

    def _steer(self, session: Session, silent_s: float) -> None:
        current = self.ledger.current
        if current is not None and (self._share is None or self._share.arm != current):
            behind = self._waiting.index(current) if current in self._waiting else 0
            spent_s, waiting = self.ledger.arm(current).spent_s, len(self._waiting) - behind - 1
            self._share = share_of(current, waiting, spent_s, self._now(), self.limits)
        if current == VERIFY.id and not self._verifying():
            session.send(Control("stop"))
            return
        now_s, share = self._now(), self._share if current else None
        word = steer(self.ledger, share, self.limits, now_s, now_s - self._session_began_s, silent_s)
        if isinstance(word, Kill):
            self._kill(session, word)
        elif word is not None:
            session.send(word)

    def _steer_observation(self, session: Session) -> None:
        now_s = self._now()
        if self._loaded_s is None and self.ledger.observing and self.ledger.session_has_torch:
            self._loaded_s = now_s
        loaded_s = None if self._loaded_s is None else now_s - self._loaded_s
        word = steer_observation(self.limits, now_s, loaded_s, self._asked_to_stop)
        if isinstance(word, Kill):
            session.kill(word.why)
        elif word is not None:
            self._asked_to_stop = True
            session.send(word)

    def _verifying(self) -> bool:
        crashes = [e for e in self.ledger.endings if e.code and e.arm not in (None, "aa", VERIFY.id)]
        return self.ledger.session_steps <= max((e.steps for e in crashes), default=0) + 1

    def _kill(self, session: Session, word: Kill) -> None:
        arm = word.arm
        session.kill(word.why)
        self._take(session.poll(0.5))
        if arm is None or not self.ledger.arm(arm).open:
            return
        if word.outcome != "crashed" and len(self.ledger.arm(arm).pairs()) >= policy.FEWEST_PAIRS:
            self._void(ArmVoided(self.world.clock(), arm, "completed", word.why))
        elif arm not in ("aa", VERIFY.id):
            outcome: Outcome = "crashed" if word.outcome == "crashed" else "timed_out"
            self._void(ArmVoided(self.world.clock(), arm, outcome, word.why))

    def _void(self, voided: ArmVoided) -> None:
        self.store.append(voided)
        self._take([voided])

    # --- after a session ---------------------------------------------------------------------------------------------

    def _progress(self, arm: str) -> int:
        """Grows when a session was of use to the arm: by its first warm-up, and by each pair."""
        record = self.ledger.arms.get(arm)
        return 0 if record is None else len(record.pairs()) + bool(record.ready)

    def _account(self, plan: SessionPlan, before: dict[str, int], starts: dict[str, int]) -> None:
        """Attribute how the session ended; count the arms that got nowhere."""
        ended, gone = self._last_ending(), self.ledger.exits[-1] if self.ledger.exits else None
        crashed_arm = self._blame(ended, gone)
        if plan.why.startswith("confirm"):
            self._idle["confirm"] = 1
        if plan.arms and plan.arms[0].id == VERIFY.id:
            self._idle[VERIFY.id] = 1
            self._clear_the_compiler(ended)
        if self._arms is None and self.ledger.anatomy is not None:
            self._choose_arms(self.ledger.anatomy, None, plan)
        tried = {arm for arm in before if self.ledger.starts(arm) > starts[arm]}
        for arm in tried or {a.id for a in plan.arms[:1]}:
            record = self.ledger.arm(arm)
            if arm != crashed_arm and self._progress(arm) == before[arm]:
                self._idle[arm] = self._idle.get(arm, 0) + 1
            if record.open and enough(record.ratio(), arm, self.limits):
                self._void(ArmVoided(self.world.clock(), arm, "completed", ""))
        self._complete_short_arms()

    def _last_ending(self) -> ScriptEnded | None:
        ending = self.ledger.endings[-1] if self.ledger.endings else None
        exits = self.ledger.exits
        fresh = ending is not None and (len(exits) < 2 or ending.at_s >= exits[-2].at_s)
        return ending if fresh else None

    def _blame(self, ended: ScriptEnded | None, gone: SessionExit | None) -> str | None:
        """A session that died while an arm was on: the arm's outcome, until eager is seen to die there too."""
        arm: str | None = None
        outcome: Outcome = "crashed"
        why = ""
        if ended is not None and ended.code:
            arm, why = ended.arm, f"{ended.error}: {ended.message}"
            if "out of memory" in ended.message.lower() or ended.error in ("MemoryError", "OutOfMemoryError"):
                outcome = "out_of_memory"
        elif ended is None and gone is not None and gone.killed_by_driver is None and gone.code not in (0, None):
            arm = self.ledger.arm_at_exit
            signal = -gone.code if gone.code < 0 else 0
            why = f"the process died with signal {signal}" if signal else f"the process left with status {gone.code}"
            if signal == 9:
                outcome, why = (
                    "out_of_memory",
                    why + " (the kernel ends processes like this when memory runs out)",
                )
        if arm in (None, "aa", VERIFY.id):
            return None
        assert arm is not None
        if self.ledger.arm(arm).open:
            self._void(ArmVoided(self.world.clock(), arm, outcome, why))
        return arm

    def _close_what_is_open(self, interrupted: bool) -> None:
        """Every arm that applies has an outcome in the end; a crash that eager was not seen to survive is no proof."""
        reason = "the run was interrupted" if interrupted else "no time was left"
        for arm in self._arms or ():
            record = self.ledger.arm(arm.id)
            if record.open and len(record.pairs()) < FEWEST_PAIRS:
                why = f"{reason} to {'finish' if record.started else 'try'} it"
                self._void(ArmVoided(self.world.clock(), arm.id, "cancelled", why))
        if unproven_crash(self.ledger):
            for ending in self.ledger.endings:
                if ending.code and ending.arm and self.ledger.arm(ending.arm).outcome in ("crashed", "out_of_memory"):
                    why = f"the script ended with {ending.error}, and {reason} to see whether it does so in eager too"
                    self._void(ArmVoided(self.world.clock(), ending.arm, "cancelled", why))

    def _clear_the_compiler(self, ended: ScriptEnded | None) -> None:
        """The script crashed at the same place in eager mode: not the compiler's fault."""
        if ended is None or not ended.code:
            return
        for crash in self.ledger.endings[:-1]:
            if crash.arm and crash.error == ended.error and crash.where == ended.where:
                self.world.view.say(f"the crash under {crash.arm} is the script's own: eager ends there too")
                outcome: Outcome = "completed" if self.ledger.arm(crash.arm).pairs() else "cancelled"
                why = "the script itself ends with this error there"
                self._void(ArmVoided(self.world.clock(), crash.arm, outcome, why))

    def _complete_short_arms(self) -> None:
        """An arm that cannot get further has what it has."""
        for arm, idle in self._idle.items():
            if arm in ("confirm", VERIFY.id) or idle < policy.MOST_IDLE_SESSIONS:
                continue
            record = self.ledger.arm(arm)
            if record.open:
                outcome: Outcome = "completed" if record.pairs() else "cancelled"
                why = "the script ends before more could be measured"
                self._void(ArmVoided(self.world.clock(), arm, outcome, why))

    def _why_no_anatomy(self) -> Verdict | None:
        """Nothing to measure: is it the script, or are we in its way?"""
        ended = self.ledger.endings[-1] if self.ledger.endings else None
        gone = self.ledger.exits[-1]
        vanished = ended is None and gone.killed_by_driver is None and gone.code != 0
        died = vanished or (ended is not None and ended.code != 0)
        if not died:
            return None
        self.world.view.say("the script fails; running it once without speedproof to see whose fault that is")
        limit_s = 5.0 + 2 * self._now()
        executor = self.world.executor
        code = self.world.plain_run(limit_s, executor.terminal)
        if code is not None and code != 0:
            if not executor.terminal and self.world.plain_run(limit_s, True) in (None, 0):
                self.world.view.say("the script needs a terminal: starting it in one")
                executor.terminal, self.ledger, self._attempts = True, Ledger(sessions=self.ledger.sessions), 0
                return None
            return failed(ended, f"exit status {code}", "run it without speedproof and mend it first")
        message = ended.error + ": " + ended.message if ended is not None else f"exit status {gone.code}"
        return Verdict(
            "failed",
            f"speedproof gets in this script's way: it fails with {message} here, and runs without",
            None,
            ("speedproof_fails",),
            (f"please report this with {Path(self.store.path).name}; the script's output is in its sessions folder",),
        )

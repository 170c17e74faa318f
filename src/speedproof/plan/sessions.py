"""Which session to start next, if any."""

from __future__ import annotations

from dataclasses import dataclass

from ..analyse.ledger import ArmRecord, Ledger
from ..model import Arm, Purpose
from . import limits as policy
from .arms import AA, VERIFY
from .limits import Limits


@dataclass(frozen=True)
class SessionPlan:
    """``arms`` in order; ``add_later``: the arms that apply are queued once the anatomy is known."""

    arms: tuple[Arm, ...]
    add_later: bool
    why: str
    purpose: Purpose = "trial"


_DIAGNOSIS = SessionPlan((), False, "what stands in the compiler's way?", "observe")


def next_session(
    ledger: Ledger, arms: tuple[Arm, ...] | None, limits: Limits, now_s: float, idle: dict[str, int], attempts: int
) -> SessionPlan | None:
    """``arms``: those that apply, ``None`` while the anatomy is unknown. ``idle``: sessions without progress.

    ``attempts``: sessions started since the loop was last looked for from scratch. The diagnosis pass comes second
    and does not wait for the variants; in a small budget, for which nothing is reserved, it comes after them.
    """
    if attempts == 0 and now_s < limits.end_s - policy.FEWEST_LEFT_S:
        return SessionPlan((AA,), True, "look at the loop, then try")
    if ledger.anatomy is None:
        return None
    if limits.reserved_s and limits.end_s + limits.reserved_s - now_s >= policy.FEWEST_LEFT_S:
        return _DIAGNOSIS
    if limits.end_s - now_s < policy.FEWEST_LEFT_S + ledger.startup_s:
        return None
    if arms is None:
        return None
    noise = (AA,) if _noise_unknown(ledger.arm(AA.id), idle, limits) else ()
    open_arms = (*noise, *(a for a in arms if _wants_more(ledger.arm(a.id), idle, limits)))
    if open_arms and (ledger.script_steps or policy.SHORT_SCRIPT_STEPS) < policy.SHORT_SCRIPT_STEPS:
        # one arm a session, and the noise last: a start of the script is most of what it takes
        open_arms = (*open_arms[len(noise) :], *noise)[:1]
    if open_arms:
        return SessionPlan(open_arms, False, "the session ended before its arms were done")
    if limits.observe_ahead:
        return _DIAGNOSIS
    if unproven_crash(ledger) and idle.get(VERIFY.id, 0) == 0:
        return SessionPlan((VERIFY,), False, "does the script crash there in eager mode too?")
    best = _to_confirm(ledger, arms, limits)
    if best is not None and idle.get("confirm", 0) == 0:
        return SessionPlan((best,), False, "confirm the best in a fresh process, with a warm cache")
    return None


def _noise_unknown(record: ArmRecord, idle: dict[str, int], limits: Limits) -> bool:
    """The noise floor comes first, but never at the cost of the variants."""
    spent = record.spent_s >= limits.budget_s * policy.AA_SHARE or idle.get(AA.id, 0) >= policy.MOST_IDLE_SESSIONS
    return record.open and not spent and len(record.pairs()) < policy.FEWEST_PAIRS


def _wants_more(record: ArmRecord, idle: dict[str, int], limits: Limits) -> bool:
    return record.open and idle.get(record.id, 0) < policy.MOST_IDLE_SESSIONS


def unproven_crash(ledger: Ledger) -> bool:
    """Whether a variant crashed at a step that no eager session has passed yet."""
    crashes = [e for e in ledger.endings if e.code and e.arm not in (None, AA.id, VERIFY.id)]
    return bool(crashes) and ledger.eager_reach <= max(e.steps for e in crashes)


def _to_confirm(ledger: Ledger, arms: tuple[Arm, ...], limits: Limits) -> Arm | None:
    proven = []
    for arm in arms:
        record = ledger.arm(arm.id)
        ratio = record.ratio()
        if record.outcome == "completed" and ratio is not None and (ratio.low or 0.0) >= 1 + limits.threshold:
            proven.append((ratio.ratio, arm))
    if not proven:
        return None
    best = max(proven, key=lambda x: x[0])[1]
    return best if ledger.arm(best.id).warm is None else None

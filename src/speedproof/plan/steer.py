"""What to tell a running session: go on, close this arm, stop, or end it by force."""

from __future__ import annotations

from dataclasses import dataclass

from ..analyse.ledger import Ledger
from ..analyse.statistics import half_width
from ..model import Control, Ratio
from . import limits as policy
from .limits import Limits

OVERRUN = "still compiling when its share of the budget was used up; raise --budget to see it through"


@dataclass(frozen=True)
class Kill:
    """End the session now; ``arm`` gets this outcome, if any."""

    why: str
    arm: str | None
    outcome: str = "timed_out"


Steering = Control | Kill


@dataclass(frozen=True)
class Share:
    """The time an arm may take in this session, from when it started (seconds of the run)."""

    arm: str
    end_s: float
    compile_end_s: float


def share_of(arm: str, waiting: int, spent_s: float, now_s: float, limits: Limits) -> Share:
    """Divide what is left evenly among this arm and those behind it; the A/A run gets a fixed part.

    ``spent_s``: what the arm has had in earlier sessions.
    """
    left = max(0.0, limits.end_s - now_s)
    if arm == "aa":
        part = min(left, limits.budget_s * policy.AA_SHARE - spent_s)
        return Share(arm, now_s + part, now_s + part)
    part = left / (1 + max(0, waiting))
    return Share(arm, now_s + part, now_s + 0.85 * part)


def steer(
    ledger: Ledger, share: Share | None, limits: Limits, now_s: float, session_s: float, silent_s: float
) -> Steering | None:
    """The next word to the session, or ``None``: carry on.

    ``session_s``: how long the session has lived; ``silent_s``: since it last said anything.
    """
    if now_s >= limits.end_s:
        return Kill("the budget is used up", ledger.current, "timed_out" if not ledger.ready else "completed")
    if ledger.anatomy is None or not ledger.session_has_steps:
        return _while_starting(limits, session_s, loaded=bool(ledger.facts))
    if share is None or ledger.current is None:
        return _if_silent(ledger, silent_s)
    record = ledger.arm(share.arm)
    if not ledger.ready and share.arm not in ("aa", "verify"):
        if now_s > share.compile_end_s:
            return Kill(OVERRUN, share.arm)
        return None
    hung = _if_silent(ledger, silent_s, overdue=now_s > share.end_s)
    if hung is not None:
        return hung
    if enough(record.ratio_lately(), share.arm, limits) or now_s > share.end_s:
        return Control("next", share.arm)
    return None


def steer_observation(limits: Limits, now_s: float, loaded_s: float | None, asked: bool) -> Steering | None:
    """The same for the diagnosis pass: it has its time, is asked to stop, and is ended if it does not.

    ``loaded_s``: for how long torch has been loaded in this session, ``None`` while it is not: importing it from a
    slow disk is no looking. ``asked``: whether the session has been told to stop.
    """
    over = (loaded_s or 0.0) - limits.observe_s
    if now_s >= limits.end_s or over > policy.OVERDUE_SILENCE_S:
        return Kill("the time for the diagnosis pass is over", None)
    return Control("stop") if over > 0 and not asked else None


def enough(ratio: Ratio | None, arm: str, limits: Limits) -> bool:
    """Whether more pairs would change nothing (valid at any look, see ``statistics``)."""
    if ratio is None or ratio.pairs < policy.FEWEST_PAIRS or ratio.low is None or ratio.high is None:
        return False
    width = half_width(ratio)
    if arm == "verify":  # it has to reach a step, not a width
        return False
    if arm == "aa":
        return width <= policy.AA_GOOD and ratio.pairs >= 2 * policy.FEWEST_PAIRS
    bar = 1.0 + limits.threshold
    if not (ratio.low >= bar or ratio.high < bar):
        return False
    clear = min(abs(ratio.low - bar), abs(ratio.high - bar)) > ratio.high - ratio.low
    return width <= (policy.CLEAR_WIDTH if clear else policy.GOOD_WIDTH)


def _while_starting(limits: Limits, session_s: float, loaded: bool) -> Steering | None:
    shortest = policy.SHORTEST_STARTUP_S if loaded else policy.SLOWEST_IMPORT_S
    if session_s > max(shortest, limits.budget_s * policy.STARTUP_SHARE):
        return Kill("no step of a loop was recognised in the first part of the budget", None)
    return None


def _if_silent(ledger: Ledger, silent_s: float, overdue: bool = False) -> Steering | None:
    """An arm that was told to close and says nothing gets less patience."""
    step_s = ledger.anatomy.step_s if ledger.anatomy is not None else 0.0
    patience = policy.OVERDUE_SILENCE_S if overdue else policy.SILENCE_S
    if silent_s > max(patience, policy.SILENT_STEPS * step_s):
        return Kill(f"no sign of life for {silent_s:.0f} s: the script hangs", ledger.current, "crashed")
    return None

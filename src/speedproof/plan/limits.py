"""How the budget is shared out: constants of policy, in one place."""

from __future__ import annotations

from dataclasses import dataclass

AA_SHARE = 0.12  # of the budget, for the noise floor
AA_GOOD = 0.01  # half-width of the A/A interval that needs no more pairs
GOOD_WIDTH = 0.02  # half-width that makes a decided ratio good enough to report
CLEAR_WIDTH = 0.04  # ... when the bar is far outside the interval
FEWEST_PAIRS = 6
STARTUP_SHARE = 0.4  # of the budget, to see the first steps
SHORTEST_STARTUP_S = 20.0  # ... but never less than this
SLOWEST_IMPORT_S = 60.0  # importing torch from a cold disk can take this long
OBSERVE_SHARE = 0.2  # of the budget, for the diagnosis pass
SHORTEST_OBSERVE_S = 12.0
LONGEST_OBSERVE_S = 90.0
SMALL_BUDGET_S = 40.0
SILENCE_S = 90.0  # without any sign of life while steps should run
OVERDUE_SILENCE_S = 6.0  # ... by an arm whose time is over
SILENT_STEPS = 12  # ... or this many step times, whichever is longer
FINISH_S = 1.5  # kept back to stop and to write the result
CONFIRM_PAIRS = 8
FEWEST_LEFT_S = 5.0  # less is not worth a new session
SHORT_SCRIPT_STEPS = 150  # a script this short is one arm a session
MOST_IDLE_SESSIONS = 2  # sessions in a row in which an arm made no progress


@dataclass(frozen=True)
class Limits:
    """What the user allows. Times are in seconds, ``now_s`` elsewhere counts from the start of the run."""

    budget_s: float
    threshold: float

    observe_ahead: bool = False  # the diagnosis pass is still to come

    @property
    def reserved_s(self) -> float:
        """What is kept back for the diagnosis pass; in a small budget the ratio comes first."""
        return self.observe_s if self.observe_ahead and self.budget_s >= SMALL_BUDGET_S else 0.0

    @property
    def end_s(self) -> float:
        return self.budget_s - FINISH_S - self.reserved_s

    @property
    def observe_s(self) -> float:
        """How long the diagnosis pass may look."""
        wished = max(SHORTEST_OBSERVE_S, OBSERVE_SHARE * self.budget_s)
        return min(wished, LONGEST_OBSERVE_S, 0.4 * self.budget_s)

"""How the budget is shared out: constants of policy, in one place."""

from __future__ import annotations

from dataclasses import dataclass

AA_SHARE = 0.12  # of the budget, for the noise floor
AA_GOOD = 0.01  # half-width of the A/A interval that needs no more pairs
GOOD_WIDTH = 0.02  # half-width that makes a decided ratio good enough to report
CLEAR_WIDTH = 0.04  # ... when the bar is far outside the interval
FEWEST_PAIRS = 6
STARTUP_SHARE = 0.4  # of the budget, to see the first steps
SHORTEST_STARTUP_S = 20.0  # ... but importing torch alone can take this long
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

    @property
    def end_s(self) -> float:
        return self.budget_s - FINISH_S

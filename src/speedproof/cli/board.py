"""Progress that a person can read during a ten-minute run: a live line, or plain lines where there is no terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from ..analyse.ledger import Ledger
from ..model import (
    AnatomyFound,
    ArmClosed,
    ArmReady,
    ArmStarted,
    ArmVoided,
    Event,
    FileTouched,
    PhasesMeasured,
    ScriptEnded,
    SessionStarted,
    TorchLoaded,
    TrainingFound,
)

EVERY_S = 20.0  # between two signs of life in plain lines


class Silence:
    """Nobody watches."""

    def event(self, event: Event, ledger: Ledger, now_s: float) -> None:
        pass

    def pulse(self, ledger: Ledger, now_s: float) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def __enter__(self) -> Silence:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Lines(Silence):
    """One plain line for each thing that happened, and one now and then in between."""

    def __init__(self, budget_s: float) -> None:
        self._budget_s = budget_s
        self._last_s = 0.0
        self._anatomies: set[str] = set()

    def event(self, event: Event, ledger: Ledger, now_s: float) -> None:
        text = line_of(event)
        if isinstance(event, AnatomyFound):
            text = anatomy_line(event)
            if text in self._anatomies:  # a later session of the same run finds the same loop
                return
            self._anatomies.add(text)
        elif isinstance(event, ArmClosed | ArmVoided):
            text = closing_line(event, ledger)
        if text is not None:
            self._last_s = now_s
            self.say(f"{clock(now_s)}  {text}")

    def pulse(self, ledger: Ledger, now_s: float) -> None:
        if now_s - self._last_s >= EVERY_S:
            self._last_s = now_s
            self.say(f"{clock(now_s)}  {state_of(ledger)}; {left(self._budget_s, now_s)}")

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Board(Lines):
    """The same lines, and below them one that lives: phase, variant, steps, ratio so far, time left."""

    def __init__(self, budget_s: float) -> None:
        super().__init__(budget_s)
        from rich.console import Console
        from rich.status import Status

        self._console = Console(stderr=True, highlight=False)
        self._status: Any = Status("starting", console=self._console, spinner="dots")

    def pulse(self, ledger: Ledger, now_s: float) -> None:
        self._status.update(f"{clock(now_s)}  {_plain(state_of(ledger))}; {left(self._budget_s, now_s)}")

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def __enter__(self) -> Board:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def clock(seconds: float) -> str:
    """Minutes and seconds, such as 3:07."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def left(budget_s: float, now_s: float) -> str:
    """What remains of the budget. A bound, since a run ends early once it is decided."""
    return f"at most {clock(max(0.0, budget_s - now_s))} left"


def state_of(ledger: Ledger) -> str:
    """What goes on right now."""
    if ledger.anatomy is None:
        return "looking for the loop" if ledger.facts else "the script is starting"
    if ledger.current is None:
        return "between variants"
    record = ledger.arm(ledger.current)
    if not ledger.ready and ledger.current not in ("aa", "verify"):
        return f"{ledger.current}: compiling and warming up"
    ratio = record.ratio()
    if ratio is None:
        return f"{ledger.current}: timing, {ledger.session_steps} steps"
    bounds = f" ({ratio.low:.3f} to {ratio.high:.3f})" if ratio.low is not None and ratio.high is not None else ""
    return f"{ledger.current}: {ratio.pairs} pairs, {ratio.ratio:.3f}x{bounds}"


def line_of(event: Event) -> str | None:
    """The line for an event worth one; those that need the ledger have functions of their own."""
    match event:
        case SessionStarted() if event.session:
            return "the script is started again"
        case TorchLoaded():
            return f"torch {event.facts.get('torch')} on {event.facts.get('device')}"
        case TrainingFound():
            return "that was only the prelude: the script trains after all; beginning anew"
        case PhasesMeasured():
            shares = {k: v / max(1, event.total_ns) for k, v in event.phases_ns.items()}
            return "a step is " + ", ".join(f"{100 * v:.0f}% {k}" for k, v in shares.items() if v >= 0.005)
        case ArmStarted():
            return f"{event.arm}: {'timing' if event.arm in ('aa', 'verify') else 'compiling'}"
        case ArmReady():
            log = event.log
            breaks = f"{log.graphs} graphs, {len(log.breaks)} breaks, {len(log.recompiles)} recompiles"
            return f"{event.arm}: warm after {event.warmup_ns / 1e9:.1f} s ({breaks})"
        case FileTouched() if event.how == "diverted":
            return f"torch.save to {event.path} goes to the scratch folder"
        case ScriptEnded():
            end = f"with {event.error}" if event.code else "by itself"
            return f"the script ended {end} after {event.steps} steps"
    return None


def anatomy_line(event: AnatomyFound) -> str:
    """What was recognised in the script, so that a user sees at once when it was the wrong loop."""
    a = event.anatomy
    networks = ", ".join(f"{r.name} ({r.parameters:,} parameters)" for r in a.roots if r.target) or "no network"
    return f"{a.kind}: {networks}; a step ends at the {a.boundary.label}, about {1000 * a.step_s:.3g} ms"


def closing_line(event: ArmClosed | ArmVoided, ledger: Ledger) -> str | None:
    """How an arm ended, with its ratio where there is one; ``None`` for arms that do not apply."""
    if event.outcome == "skipped" or "does not ask" in event.why:
        return None
    ratio = ledger.arm(event.arm).ratio()
    if event.outcome != "completed" or ratio is None:
        return f"{event.arm}: {event.outcome.replace('_', ' ')}: {event.why.splitlines()[0][:200] if event.why else ''}"
    bounds = f", 95% interval {ratio.low:.3f} to {ratio.high:.3f}" if ratio.low and ratio.high else ""
    return f"{event.arm}: {ratio.ratio:.3f}x{bounds}, {ratio.pairs} pairs"

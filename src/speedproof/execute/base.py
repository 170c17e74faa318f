"""What the engine needs of a place where sessions run."""

from __future__ import annotations

from typing import Protocol

from ..model import Control, Event, SessionExit, SessionSpec


class Session(Protocol):
    """One worker process (or its recording)."""

    def poll(self, wait_s: float) -> list[Event]:
        """Events since the last call, in order; waits up to ``wait_s`` seconds for the first."""

    def send(self, control: Control) -> None:
        """Pass a wish to the worker. It is advisory: a worker at work in a compile reads it later."""

    def kill(self, why: str) -> None:
        """End the session and every process it started, now. ``why`` goes into its ``SessionExit``."""

    @property
    def exit(self) -> SessionExit | None:
        """How the session ended; ``None`` while it lives. Set only once every event has been polled."""


class Executor(Protocol):
    """Starts sessions: real processes, or recordings in tests."""

    terminal: bool
    """Give the script a terminal: some old ones die without one."""

    def start(self, spec: SessionSpec) -> Session:
        """Start a session. Does not wait."""

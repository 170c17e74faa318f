"""What compiling an arm produced: graphs, breaks, recompiles, and where the seconds went.

Listens to Dynamo's structured trace while an arm warms up, and to nothing while it is timed. The trace costs
compile time of its own; torch counts that (``structured_logging_overhead``), and it is subtracted from the cost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..model import CompileLog
from ..trace import TraceFold
from ..trace.fold import payload_wanted
from . import compat


class CompileClock:
    """Counts compiles and the time inside them, through Dynamo's callbacks."""

    def __init__(self) -> None:
        self.compiles = 0
        self.busy_ns = 0
        self._since = 0
        self._remove: Any = None

    def listen(self) -> None:
        """(Again) after each ``reset_compiler``, which clears the callbacks."""
        if self._remove is not None:
            self._remove()
        self._remove = compat.on_compile(self._start, self._end)

    def _start(self, *_: Any) -> None:
        self.compiles += 1
        self._since = time.perf_counter_ns()

    def _end(self, *_: Any) -> None:
        self.busy_ns += time.perf_counter_ns() - self._since


class TraceListener(logging.Handler):
    """Folds the structured trace as it comes."""

    def __init__(self, fold: TraceFold) -> None:
        super().__init__(level=logging.DEBUG)
        self._fold = fold

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None)
        if isinstance(metadata, dict):
            # a payload may be made by a function, which is only called for records that count
            payload = getattr(record, "payload", None) if payload_wanted(metadata) else None
            self._fold.record(metadata, payload or "")


class CompileRecorder:
    """From ``start`` to ``finish``: the compile log of one arm. ``step`` tells which step of the loop it is."""

    def __init__(self, step: Callable[[], int | None] | None = None) -> None:
        self._step = step
        self._fold = TraceFold(compat.interned_string, step)
        self._listener: TraceListener | None = None
        self._before: dict[str, dict[str, int]] = {}

    def start(self) -> None:
        compat.raise_metrics_limit()
        compat.forget_metrics()
        self._before = compat.counters()
        self._fold = TraceFold(compat.interned_string, self._step)
        self._listener = TraceListener(self._fold)
        compat.trace_logger().addHandler(self._listener)

    def pause(self) -> None:
        """Stop listening; what was heard stays."""
        if self._listener is not None:
            compat.trace_logger().removeHandler(self._listener)

    def log(self) -> CompileLog:
        """What has been compiled since ``start``. Torch's own counts fill in where an older trace has none."""
        log = self._fold.log()
        metrics = compat.compilation_metrics()
        return replace(
            log,
            graphs=max(log.graphs, self._grown("stats", "unique_graphs")),
            ops=max(log.ops, sum(int(getattr(m, "graph_op_count", 0) or 0) for m in metrics)),
            frames=max(log.frames, len([m for m in metrics if not getattr(m, "is_runtime", False)])),
        )

    def tracing_ns(self) -> int:
        """What listening itself cost, as counted by torch."""
        return sum(
            int((getattr(m, "structured_logging_overhead_us", 0) or 0) * 1000) for m in compat.compilation_metrics()
        )

    def _grown(self, group: str, name: str) -> int:
        now = compat.counters().get(group, {}).get(name, 0)
        return now - self._before.get(group, {}).get(name, 0)

"""What compiling an arm produced: graphs, breaks, recompiles, and where the seconds went.

Listens to Dynamo's structured trace while an arm warms up, and to nothing while it is timed. The trace costs
compile time of its own; torch counts that (``structured_logging_overhead``), and it is subtracted from the cost.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..model import CapturedGraph, CompileLog, GraphBreak, Place, Recompile
from . import compat

_BREAK_AT = re.compile(r"^Graph break in user code at (.*):(\d+)", re.M)
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_MOST_KEPT = 200  # of each kind; a recompile storm needs no more to be told


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
    """Keeps breaks and recompiles of the structured trace, and drops the rest as it comes."""

    def __init__(self) -> None:
        super().__init__(level=logging.DEBUG)
        self.step: Callable[[], int | None] = lambda: None
        self.breaks: list[GraphBreak] = []
        self.recompiles: list[Recompile] = []
        self._files: dict[int, str] = {}
        self._stacks: dict[tuple[Any, Any], tuple[Place, ...]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None)
        if not isinstance(metadata, dict):
            return
        if "str" in metadata:
            name, index = metadata["str"]
            self._files[index] = name
        elif "dynamo_start" in metadata:
            self._stacks[_frame_of(metadata)] = self._stack(metadata["dynamo_start"].get("stack", []))
        elif "artifact" in metadata:
            self._artifact(metadata, str(getattr(record, "payload", "") or ""))

    def _artifact(self, metadata: dict[str, Any], payload: str) -> None:
        name = metadata["artifact"].get("name")
        if name == "dynamo_graph_break_reason" and len(self.breaks) < _MOST_KEPT:
            outer = self._stacks.get(_frame_of(metadata), ())
            self.breaks.append(parse_break(payload, outer, _compile_id(metadata)))
        elif name == "recompile_reasons" and len(self.recompiles) < _MOST_KEPT:
            reasons = _json_texts(payload)
            if reasons:
                stack = self._stacks.get(_frame_of(metadata), ())
                step = self.step()
                self.recompiles.append(Recompile(reasons[0], stack, _compile_id(metadata), tuple(reasons[1:8]), step))

    def _stack(self, frames: list[dict[str, Any]]) -> tuple[Place, ...]:
        return tuple(Place(self._file(f.get("filename")), int(f.get("line", 0)), f.get("name")) for f in frames)

    def _file(self, index: Any) -> str:
        if isinstance(index, int) and index not in self._files:
            # interned before we listened
            self._files[index] = compat.interned_string(index) or "?"
        return self._files.get(index, str(index))


def parse_break(payload: str, outer: tuple[Place, ...], compile_id: str | None) -> GraphBreak:
    """One ``dynamo_graph_break_reason`` text. ``outer`` is the stack of the frame being compiled."""
    at = _BREAK_AT.search(payload)
    body = payload.partition("Graph Break Reason:")[2].strip() or payload.strip()
    lines = [line.rstrip() for line in body.splitlines()]
    hints = tuple(line.strip()[6:] for line in lines if line.strip().startswith("Hint: "))
    explanation = next((ln.strip()[13:] for ln in lines if ln.strip().startswith("Explanation: ")), "")
    # torch's own traceback, which follows the user's, is none of our business
    theirs = payload.partition("User code traceback")[2].partition("\nTraceback (most recent call last)")[0]
    stack = tuple(Place(f, int(n), name) for f, n, name in _FRAME.findall(theirs))
    if not stack:
        inner = (Place(at[1], int(at[2]), None),) if at else ()
        stack = outer[:-1] + inner if outer and inner else outer + inner
    return GraphBreak(_reason(lines), explanation, hints, stack, compile_id)


def _reason(lines: list[str]) -> str:
    """The break type: the first line that is not the general preamble."""
    for line in lines:
        text = line.strip()
        if text and not text.startswith(("Encountered graph break", "Explanation:", "Hint:")):
            return text
    return lines[0].strip() if lines else "graph break"


def _frame_of(metadata: dict[str, Any]) -> tuple[Any, Any]:
    return metadata.get("frame_id"), metadata.get("frame_compile_id")


def _compile_id(metadata: dict[str, Any]) -> str | None:
    frame, attempt = _frame_of(metadata)
    return None if frame is None else f"{frame}/{attempt}"


def _json_texts(payload: str) -> list[str]:
    try:
        parsed = json.loads(payload)
    except ValueError:
        return [payload.strip()] if payload.strip() else []
    return [str(x) for x in parsed] if isinstance(parsed, list) else [str(parsed)]


class CompileRecorder:
    """From ``start`` to ``finish``: the compile log of one arm."""

    def __init__(self) -> None:
        self.step: Callable[[], int | None] = lambda: None
        self._listener: TraceListener | None = None
        self._before: dict[str, dict[str, int]] = {}

    def start(self) -> None:
        compat.raise_metrics_limit()
        compat.forget_metrics()
        self._before = compat.counters()
        self._listener = TraceListener()
        self._listener.step = lambda: self.step()
        compat.trace_logger().addHandler(self._listener)

    def pause(self) -> None:
        """Stop listening; what was heard stays."""
        if self._listener is not None:
            compat.trace_logger().removeHandler(self._listener)

    def log(self) -> CompileLog:
        """What has been compiled since ``start``."""
        metrics = compat.compilation_metrics()
        listener = self._listener
        return CompileLog(
            graphs=self._grown("stats", "unique_graphs"),
            ops=sum(int(getattr(m, "graph_op_count", 0) or 0) for m in metrics),
            breaks=tuple(listener.breaks) if listener else (),
            recompiles=tuple(_with_cost(r, metrics) for r in listener.recompiles) if listener else (),
            frames=len(metrics),
            limit_hit=any("recompile_limit" in str(getattr(m, "fail_reason", "") or "").lower() for m in metrics),
            stages_s=_stages(metrics),
            captured=tuple(_captured(m) for m in metrics if getattr(m, "graph_op_count", None)),
            cudagraph_skips=_texts(metrics, "cudagraph_skip_reason"),
            fallbacks=_fallbacks(metrics),
        )

    def tracing_ns(self) -> int:
        """What listening itself cost, as counted by torch."""
        return sum(
            int((getattr(m, "structured_logging_overhead_us", 0) or 0) * 1000) for m in compat.compilation_metrics()
        )

    def _grown(self, group: str, name: str) -> int:
        now = compat.counters().get(group, {}).get(name, 0)
        return now - self._before.get(group, {}).get(name, 0)


def _captured(metrics: Any) -> CapturedGraph:
    name, file = getattr(metrics, "co_name", None), getattr(metrics, "co_filename", None)
    where = Place(file, int(getattr(metrics, "co_firstlineno", 0) or 0), name) if file else None
    return CapturedGraph(where, int(metrics.graph_op_count), _id_of(metrics), _stages([metrics]))


def _id_of(metrics: Any) -> str:
    return str(getattr(metrics, "compile_id", "") or "").strip("[]")


def _with_cost(recompile: Recompile, metrics: list[Any]) -> Recompile:
    spent = [float(m.entire_frame_compile_time_s or 0) for m in metrics if _id_of(m) == recompile.compile_id]
    return replace(recompile, cost_s=round(sum(spent), 4)) if spent else recompile


def _texts(metrics: list[Any], field: str) -> tuple[str, ...]:
    found = [str(getattr(m, field, None) or "").strip() for m in metrics]
    return tuple(dict.fromkeys(t for t in found if t))


def _fallbacks(metrics: list[Any]) -> tuple[str, ...]:
    """Errors of the compiler that ``suppress_errors`` turned into eager: the frame failed, and the script went on."""
    lost = [m for m in metrics if getattr(m, "config_suppress_errors", False) and getattr(m, "fail_type", None)]
    return tuple(f"{m.co_filename}:{m.co_firstlineno} {m.co_name}: {m.fail_type}: {m.fail_reason}"[:500] for m in lost)


def _stages(metrics: list[Any]) -> dict[str, float]:
    """Seconds by stage. Nested ones are not subtracted: ``backend`` contains ``inductor``, ``frame`` contains both."""
    fields = {
        "frame": "entire_frame_compile_time_s",
        "backend": "backend_compile_time_s",
        "inductor": "inductor_compile_time_s",
        "codegen": "code_gen_time_s",
    }
    totals = {k: sum(float(getattr(m, f, None) or 0.0) for m in metrics) for k, f in fields.items()}
    return {k: round(v, 4) for k, v in totals.items() if v > 0}

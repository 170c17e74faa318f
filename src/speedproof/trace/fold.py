"""Records of torch's structured trace, one after the other, folded into a compile log.

A record is a metadata mapping with one key that says what it is, the ids of the frame being compiled, and for some
kinds a payload text. The same fold serves a logging handler (``LogRecord.metadata`` and ``.payload``) and files.
Records come from another program and from any torch: nothing here raises, and what is kept is bounded.

Not in the trace, in any torch so far: performance hints (a logger of their own), and skipped CUDA graphs other than
as the one field ``cudagraph_skip_reason`` of the metrics, which older torch lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..model import CapturedGraph, CompileLog, GraphBreak, Place, Recompile
from .breaks import first_line, is_raw, last_error, parse_break
from .graphs import operations_by_line
from .values import items, mapping, number, parsed, place, text, user_stack, whole

MOST_KEPT = 200  # of each kind; a storm of recompiles needs no more to be told
MOST_PAYLOAD = 64 * 1024
MOST_GRAPH_PAYLOAD = 1024 * 1024
UNKNOWN_REASON = "unknown"
_MOST_FILES = 5000
_MOST_STACKS = 256
_MOST_OTHERS = 7
_MOST_REASON = 1000
_MOST_TOLD = 5000

_METRICS = ("compilation_metrics", "bwd_compilation_metrics")
_RUNTIME = tuple(f"{name}_runtime" for name in _METRICS)
KINDS = frozenset({"str", "dynamo_start", "dynamo_output_graph", "artifact", *_METRICS, *_RUNTIME})
_ARTIFACTS = {
    "dynamo_graph_break_reason": MOST_PAYLOAD,
    "recompile_reasons": MOST_PAYLOAD,
    "eager_compile_backwards_failure": MOST_PAYLOAD,
}
# Seconds by stage. Nested: ``frame`` contains ``backend``, and that ``inductor``, and that ``codegen``. A backward that
# is compiled when it is first run is outside the frame: ``lazy_backward``, of which ``inductor`` has its part as well.
_STAGES = {
    "frame": ("entire_frame_compile_time_s", "dynamo_cumulative_compile_time_us"),
    "backend": ("backend_compile_time_s", "aot_autograd_cumulative_compile_time_us"),
    "inductor": ("inductor_compile_time_s", "inductor_cumulative_compile_time_us"),
    "codegen": ("code_gen_time_s", "inductor_code_gen_cumulative_compile_time_us"),
}
# Failures after which torch runs the frame as it is in any case: no errors that suppress_errors has hidden.
_BY_DESIGN = frozenset({
    "ArgsMismatchError", "AttributeMutationError", "InfiniteGeneratorError", "RecompileLimitExceeded",
    "CacheLimitExceeded", "SideEffectsError", "SkipFrame", "UnknownPropertiesDuringBackwardTrace", "Unsupported",
    "UserError",
})  # fmt: skip
_LIMIT_TYPES = frozenset({"RecompileLimitExceeded", "CacheLimitExceeded", "FailOnRecompileLimitHit"})
_LIMIT_WORDS = ("recompile_limit", "cache_size_limit", "recompile limit exceeded")
_DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

_Value = TypeVar("_Value")


def payload_wanted(metadata: Mapping[str, Any]) -> int:
    """How many characters of the payload of this record the fold reads; 0 if none."""
    if "dynamo_output_graph" in metadata:
        return MOST_GRAPH_PAYLOAD
    name = mapping(metadata.get("artifact")).get("name")
    return _ARTIFACTS.get(name, 0) if isinstance(name, str) else 0


@dataclass
class _Recompiled:
    """A recompile whose stack and cost may still come."""

    reason: str
    others: tuple[str, ...]
    compile_id: str | None
    step: int | None
    stack: tuple[Place, ...]
    cost_s: float | None = None

    def done(self) -> Recompile:
        return Recompile(self.reason, self.stack, self.compile_id, self.others, self.step, self.cost_s)


@dataclass
class _Captured:
    """A captured graph whose backward may still be compiled."""

    where: Place | None
    ops: int
    compile_id: str | None
    lines: dict[str, int]
    stages_s: Counter[str] = field(default_factory=Counter)

    def done(self) -> CapturedGraph:
        return CapturedGraph(self.where, self.ops, self.compile_id, _rounded(self.stages_s), self.lines)


class TraceFold:
    """Feed it each record with ``record``; ``log()`` is what is known so far.

    ``name_of`` gives the file name of an interned number that was handed out before the first record; ``step`` says
    at which step of the script a recompile happens. ``breaks``, ``recompiles`` and ``captured`` hold at most
    ``MOST_KEPT`` entries each, the oldest; ``dropped`` counts what came beyond them, by kind. The totals (``frames``,
    ``graphs``, ``ops``, seconds) go over all records.
    """

    def __init__(
        self,
        name_of: Callable[[int], str | None] | None = None,
        step: Callable[[], int | None] | None = None,
    ) -> None:
        self.breaks: list[GraphBreak] = []
        self.dropped: Counter[str] = Counter()
        self.records = 0
        self.frames = self.graphs = self.ops = 0
        self.limit_hit = False
        self._name_of, self._step = name_of, step
        self._texts: dict[str, list[str]] = {"warnings": [], "cudagraph_skips": [], "fallbacks": []}
        self._stages: Counter[str] = Counter()
        self._recompiled: list[_Recompiled] = []
        self._captured: list[_Captured] = []
        self._files: dict[int, str] = {}
        self._stacks: dict[str, tuple[Place, ...]] = {}
        self._lines: dict[str, dict[str, int]] = {}
        # By compile id, all of them. After a reset torch begins again with 0/0, so a start forgets what was.
        self._told: dict[str | None, set[int]] = {}
        self._raw: dict[str | None, int] = {}
        self._open_recompiles: dict[str, _Recompiled] = {}
        self._open_graphs: dict[str, _Captured] = {}

    @property
    def recompiles(self) -> list[Recompile]:
        """In order; a stack or a cost may be completed by later records."""
        return [entry.done() for entry in self._recompiled]

    @property
    def captured(self) -> list[CapturedGraph]:
        """In order; the seconds of a backward that is compiled later are added to its graph."""
        return [entry.done() for entry in self._captured]

    def log(self) -> CompileLog:
        """Everything so far. Can be asked at any time, any number of times."""
        return CompileLog(
            graphs=self.graphs,
            ops=self.ops,
            breaks=tuple(self.breaks),
            recompiles=tuple(self.recompiles),
            frames=self.frames,
            limit_hit=self.limit_hit,
            stages_s=_rounded(self._stages),
            warnings=(*self._texts["warnings"], *self._shortfall()),
            captured=tuple(self.captured),
            cudagraph_skips=tuple(self._texts["cudagraph_skips"]),
            fallbacks=tuple(self._texts["fallbacks"]),
        )

    def record(self, metadata: Mapping[str, Any], payload: str = "") -> None:
        """One record. Never raises: what cannot be read is counted in ``dropped["unreadable"]``."""
        try:
            self._record(mapping(metadata), payload if isinstance(payload, str) else "")
        except _DAMAGE:
            self.dropped["unreadable"] += 1

    def _record(self, metadata: Mapping[str, Any], payload: str) -> None:
        compile_id = _compile_id(metadata)
        kind = next((k for k in metadata if isinstance(k, str) and k in KINDS), None)
        if kind is None:
            return
        self.records += 1
        if kind == "str":
            self._intern(items(metadata["str"]))
        elif kind == "dynamo_start":
            self._start(items(mapping(metadata["dynamo_start"]).get("stack")), compile_id)
        elif kind == "artifact":
            self._artifact(mapping(metadata["artifact"]).get("name"), payload[:MOST_PAYLOAD], compile_id)
        elif kind == "dynamo_output_graph":
            # A graph that is cut off would have too few operations by line: better none.
            if compile_id is not None and len(payload) < MOST_GRAPH_PAYLOAD:
                _keep_newest(self._lines, compile_id, operations_by_line(payload))
        else:
            self._metrics(kind, mapping(metadata[kind]), compile_id)

    # Files and stacks

    def _intern(self, entry: list[Any]) -> None:
        name, index = text(entry[0]), whole(entry[1])
        if name and index is not None and (index in self._files or len(self._files) < _MOST_FILES):
            self._files[index] = name

    def _file(self, index: object) -> str:
        known = whole(index)
        if known is None:
            return text(index) or "?"
        if known not in self._files and self._name_of is not None and len(self._files) < _MOST_FILES:
            self._files[known] = text(self._name_of(known)) or "?"
        return self._files.get(known, "?")

    def _start(self, frames: list[Any], compile_id: str | None) -> None:
        entries = [mapping(frame) for frame in frames[-4096:]]
        stack = user_stack(
            (self._file(e.get("filename")), whole(e.get("line")) or 0, text(e.get("name"))) for e in entries
        )
        if compile_id is None:
            return
        _keep_newest(self._stacks, compile_id, stack)
        for of_the_last_one in (self._told, self._raw, self._lines, self._open_graphs):
            of_the_last_one.pop(compile_id, None)
        # Torch gives the reason of a recompile before it starts on it.
        waiting = self._open_recompiles.get(compile_id)
        if waiting is not None and waiting.cost_s is None:
            waiting.stack = stack

    def _stack_of(self, compile_id: str | None) -> tuple[Place, ...]:
        """Of this compile, or else of an earlier one of the same frame."""
        if compile_id is None:
            return ()
        if compile_id in self._stacks:
            return self._stacks[compile_id]
        frame = compile_id.rpartition("/")[0] + "/"
        return next((s for known, s in reversed(self._stacks.items()) if known.rpartition("/")[0] + "/" == frame), ())

    # Breaks, recompiles, metrics

    def _artifact(self, name: object, payload: str, compile_id: str | None) -> None:
        if name == "dynamo_graph_break_reason":
            self._break(payload, compile_id)
        elif name == "recompile_reasons":
            self._recompile(payload, compile_id)
        elif name == "eager_compile_backwards_failure":
            self._say("warnings", f"backward could not be compiled with its forward: {last_error(payload)}")

    def _break(self, payload: str, compile_id: str | None) -> None:
        found = parse_break(payload, self._stack_of(compile_id), compile_id)
        # Torch traces a frame once more after a break, and may meet the same one again.
        told = self._told.setdefault(compile_id, set())
        key = hash((found.reason, found.stack))
        if key in told:
            return
        if len(told) < _MOST_TOLD:
            told.add(key)
        _forget_oldest(self._told, _MOST_STACKS)
        raw = self._raw.pop(compile_id, None)
        if raw is not None:
            self.breaks[raw] = found
        elif self._room(self.breaks, "graph breaks"):
            if is_raw(payload):
                self._raw[compile_id] = len(self.breaks)
            self.breaks.append(found)

    def _recompile(self, payload: str, compile_id: str | None) -> None:
        if not self._room(self._recompiled, "recompiles"):
            return
        reasons = _texts_of(payload) or [UNKNOWN_REASON]
        step = whole(self._step()) if self._step is not None else None
        others = tuple(reasons[1 : 1 + _MOST_OTHERS])
        entry = _Recompiled(reasons[0], others, compile_id, step, self._stack_of(compile_id))
        self._recompiled.append(entry)
        if compile_id is not None:
            self._open_recompiles[compile_id] = entry

    def _metrics(self, kind: str, metrics: Mapping[str, Any], compile_id: str | None) -> None:
        compile_id = compile_id or text(metrics.get("compile_id")).strip("[]") or None
        if skipped := first_line(text(metrics.get("cudagraph_skip_reason"))):
            self._say("cudagraph_skips", skipped)
        if kind in _RUNTIME:
            return
        error, why = text(metrics.get("fail_type")), text(metrics.get("fail_reason"), MOST_PAYLOAD)
        at_limit = _is_limit(error, why)
        backward = kind.startswith("bwd_") and not at_limit  # torch 2.6 tells of the limit under this name
        spent = _seconds(metrics, backward)
        self._stages.update(spent)
        if not backward:
            self.frames += 1
            self._price(compile_id, spent.get("frame"))
        if error:
            self._failed(metrics, error, why, compile_id)
        elif backward:
            self._add_backward(compile_id, spent)
        else:
            self._capture(metrics, compile_id, spent)

    def _price(self, compile_id: str | None, seconds: float | None) -> None:
        entry = self._open_recompiles.get(compile_id) if compile_id is not None else None
        if entry is not None and seconds is not None:
            entry.cost_s = round((entry.cost_s or 0.0) + seconds, 4)

    def _capture(self, metrics: Mapping[str, Any], compile_id: str | None, spent: dict[str, float]) -> None:
        lines = self._lines.pop(compile_id, {}) if compile_id is not None else {}
        ops = max(0, whole(metrics.get("graph_op_count")) or 0)
        if not ops:
            return
        self.ops += ops
        self.graphs += 1
        if not self._room(self._captured, "graphs"):
            return
        entry = _Captured(self._where(metrics, compile_id), ops, compile_id, lines, Counter(spent))
        self._captured.append(entry)
        if compile_id is not None:
            self._open_graphs[compile_id] = entry

    def _add_backward(self, compile_id: str | None, spent: dict[str, float]) -> None:
        entry = self._open_graphs.get(compile_id) if compile_id is not None else None
        if entry is not None:
            entry.stages_s.update(spent)

    def _failed(self, metrics: Mapping[str, Any], error: str, why: str, compile_id: str | None) -> None:
        where = self._where(metrics, compile_id)
        at = f"{where.file}:{where.line} {where.function or ''}".rstrip() if where else "unknown place"
        if _is_limit(error, why):
            self.limit_hit = True
        elif error in _BY_DESIGN:
            self._say("warnings", text(f"{at}: runs uncompiled: {first_line(why)}", _MOST_REASON))
        elif metrics.get("config_suppress_errors") is True:
            self._say("fallbacks", text(f"{at}: {error}: {first_line(why)}", _MOST_REASON))
        else:
            self._say("warnings", text(f"{at}: compile failed: {error}: {first_line(why)}", _MOST_REASON))

    def _where(self, metrics: Mapping[str, Any], compile_id: str | None) -> Place | None:
        file = text(metrics.get("co_filename"))
        if file:
            return place(file, whole(metrics.get("co_firstlineno")) or 0, text(metrics.get("co_name")))
        return next(iter(self._stack_of(compile_id)[-1:]), None)

    # What is kept

    def _room(self, kept: list[Any], kind: str) -> bool:
        if len(kept) >= MOST_KEPT:
            self.dropped[kind] += 1
            return False
        return True

    def _say(self, kind: str, message: str) -> None:
        if message not in self._texts[kind] and self._room(self._texts[kind], kind.replace("_", " ")):
            self._texts[kind].append(message)

    def _shortfall(self) -> list[str]:
        """What was left out, in words."""
        return [
            f"{count} unreadable records of the trace" if kind == "unreadable" else f"{count} more {kind}, not listed"
            for kind, count in sorted(self.dropped.items())
        ]


def _compile_id(metadata: Mapping[str, Any]) -> str | None:
    """As torch writes it: ``frame/attempt``, after ``!n/`` within compiled autograd."""
    frame, attempt = whole(metadata.get("frame_id")), whole(metadata.get("frame_compile_id"))
    autograd = whole(metadata.get("compiled_autograd_id"))
    parts = [f"!{autograd}"] if autograd is not None else []
    if frame is not None:
        parts.append(f"{frame}/{attempt if attempt is not None else 0}")
    return "/".join(parts) or None


def _texts_of(payload: str) -> list[str]:
    """The reasons in a JSON list, one to a line, of which the last may be cut; or the one reason, as it is."""
    bare = payload.strip()
    if not bare.startswith(("[", '"')):
        return [text(bare, _MOST_REASON)] if bare else []
    known = parsed(bare)
    if not isinstance(known, (list, str)):
        known = [found for line in bare.splitlines() if isinstance(found := parsed(line.strip().rstrip(",")), str)]
    found = [text(entry, _MOST_REASON) for entry in ([known] if isinstance(known, str) else known)]
    return [entry for entry in found if entry] or [text(bare, _MOST_REASON)]


def _is_limit(error: str, why: str) -> bool:
    lower = why.lower()
    return bool(error) and (error in _LIMIT_TYPES or any(words in lower for words in _LIMIT_WORDS))


def _seconds(metrics: Mapping[str, Any], backward: bool) -> dict[str, float]:
    """By stage, without those that took no time."""
    found = {stage: _time(metrics, *names) for stage, names in _STAGES.items()}
    if backward:
        found["lazy_backward"] = _time(metrics, "", "backward_cumulative_compile_time_us") or _time(
            metrics, "", "duration_us"
        )
    return {stage: seconds for stage, seconds in found.items() if seconds > 0}


def _time(metrics: Mapping[str, Any], seconds: str, microseconds: str) -> float:
    known = number(metrics.get(seconds))
    return known if known is not None else (number(metrics.get(microseconds)) or 0.0) / 1e6


def _rounded(stages: Mapping[str, float]) -> dict[str, float]:
    return {stage: round(seconds, 4) for stage, seconds in stages.items()}


def _keep_newest(table: dict[str, _Value], key: str, value: _Value) -> None:
    table.pop(key, None)
    table[key] = value
    _forget_oldest(table, _MOST_STACKS)


def _forget_oldest(table: dict[Any, Any], most: int) -> None:
    while len(table) > most:
        del table[next(iter(table))]

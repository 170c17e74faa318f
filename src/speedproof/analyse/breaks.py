"""Graph breaks: one group for each cause, with what it costs; findings are made of groups.

A break is listed by the compiler each time it meets it: for each frame, again after a restart, again in each variant
of a frame. The user has one line to change, so breaks with the same cause and the same user stack are one group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

from ..model import CompileLog, Finding, FindingLabel, GraphBreak, Place, Severity
from .evidence import Evidence

NEGLIGIBLE = 0.005  # of a step: a break that costs less needs no action where the rest is compiled
_GIVEN_UP = re.compile(r"Skipping (?:the )?(?:function|frame)|falling back to eager|graph break in loop", re.I)


@dataclass(frozen=True)
class BreakGroup:
    """Breaks with one cause. ``stack`` are the user's own frames; ``library`` is the innermost frame of all.

    ``given_up``: the compiler left the whole function to eager because of it (a break in a loop, for one).
    """

    slug: str
    first: GraphBreak
    stack: tuple[Place, ...]
    library: Place | None
    count: int
    cost_ms: float | None
    given_up: bool
    captured_nothing: bool

    @property
    def where(self) -> Place | None:
        """The innermost line of the user's own code."""
        return self.stack[-1] if self.stack else None


@dataclass(frozen=True)
class Kind:
    """What tells breaks of one kind. ``text`` matches the reason and explanation, ``line`` the user's source line.

    Where both are given, both must match; ``library`` matches the path of the innermost frame of all.
    """

    slug: str
    text: str | None = None
    line: str | None = None
    library: str | None = None

    def matches(self, text: str, line: str, library: str) -> bool:
        """Whether a break with this text, source line and innermost frame is one of the kind."""
        tests = ((self.text, text), (self.line, line), (self.library, library))
        return all(pattern is None or re.search(pattern, value, re.I) for pattern, value in tests)


# In the order in which they are tried: what is more telling comes first.
KINDS = (
    Kind("graph-break-disabled", r"torch\.compiler\.disable|_dynamo\.(?:graph_break|skip_frame|disable)\(\)"),
    Kind("graph-break-disabled", r"recompile limit exceeded"),
    Kind("graph-break-backward-hook", r"backwards? hooks? require|intermediate hooks require compiled autograd"),
    Kind("graph-break-rnn", r"RNN, GRU, or LSTM"),
    Kind("graph-break-training-step", r"Tensor\.backward\(\)|optimizer: pending mutation"),
    Kind("graph-break-training-step", line=r"\.(?:backward|zero_grad|step)\(|clip_grad_", library=r"/torch/"),
    Kind("graph-break-distributed", library=r"/torch/(?:nn/parallel|distributed)/"),
    Kind("graph-break-distributed", r"async_op|P2P|torch\.distributed"),
    Kind("graph-break-logging", r"logging\.|Logger|warnings\.warn|loguru|qualname: (?:debug|info|warning|error)\b"),
    Kind("graph-break-print", r"builtin operator `print`|\bprint\b.*(?:skipped|builtin)|reorder a debugging function"),
    Kind("graph-break-deepcopy", r"deepcopy"),
    Kind(
        "graph-break-random", r"torch\.Generator|random\.Random|Tensor\.(?:random_|uniform_)|numpy\.random|\brandom\."
    ),
    Kind("graph-break-numpy", r"numpy|ndarray"),
    Kind("graph-break-numpy", r"_local_scalar_dense", line=r"\bnp\.|numpy"),
    Kind("graph-break-item", r"Tensor\.item\(\)|Tensor\.tolist\(\)|_local_scalar_dense|nb_(?:int|float)_impl"),
    Kind("graph-break-branch", r"data-dependent|Assertion failed on symbolic|guard_scalar branch"),
    Kind("graph-break-dynamic-shape", r"Dynamic shape operator|one_hot|Dynamic slicing|data-dependent output shape"),
    Kind("graph-break-autograd-function", r"autograd\.Function|AutogradFunctionContext|custom (?:jvp|vjp)"),
    Kind("graph-break-autograd-grad", r"autograd[._]grad|lost grad_fn|Tensor with grad_fn|_ImperativeEngine"),
    Kind(
        "graph-break-custom-op", r"missing fake impl|no meta kernel|fake tensors|PT2-compliant|op packet|triton kernel"
    ),
    Kind("graph-break-custom-op", r"C/C\+\+|pybind|not implemented in python|extension"),
    Kind("graph-break-sparse", r"sparse"),
    Kind("graph-break-nested-tensor", r"nested_?tensor"),
    Kind("graph-break-requires-grad", r"requires_grad|retain_grad"),
    Kind(
        "graph-break-storage",
        r"Inplace op on input|\.(?:set_|resize_|resize_as_|share_memory_|data)\b|tensor data attr",
    ),
    Kind("graph-break-generator", r"generator|Comprehension|itertools|next\(\) call"),
    Kind("graph-break-context-manager", r"context manager|contextlib|ContextWrapping|record_function|profiler"),
    Kind("graph-break-exception", r"exception|raise|assert"),
    Kind("graph-break-output-type", r"reconstruct|dataclass|namedtuple|construct(?:ion|or)|output type|TypedDict"),
    Kind("graph-break-torchscript", r"TorchScript|torch\.jit|ScriptModule"),
    Kind("graph-break-tensor-subclass", r"subclass|__torch_function__"),
    Kind("graph-break-shape-error", r"fake tensor|FX node|broadcast|device mismatch"),
    Kind(
        "graph-break-skipped-function", r"marked as skipped|Unsupported function call|Unsupported method call|builtin"
    ),
)
OTHER = "graph-break-other"


def slug_of(text: str, line: str = "", library: str = "") -> str:
    """The kind of a break, by its text, the user's source line and the path of the innermost frame."""
    return next((k.slug for k in KINDS if k.matches(text, line, library)), OTHER)


def groups(evidence: Evidence) -> tuple[BreakGroup, ...]:
    """Every cause of breaks in this run, from all of its compile logs. Made once for a run."""
    known = evidence.memo.get("break groups")
    if known is None:
        found: dict[tuple[object, ...], BreakGroup] = {}
        for _, log in evidence.logs:
            for key, group in _of_log(evidence, log).items():
                found.setdefault(key, group)  # the diagnosis pass comes first and knows the costs
        known = evidence.memo["break groups"] = tuple(_merged(list(found.values())))
    return cast("tuple[BreakGroup, ...]", known)


def _merged(groups: list[BreakGroup]) -> list[BreakGroup]:
    """A function that is first met inside another, and then compiled on its own, tells the same break twice.

    Its own stack is the end of the longer one.
    """
    kept: list[BreakGroup] = []
    for group in sorted(groups, key=lambda g: -len(g.stack)):
        same = next((k for k in kept if k.slug == group.slug and _ends_with(k, group)), None)
        if same is None:
            kept.append(group)
        else:
            costs = [c for c in (same.cost_ms, group.cost_ms) if c is not None]
            kept[kept.index(same)] = replace(
                same,
                count=same.count + group.count,
                cost_ms=sum(costs) if costs else None,
                given_up=same.given_up and group.given_up,
                captured_nothing=same.captured_nothing and group.captured_nothing,
            )
    return kept


def _ends_with(longer: BreakGroup, shorter: BreakGroup) -> bool:
    ends = longer.stack[len(longer.stack) - len(shorter.stack) :]
    return bool(shorter.stack) and [(p.file, p.line) for p in ends] == [(p.file, p.line) for p in shorter.stack]


def _of_log(evidence: Evidence, log: CompileLog) -> dict[tuple[object, ...], BreakGroup]:
    captured = {g.compile_id for g in log.captured}
    members: dict[tuple[object, ...], list[GraphBreak]] = {}
    for entry in log.breaks:
        members.setdefault(_key(evidence, entry), []).append(entry)
    without = sum(any(b.compile_id not in captured for b in m) for m in members.values())
    return {
        key: BreakGroup(
            slug=str(key[0]),
            first=entries[0],
            stack=evidence.own(entries[0].stack),
            library=entries[0].stack[-1] if entries[0].stack else None,
            count=len(entries),
            cost_ms=_cost_ms(entries, captured, without),
            given_up=any(_GIVEN_UP.search(b.reason + b.explanation) for b in entries),
            captured_nothing=log.graphs == 0,
        )
        for key, entries in members.items()
    }


def _key(evidence: Evidence, entry: GraphBreak) -> tuple[object, ...]:
    own = evidence.own(entry.stack)
    where = own[-1] if own else None
    last = entry.stack[-1] if entry.stack else None
    text = f"{entry.reason}\n{entry.explanation}"
    slug = slug_of(text, evidence.sources.line(where), last.file if last is not None else "")
    if where is not None and slug in ("graph-break-item", "graph-break-branch") and _in_function(evidence, where):
        slug = "graph-break-autograd-function"
    return (slug, tuple((p.file, p.line) for p in own or entry.stack))


def _in_function(evidence: Evidence, where: Place) -> bool:
    """Whether the line is in the forward or backward of an ``autograd.Function``."""
    around = evidence.sources.class_at(where)
    return around is not None and any(base.rsplit(".", 1)[-1] == "Function" for base in around.bases)


def _cost_ms(entries: list[GraphBreak], captured: set[str | None], without: int) -> float | None:
    """The gaps after the graphs that these breaks ended; time outside any graph is shared among those without one."""
    known = [b for b in entries if b.outside_ns is not None]
    if not known:
        return None
    by_graph = {b.compile_id: b.outside_ns or 0 for b in known if b.compile_id in captured}
    rest = [b.outside_ns or 0 for b in known if b.compile_id not in captured]
    return (sum(by_graph.values()) + (max(rest) / max(1, without) if rest else 0)) / 1e6


Hints = tuple[str, ...]


def findings(
    evidence: Evidence,
    slug: str,
    why: str,
    hints: Hints,
    *,
    label: FindingLabel | None = None,
    severity: Severity | None = None,
    fix: Callable[[BreakGroup, str], str | None] | None = None,
    use_torchs_hints: bool = False,
) -> Iterator[Finding]:
    """A finding for each group of this kind.

    ``why``: the cause in plain words; torch's own reason is added. ``fix`` makes a replacement from the source line.
    """
    for group in groups(evidence):
        if group.slug != slug:
            continue
        line = evidence.sources.line(group.where)
        own = tuple(h for h in group.first.hints if use_torchs_hints and not _says_nothing(h))
        yield Finding(
            slug=slug,
            severity=severity or _severity(evidence, group),
            where=group.where or group.library,
            count=group.count,
            cost_ms=None if group.cost_ms is None else round(group.cost_ms, 4),
            why=_why(evidence, group, why),
            hints=(*hints, *own),
            label=label or ("user_code" if group.where is not None else "library"),
            fix=fix(group, line) if fix is not None and line else None,
        )


def _severity(evidence: Evidence, group: BreakGroup) -> Severity:
    if group.captured_nothing:
        return "error"
    share = evidence.share_of_step(group.cost_ms)
    return "info" if share is not None and share < NEGLIGIBLE and not group.given_up else "warning"


def _why(evidence: Evidence, group: BreakGroup, why: str) -> str:
    parts = [why]
    if group.captured_nothing:
        parts.append("Because of it nothing at all is compiled: the compiler gave the whole function up.")
    elif group.given_up:
        parts.append("The compiler could not go on after it and left the whole function to eager.")
    share = evidence.share_of_step(group.cost_ms)
    if group.cost_ms is not None and share is not None:
        parts.append(f"About {group.cost_ms:.3g} ms of a step ({100 * share:.1f}%) pass outside compiled code here.")
    if group.library is not None and group.where is not None and group.library != group.where:
        parts.append(f"It happens in {group.library.file}:{group.library.line}, called from this line.")
    parts.append(f"torch says: {_torchs_words(group.first)}")
    return " ".join(parts)


def _torchs_words(entry: GraphBreak) -> str:
    text = entry.explanation or entry.reason
    return text if len(text) <= 300 else text[:297] + "..."


def _says_nothing(hint: str) -> bool:
    """Hints that torch gives for every break, or that do harm (design, fact 21)."""
    return bool(
        re.search(r"report an issue|reorderable_logging|fundamental|It may be possible|compiled_autograd", hint)
    )

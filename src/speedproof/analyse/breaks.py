"""Graph breaks: one group for each cause, with what it costs; findings are made of groups.

A break is listed by the compiler each time it meets it: for each frame, again after a restart, again in each variant
of a frame. The user has one line to change, so breaks with the same cause and the same user stack are one group.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

from ..model import CompileLog, Finding, FindingLabel, GraphBreak, Place, Severity
from .evidence import Evidence

NEGLIGIBLE = 0.005  # of a step: a break that costs less needs no action where the rest is compiled
_GIVEN_UP = re.compile(
    r"Skipping (?:the )?(?:function|frame)|skipping the rest of the function|falling back to eager"
    r"|graph break in (?:a )?(?:for/while )?loop|active context manager",
    re.I,
)


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
    """What tells breaks of one kind; of the patterns that are given, each must match.

    ``text`` is sought in the reason and explanation (see ``plain``), ``line`` in the user's source line, ``library``
    in the paths of the frames below that line, and of the function that torch says it does not trace.
    """

    slug: str
    text: str | None = None
    line: str | None = None
    library: str | None = None

    def matches(self, text: str, line: str, library: str) -> bool:
        """Whether a break with this text, source line and library frames is one of the kind."""
        tests = ((self.text, text), (self.line, line), (self.library, library))
        return all(pattern is None or re.search(pattern, value, re.I | re.M) for pattern, value in tests)


_STANDARD = "|".join(sorted(sys.stdlib_module_names))
_SKIPPED = r"marked as skipped|marked that the function|inline in skipfiles|call_function .{0,40}in skip_files"
_NUMBER = r"_local_scalar_dense|Tensor\.item\b"  # torch's names for "a number was read"
_NUMPY_DRAW = r"random\w*|rand\w*|integers|choice|uniform|\w*normal|permut\w+|shuffle|beta|binomial|poisson|gamma|seed"
_DRAWS_LINE = r"\b(?:np|numpy)\.random\.|\brandom\.\w+\(|\brng\.\w+\("

# In the order in which they are tried: what is more telling comes first. Reasons are torch's fixed words (its registry
# of break types); what is called stands in the explanation, in backticks. Words that user names may hold are no test.
KINDS = (
    # Who breaks: wrappers and optimizers break by design, whatever torch says about the place.
    Kind("graph-break-distributed", library=r"/torch/(?:nn/parallel|distributed)/"),
    Kind("graph-break-distributed", r"distributed collectives|\bP2P|^FSDP|torch\.distributed package"),
    Kind("graph-break-distributed", r"of class `(?:Work|Reducer|ProcessGroup\w*)`|`DistributedDataParallel\."),
    Kind("graph-break-training-step", library=r"/torch/(?:optim/|(?:cuda/)?amp/grad_scaler|nn/utils/clip_grad)"),
    Kind("graph-break-training-step", r"Tensor\.backward\b|^backward\(\) with|optimizer: pending mutation"),
    Kind("graph-break-training-step", r"(?:`|: )(?:Optimizer|LRScheduler|\w+LR|GradScaler)\.\w+"),
    Kind("graph-break-training-step", r"`\w+\.(?:zero_grad|step)`", line=r"\.(?:zero_grad|step)\("),
    Kind("graph-break-training-step", r"the function `backward`", library=r"/torch/autograd/"),
    Kind(
        "graph-break-disabled", r"torch\.compiler\.disable|_dynamo\.(?:graph_break|skip_frame|step_unsupported|disable)"
    ),
    # Hooks, and layers that are never traced.
    Kind("graph-break-backward-hook", r"backwards? hooks? require"),
    Kind("graph-break-backward-hook", r"grad_fn", library=r"/torch/nn/modules/module\.py"),
    Kind("graph-break-hook-in-forward", r"RemovableHandle|hook handle|register_hook with|intermediate hooks require"),
    Kind("graph-break-hook-in-forward", library=r"/torch/utils/hooks\.py"),
    Kind("graph-break-rnn", r"RNN, GRU,? (?:or|and) LSTM|`pack\w*_sequence`|`pad_packed_sequence`|PackedSequence"),
    # What is called: output, copies, clocks, random numbers, numpy.
    Kind("graph-break-logging", r"logging\.Logger|Logger not supported|`_?warnings\.|warnings\.warn"),
    Kind("graph-break-logging", library=r"/logging/__init__\.py|/warnings\.py"),
    Kind("graph-break-logging", library=r"-packages/(?:wandb|tensorboardX?|mlflow|loguru|tqdm|rich|absl/logging)\b"),
    Kind("graph-break-print", r"operator `print`|builtin: print\b|reorder a debugging function"),
    Kind("graph-break-print", library=r"/pprint\.py"),
    Kind("graph-break-print", r"`(?:write|flush|writelines)` of class `\w*IO", line=r"std(?:out|err)"),
    Kind("graph-break-deepcopy", r"copy\.deepcopy|\bdeepcopy\b"),
    Kind("graph-break-deepcopy", library=r"/lib/python3\.\d+/copy\.py"),
    Kind("graph-break-time", r"(?:builtin|builtin:) `?time\.|`datetime\.|Unsupported event method"),
    Kind("graph-break-time", r"of class `\w+`", line=r"\bdatetime\.(?:utc)?now\(|\.(?:utc)?now\(\)"),
    Kind("graph-break-random", r"torch\.Generator|\brandom\.Random|Tensor\.(?:random_|uniform_)"),
    Kind("graph-break-random", r"`Random\.\w+`|RandomState\.|numpy\.random|default_rng"),
    Kind("graph-break-random", rf"`(?:{_NUMPY_DRAW})` of class `(?:Generator|RandomState|Random)`"),
    Kind("graph-break-random", r"`(?:manual_seed|seed|initial_seed|[gs]et_rng_state\w*)`"),
    Kind("graph-break-random", line=r"torch\.(?:\w+\.)*(?:manual_seed|initial_seed|seed|[gs]et_rng_state|fork_rng)\b"),
    Kind("graph-break-random", r"opaque object|to proxy", line=r"\bGenerator\(|\bgenerator\s*="),
    Kind("graph-break-random", rf"{_NUMBER}|numpy function|data-dependent branching", line=_DRAWS_LINE),
    Kind("graph-break-numpy", r"numpy|ndarray"),
    Kind("graph-break-numpy", rf"{_NUMBER}|python_type\(\) call", line=r"\bnp\.|\bnumpy\b|\.numpy\(\)"),
    # What is read off a tensor: its truth, its shape, its number.
    Kind("graph-break-branch", r"data-dependent (?:branching|assertion|jump)|Assertion failed on symbolic"),
    Kind("graph-break-branch", r"guard_scalar branch|dynamic control flow|generic_jump"),
    Kind("graph-break-branch", r"aten\.(?:allclose|equal|is_nonzero)\b"),
    Kind("graph-break-branch", _NUMBER, line=r"\bbool\("),
    Kind("graph-break-custom-op", r"no meta kernel"),
    Kind("graph-break-dynamic-shape", r"Dynamic shape operator|one_hot|Dynamic slicing|data-dependent output shape"),
    Kind("graph-break-dynamic-shape", r"unbacked SymInt|dynamic shape"),
    Kind("graph-break-item", rf"{_NUMBER}|Tensor\.tolist\b|Data[- ]dependent operator|repr\(\) on tensor"),
    Kind("graph-break-item", r"^unsupported index\(Tensor\)|^Indexing .* with non-scalar tensor"),
    # What autograd and the dispatcher cannot say at compile time.
    Kind("graph-break-autograd-function", r"autograd\.Function|AutogradFunction|custom [jv]vp|autograd_function"),
    Kind("graph-break-autograd-grad", r"autograd[._]grad|grad_fn|_ImperativeEngine|trace_autograd_ops"),
    Kind("graph-break-parameter-in-forward", r"torch\.nn\.Parameter|parameter construction|Uninitialized nn\.Module"),
    Kind("graph-break-requires-grad", r"requires_grad|retain_grad"),
    Kind("graph-break-nested-tensor", r"NestedTensor|nested_tensor"),
    Kind("graph-break-nested-tensor", r"fake tensors", line=r"\bnested"),
    Kind("graph-break-sparse", r"sparse Tensor|Tensor\.sparse_|\.sparse_\w+_tensor|sparse_grad|SparseTensor"),
    Kind("graph-break-custom-op", r"missing fake impl|does not support running with fake tensors|PT2-compliant"),
    Kind("graph-break-custom-op", r"resolve op packet|triton kernel|register_fake"),
    Kind("graph-break-shape-error", r"fake tensor call|running FX node|Fake tensor propagation|fake tensors"),
    Kind("graph-break-shape-error", r"^failed to broadcast|^Tensor device mismatch|^dtype mismatch"),
    Kind("graph-break-tensor-subclass", r"tensor subclass|as_subclass|subclass default constructor"),
    Kind("graph-break-tensor-subclass", r"__torch_function__|torch function mode"),
    Kind("graph-break-torchscript", r"TorchScript|torch\.jit\b|ScriptModule|ScriptFunction|`_CachedForward"),
    Kind("graph-break-torchscript", library=r"/torch/jit/"),
    Kind(
        "graph-break-storage", r"^Inplace op on input|inplace view on a graph input|Tensor\.(?:set|resize|resize_as)_\("
    ),
    Kind("graph-break-storage", r"share_memory_|tensor data attribute|Data pointer comparison|\bout=|UntypedStorage"),
    Kind("graph-break-storage", r"^(?:source-less )?COW tensor check|^Failed to set tensor attribute"),
    # What Python does.
    Kind("graph-break-context-manager", r"context manager|contextlib|ContextWrapping|WithExitFunction"),
    Kind(
        "graph-break-context-manager",
        r"escaped from compiled region|use_mem_pool|record_function|`\w+\.__(?:enter|exit)__`",
    ),
    Kind("graph-break-context-manager", _SKIPPED, line=r"^(?:async )?with\b"),
    Kind("graph-break-context-manager", r"returned non-Tensor|skipped function", line=r"\bnvtx\b"),
    Kind("graph-break-generator", r"^(?:infinite |call_method on |Attempt to trace )?generator|sub-generator"),
    Kind("graph-break-generator", r"itertools|Comprehension|next\(\) call|'__(?:next|iter)__' in C|`DataLoader\."),
    Kind("graph-break-generator", r"sourceless builder|python_type\(\) call", line=r"^for\b|\bfor .+ in\b|\bnext\("),
    Kind(
        "graph-break-exception", r"^(?:Observed |Failed to raise )?exception|^Caught non-Exception|on Exception object"
    ),
    Kind("graph-break-exception", r"Observed exception|passed to exception constructor|^assert with|traceback object"),
    Kind("graph-break-exception", r"Set Exception object|found no exception handler"),
    Kind("graph-break-output-type", r"reconstruct|dataclass|namedtuple|TypedDict|construct Enum|build_class"),
    Kind("graph-break-output-type", r"closure in output|side-effect tracking|object\.__new__|mapping proxy|weakref"),
    # A function in C that is no part of Python or torch came with a package.
    Kind("graph-break-skipped-function", rf"the builtin `(?:{_STANDARD}|builtins|torch)\b"),
    Kind("graph-break-custom-op", r"the builtin `[\w.]+|not implemented in python|C/C\+\+|C extension"),
    Kind("graph-break-skipped-function", _SKIPPED + r"|Unsupported (?:function|method) call|builtin operator `"),
    Kind(
        "graph-break-skipped-function",
        r"builtin: |call_method|Unsupported (?:hasattr|inspect) call|returned non-Tensor",
    ),
)
OTHER = "graph-break-other"
# Inside an autograd.Function these are one matter: it has to be traceable, forward and backward.
_OF_FUNCTION = frozenset(
    f"graph-break-{name}"
    for name in (
        "item",
        "branch",
        "numpy",
        "dynamic-shape",
        "autograd-grad",
        "requires-grad",
        "skipped-function",
        "other",
    )
)
_FILE = re.compile(r" ?(?:in file `|\| \w+ )([^`,\s]+\.py)`?")
_SAID_OF_ALL = re.compile(
    r"\(e\.g\.,? [^)]*\)|This function is either.*?pybind\)\.?|Attempted to graph break in an active context manager.*"
    r"|torch\.compile detected a graph break in a for/while loop.*|Skipping the f(?:rame|unction) and falling back.*"
    r"|, skipped according .*",
)


def plain(text: str) -> str:
    """Torch's text without what it says of breaks of any kind, and without paths, whose words tell nothing."""
    return _FILE.sub("", _SAID_OF_ALL.sub("", text))


def slug_of(text: str, line: str = "", library: str = "") -> str:
    """The kind of a break.

    ``text``: reason and explanation; ``line``: the user's source line; ``library``: the paths of the frames below it.
    """
    told = _FILE.findall(text)
    text, library = plain(text), "\n".join((library, *told))
    return next((k.slug for k in KINDS if k.matches(text, line, library)), OTHER)


def kind_of(entry: GraphBreak, line: str = "", library: str = "") -> str:
    """The same, with the hints for a second try: a reason may be lost behind a preamble."""
    slug = slug_of(f"{entry.reason}\n{entry.explanation}", line, library)
    return slug if slug != OTHER else slug_of("\n".join(h for h in entry.hints if not _says_nothing(h)), line, library)


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
    """One group for each line: there is one line to change, whoever calls it.

    A function that is first met inside another, and then compiled on its own, tells the same break twice; a helper
    that is called from three lines tells it three times.
    """
    kept: list[BreakGroup] = []
    for group in sorted(groups, key=lambda g: -len(g.stack)):
        same = next((k for k in kept if k.slug == group.slug and _same_line(k, group)), None)
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


def _same_line(one: BreakGroup, other: BreakGroup) -> bool:
    here, there = one.where, other.where
    return here is not None and there is not None and (here.file, here.line) == (there.file, there.line)


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
            library=_innermost(entries[0]),
            count=_count(entries),
            cost_ms=_cost_ms(entries, captured, without),
            given_up=any(_GIVEN_UP.search("\n".join((b.reason, b.explanation, *b.hints))) for b in entries),
            captured_nothing=log.graphs == 0,
        )
        for key, entries in members.items()
    }


def _count(entries: list[GraphBreak]) -> int:
    """The frames that broke here: torch may list a break of one frame again when it gives the frame up."""
    return len({b.compile_id for b in entries if b.compile_id is not None}) + sum(b.compile_id is None for b in entries)


def _innermost(entry: GraphBreak) -> Place | None:
    """The innermost frame that is not the compiler's own."""
    return next((p for p in reversed(entry.stack) if "/torch/_dynamo/" not in p.file), None)


def _below(evidence: Evidence, entry: GraphBreak) -> str:
    """The paths of the frames below the innermost one of the user's own."""
    files: list[str] = []
    for place in reversed(entry.stack):
        if evidence.is_user(place):
            break
        files.append(place.file)
    return "\n".join(files)


def _key(evidence: Evidence, entry: GraphBreak) -> tuple[object, ...]:
    own = evidence.own(entry.stack)
    where = own[-1] if own else None
    slug = kind_of(entry, evidence.sources.line(where), _below(evidence, entry))
    if where is not None and slug in _OF_FUNCTION and _in_function(evidence, where):
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
    only: Callable[[BreakGroup], bool] | None = None,
    use_torchs_hints: bool = False,
) -> Iterator[Finding]:
    """A finding for each group of this kind, or for those that ``only`` lets through.

    ``why``: the cause in plain words; torch's own reason is added. ``fix`` makes a replacement from the source line.
    """
    for group in groups(evidence):
        if group.slug != slug or (only is not None and not only(group)):
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
            label=label or _label(group),
            fix=fix(group, line) if fix is not None and line and group.library == group.where else None,
        )


def unless_compiling(evidence: Evidence, call: str) -> Callable[[BreakGroup, str], str | None]:
    """A fix for a line that is one call of a function that matches ``call``: made in eager runs only."""

    def fix(group: BreakGroup, line: str) -> str | None:
        text = evidence.sources.texts.get(group.where.file, "") if group.where is not None else ""
        alone = re.fullmatch(rf"{call}\([^()]*(?:\([^()]*\)[^()]*)*\)", line)
        imported = re.search(r"^\s*import torch\s*$", text, re.M)
        return f"if not torch.compiler.is_compiling(): {line}" if alone and imported else None

    return fix


def _label(group: BreakGroup) -> FindingLabel:
    """``library``: the user's line only calls the package that has to change."""
    file = group.library.file if group.library is not None else ""
    return "library" if group.where is None or re.search(r"-packages/(?!torch/)", file) else "user_code"


def _severity(evidence: Evidence, group: BreakGroup) -> Severity:
    if group.captured_nothing:
        return "error"
    share = evidence.share_of_step(group.cost_ms)
    return "info" if share is not None and share < NEGLIGIBLE and not group.given_up else "warning"


def _why(evidence: Evidence, group: BreakGroup, why: str) -> str:
    parts = [why]
    if group.captured_nothing:
        parts.append("Nothing at all is compiled: with this break the compiler gave the function up.")
    elif group.given_up:
        parts.append("The compiler cannot go on after it: the function stays in eager from here on, or as a whole.")
    share = evidence.share_of_step(group.cost_ms)
    if group.cost_ms is not None and share is not None:
        parts.append(f"About {group.cost_ms:.3g} ms of a step ({100 * share:.1f}%) pass outside compiled code here.")
    if group.library is not None and group.where is not None and group.library != group.where:
        parts.append(f"It happens in {group.library.file}:{group.library.line}, called from this line.")
    parts.append(f"torch says: {_torchs_words(group.first)}")
    return " ".join(parts)


def _torchs_words(entry: GraphBreak) -> str:
    text = " ".join(_SAID_OF_ALL.sub("", entry.explanation or entry.reason).split())
    return text if len(text) <= 300 else text[:297] + "..."


def _says_nothing(hint: str) -> bool:
    """Hints that torch gives for every break, or that do harm (design, fact 21)."""
    return bool(
        re.search(
            r"report an issue|file an issue|reorderable_logging|fundamental|It may be possible|compiled_autograd"
            r"|caused by an earlier graph break|Dynamo bug",
            hint,
            re.I,
        )
    )

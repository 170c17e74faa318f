"""A backend that compiles nothing: it looks at each graph that Dynamo captured, and runs it as it is.

So everything that Dynamo does to a script (breaks, recompiles, frozen values) shows at the price of tracing alone.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..model import CapturedGraph, Place
from . import compat
from .places import is_user_file
from .sightings import Sightings

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_CALLS = ("call_function", "call_method", "call_module")
_MOST_LINES = 30


@dataclass
class Run:
    """One execution of a graph."""

    compile_id: str | None
    begun_ns: int
    ended_ns: int
    operations: int


@dataclass
class GraphWatcher:
    """What the backend saw: graphs as they were captured, and their runs since ``runs`` was last cleared."""

    sightings: Sightings
    captured: list[CapturedGraph] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    def backend(self, graph: Any, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        """What ``torch.compile(backend=...)`` takes."""
        entry = compat.compile_id()
        lines, operations = self._read(graph)
        top = dict(Counter(lines).most_common(_MOST_LINES))
        self.captured.append(CapturedGraph(None, operations, entry, {}, top))
        forward, runs = graph.forward, self.runs

        def run(*args: Any) -> Any:
            begun = time.perf_counter_ns()
            try:
                return forward(*args)
            finally:
                runs.append(Run(entry, begun, time.perf_counter_ns(), operations))

        return run

    def _read(self, graph: Any) -> tuple[dict[str, int], int]:
        lines: Counter[str] = Counter()
        operations = 0
        # bodies of checkpoints and loops are graphs of their own inside
        inner = [m.graph for m in graph.modules() if isinstance(m, torch.fx.GraphModule)]
        for node in itertools.chain.from_iterable(g.nodes for g in inner):
            if node.op not in _CALLS:
                continue
            operations += 1
            place = _place_of(node)
            if place is not None:
                lines[f"{place.file}:{place.line}"] += 1
            value = node.meta.get("example_value")
            if _fixes_sizes(node):
                self.sightings.see("specialises", place, op=str(getattr(node.target, "__name__", node.target)))
            if isinstance(value, torch.Tensor) and value.is_complex():
                self.sightings.see("complex_op", place, op=str(getattr(node.target, "__name__", node.target)))
        return lines, operations


def overlapping(tensors: Sequence[tuple[str, torch.Tensor]]) -> tuple[str, str] | None:
    """The names of two arguments that share memory though they are not the same view; ``None`` if none do."""
    spans = []
    for name, tensor in tensors:
        if tensor.layout != torch.strided or tensor.numel() == 0 or tensor.is_meta:
            continue
        try:
            base = tensor.untyped_storage().data_ptr()
        except (RuntimeError, NotImplementedError):  # a wrapper without memory of its own
            continue
        first = tensor.storage_offset() * tensor.element_size()
        reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) + 1
        spans.append((base, first, first + reach * tensor.element_size(), name))
    spans.sort()
    for one, other in itertools.pairwise(spans):
        if one[0] == other[0] and other[1] < one[2] and one[1:3] != other[1:3]:
            return one[3], other[3]
    return None


# Operators that Inductor generates for one input size, unless they pool to a single value (design, fact 22).
_SIZED = ("adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool2d", "adaptive_max_pool3d")


def _fixes_sizes(node: Any) -> bool:
    """Whether the code generator will need to know a size that Dynamo left open."""
    name = str(getattr(node.target, "__name__", node.target))
    if name not in _SIZED or not node.args:
        return False
    value = getattr(node.args[0], "meta", {}).get("example_value")
    open_sizes = isinstance(value, torch.Tensor) and any(not isinstance(n, int) for n in value.shape[-2:])
    size = node.args[1] if len(node.args) > 1 else node.kwargs.get("output_size")
    return open_sizes and any(n not in (1, None) for n in (size if isinstance(size, (list, tuple)) else (size,)))


def _place_of(node: Any) -> Place | None:
    """The innermost line of the user's own code that a node comes from; a library's where there is no other."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or node.stack_trace or "")
    own = [f for f in frames if is_user_file(f[0])] or frames
    return Place(own[-1][0], int(own[-1][1]), own[-1][2]) if own else None

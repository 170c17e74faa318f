"""A Python loop is unrolled into one long graph

The compiler follows a Python loop round by round and copies its body into the graph each time. A solver with 60
steps becomes a
graph of 60 bodies.

## What it means

Compile time grows with the number of rounds, not with the size of the model: seconds become minutes. On a CPU the
many small
kernels also make the run time erratic.

## How it is found

The operations of each captured graph are counted by the source line they come from. A line inside a loop that
accounts for many
of them is an unrolled loop.

## What to do

- Compile the body, not the loop: `self.f.compile()` and an eager loop around it.
- Or write the loop as an operator: `torch._higher_order_ops.scan` and `while_loop`, where they fit.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import CapturedGraph, Finding, Place
from ..evidence import Evidence
from ..origin import loop_around

SLUG = "unrolled-loop"
OPERATIONS = 100
ROUNDS = 16
HINTS = (
    "compile the body instead of the loop: .compile() on the module that is called in it, with the loop left in eager",
    "or fewer rounds in one compiled call",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each loop whose body fills a graph."""
    observed = evidence.ledger.observed
    found: dict[Place, Finding] = {}
    for graph in observed.log.captured if observed is not None else ():
        for loop, operations, lines in _loops(evidence, graph):
            rounds = operations / max(1, lines)
            if operations >= OPERATIONS and rounds >= ROUNDS and loop not in found:
                why = (
                    f"The loop is unrolled: {operations} of the {graph.ops} operations of this graph come from "
                    f"{lines} line{'s' if lines != 1 else ''} in its body."
                )
                found[loop] = Finding(SLUG, "warning", loop, operations, None, why, HINTS, "user_code")
    yield from found.values()


def _loops(evidence: Evidence, graph: CapturedGraph) -> Iterator[tuple[Place, int, int]]:
    """Loops in the user's source, with the operations and the lines of their bodies."""
    by_loop: dict[Place, list[int]] = {}
    for key, operations in graph.lines.items():
        file, _, line = key.rpartition(":")
        place = Place(file, int(line))
        node = loop_around(evidence.sources, place) if evidence.is_user(place) else None
        if node is not None and not _over_modules(node):
            function = evidence.sources.function_at(place)
            loop = Place(file, node.lineno, function.name if function is not None else None)
            by_loop.setdefault(loop, []).append(operations)
    return ((loop, sum(counts), len(counts)) for loop, counts in by_loop.items())


def _over_modules(node: ast.For | ast.While) -> bool:
    """A loop over layers calls another layer in each round: that is the network itself."""
    if isinstance(node, ast.While):
        return False
    target = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in target for n in ast.walk(node))

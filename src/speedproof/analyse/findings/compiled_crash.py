"""Compiled, the script fails where eager does not

The same call, or the backward pass behind it, raises under torch.compile only.

## What it means

The variant cannot be used as things are. Causes that are often met: numpy inside forward (arrays where eager had
numbers),
`retain_graph=True` after a backward that was compiled without it (donated buffers), double backward, operations
without a
compiled form.

## How it is found

A compiled call that raises is repeated in eager in the same step; a crash of the script with a variant switched in
counts as
the variant's only after an eager session has passed that step.

## What to do

- Look at the line and the message; the hints name the usual cause.
- `torch.compiler.disable` on the function that fails keeps the rest compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding, Place
from ..evidence import Evidence

SLUG = "compiled-crash"
KNOWN = (
    (r"donated buffers", "set torch._functorch.config.donated_buffer = False before compiling: retain_graph is used"),
    (r"double backward", "aot_autograd has no double backward: leave the network of the gradient penalty in eager"),
    (r"numpy|0-dimensional arrays|ndarray", "replace numpy inside forward, e.g. np.percentile by torch.quantile"),
    (r"expected size .*stride", "views that share memory met a cached graph: set TORCHINDUCTOR_AUTOGRAD_CACHE=0"),
    (r"out of memory", "a smaller batch, or a mode without CUDA graphs"),
    (r"C\+\+ compiler|g\+\+|CppCompileError", "install a C++ compiler; speedproof doctor says more"),
)
LAST = "put torch.compiler.disable on the function around this line: the rest stays compiled"


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each place where compiled code failed."""
    found: dict[tuple[str, int], Finding] = {}
    for where, error, count in _crashes(evidence):
        key = (where.file, where.line) if where is not None else ("", 0)
        hints = tuple(hint for pattern, hint in KNOWN if re.search(pattern, error))
        why = f"Compiled, this fails: {error.strip().splitlines()[0][:300]} In eager it does not."
        found.setdefault(key, Finding(SLUG, "error", where, count, None, why, (*hints, LAST), "compiler"))
    yield from found.values() or _to_come(evidence)


def _to_come(evidence: Evidence) -> Iterator[Finding]:
    """Backward passes that keep their graph, after others: Inductor's backward has given its buffers away by then."""
    if any(v.outcome == "completed" and v.graphs for v in evidence.variants):
        return
    for seen in evidence.sighted("kept_backward"):
        why = (
            f"A backward pass with retain_graph or create_graph reaches {seen.detail.get('name', 'a compiled call')} "
            "here, after others without. Compiled by Inductor, the backward owns its buffers by then (donated buffers) "
            "and refuses: RuntimeError. Seen in the diagnosis pass; no variant got as far."
        )
        yield Finding(SLUG, "error", seen.where, seen.count, None, why, (KNOWN[0][1], LAST), "compiler")


def _crashes(evidence: Evidence) -> Iterator[tuple[Place | None, str, int]]:
    for seen in evidence.sighted("compiled_crash"):
        yield seen.where, seen.detail.get("error", ""), seen.count
    crashed = {v.id for v in evidence.variants if v.outcome in ("crashed", "out_of_memory")}
    for ending in evidence.ledger.endings:
        if ending.code and ending.arm in crashed and "_orig_mod." not in ending.message:
            yield ending.where, f"{ending.error}: {ending.message}", 1
    for arm in crashed:
        record = evidence.ledger.arms.get(arm)
        if record is not None and record.where is not None:
            yield record.where, record.why, 1

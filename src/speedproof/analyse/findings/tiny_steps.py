"""The steps are so small that Python takes most of the time

Compiled or not, most of a step passes while no kernel is at work: in Python, in the dispatch of operators, in guards
and wrappers. Kernels that are fused better cannot win back what is not spent in kernels.

## What it means

Every operator costs some microseconds of host time before it does any work, and so do the loop, the optimizer and
`zero_grad`. A compiled graph replaces many operators by few, but each call of it checks guards and goes through the
wrappers of autograd, which takes tens of microseconds. For a small network on a small batch that is all there is.

## How it is found

After the pairs of timed blocks, a few steps run in torch's profiler. What no kernel explains, less the waiting for
data that was measured before, is more than half of the compiled step, and the variant is no faster than the threshold
asks. The profiler itself adds to the host's time in small steps, so the share is an upper bound. Without
a profiler pass, eager steps below one millisecond are taken for a sign where compiling does not help.

## What to do

- Give each step more work: a larger batch, or several environments (or models, with `torch.func.vmap`) at once.
- On an accelerator, `mode="reduce-overhead"` records the step as a CUDA graph and launches it as one.
- Use a fused optimizer (`fused=True`), or `foreach=True` where the parameters are many and small.
- Keep metrics and logging out of the step, or do them every n-th one.
- Otherwise leave it eager: there is little to gain, and compiling costs time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model import Finding, KernelTable, Variant
from ..evidence import Evidence
from ..kernels import network_place, table_of

SLUG = "tiny-steps"
MOST_HOST = 0.5  # of the compiled step
TINY_MS = 1.0
BATCH = "give each step more work: a larger batch, or several environments at once"
GRAPHS = 'on this device try mode="reduce-overhead": a CUDA graph launches the step as one'
LEAVE = "otherwise leave it eager: there is little to gain here"


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding at most, for the profiled variant, or for the loop as a whole where none was profiled."""
    tried = [v for v in evidence.variants if v.kind == "compile" and v.speedup is not None]
    if not tried or any(_gains(evidence, v) for v in tried):
        return
    table = table_of(evidence.ledger.kernels)
    if table is not None:
        yield from _by_kernels(evidence, table, tried)
    elif evidence.step_ms is not None and evidence.step_ms < TINY_MS and _data_share(evidence) < MOST_HOST:
        yield _finding(
            evidence,
            f"An eager step takes {evidence.step_ms:.2f} ms. At that size the time is that of Python and of "
            "dispatching operators, and a compiled call pays for guards and wrappers instead: nothing was gained.",
            None,
        )


def _by_kernels(evidence: Evidence, table: KernelTable, tried: Sequence[Variant]) -> Iterator[Finding]:
    profiled = next((v for v in tried if v.id == table.arm), None)
    if profiled is None or profiled.speedup is None or table.compiled_step_ms <= 0:
        return
    waiting = _data_share(evidence) * (evidence.step_ms or 0.0)
    host = max(0.0, table.compiled_gap_ms - waiting)
    share = host / table.compiled_step_ms
    if share <= MOST_HOST:
        return
    step_ms = evidence.step_ms / profiled.speedup.ratio if evidence.step_ms is not None else None
    yield _finding(
        evidence,
        f"In the profiler a compiled step takes {table.compiled_step_ms:.2f} ms, and for {host:.2f} ms of it "
        f"({100 * share:.0f}%) no kernel is at work: Python, guards, wrappers and dispatch. {table.arm} runs at "
        f"{profiled.speedup.ratio:.2f}x the speed of eager, since it can only shorten the rest.",
        share * step_ms if step_ms is not None else None,
    )


def _finding(evidence: Evidence, why: str, cost_ms: float | None) -> Finding:
    device = evidence.anatomy.device if evidence.anatomy is not None else "cpu"
    hints = (BATCH, GRAPHS, LEAVE) if device == "cuda" else (BATCH, LEAVE)
    return Finding(SLUG, "warning", network_place(evidence), None, cost_ms, why, hints, "compiler")


def _gains(evidence: Evidence, variant: Variant) -> bool:
    return variant.speedup is not None and variant.speedup.ratio >= 1 + evidence.meta.threshold


def _data_share(evidence: Evidence) -> float:
    """The share of an eager step in which the loop waits for data or moves it."""
    phases = evidence.baseline.phases or {}
    return phases.get("data", 0.0) + phases.get("transfer", 0.0)

"""The compiled step is slower, and these kernels are why

A variant of torch.compile is measurably slower than eager on this script. A profiler pass over some steps of each
side says in which kind of kernel the time went.

## What it means

The compiler does not make every operator faster. On a CPU, convolutions and matrix products are the same library
calls as in eager mode, or get other memory layouts that suit them less; the code that it generates for the rest has
fewer threads or shorter vectors than the hand-written kernels where the C++ compiler is not set up well. On an
accelerator, a library's kernel may be replaced by a generated one that this shape does not suit. And each compiled
call costs guards and wrappers on the host, which a small step notices.

## How it is found

After the pairs of timed blocks, a few steps of each side run in torch's profiler. Its events are summed by kind of
kernel; what no kernel explains is the host's part. The profiler makes steps slower, small ones most: that there is a
loss is proven by the timed blocks, and only its place is taken from the profiler. Where the compiled kernels have no
events of their own (code for the CPU), they are compared as one with all that they may have come from.

## What to do

- Leave this model eager, or compile only the parts that gain: `model.encoder.compile()`.
- Convolutions that grew: try `model.to(memory_format=torch.channels_last)`, in eager mode too.
- Products that grew: `mode="max-autotune-no-cudagraphs"` lets the compiler choose among kernels for these shapes.
- Generated code that grew: `speedproof doctor` says whether the C++ compiler, OpenMP and the vector instructions that
  it needs are there.
- More time in which no kernel is at work: see `tiny-steps`, and look for graph breaks.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, KernelTable, Ratio
from ..evidence import Evidence
from ..kernels import FUSED, HOST, grown, network_place, table_of

SLUG = "slower-kernels"
SEVERE = 0.05  # of the step lost
SHOWN = 3
LEAVE = "leave this eager, or compile only the parts that gain"
HINTS = {
    "convolution": "try model.to(memory_format=torch.channels_last), in eager mode too",
    "matmul": 'try mode="max-autotune-no-cudagraphs": it chooses among kernels for these shapes',
    HOST: "guards, wrappers and graph breaks take this time: give each call more work, or mend the breaks",
    FUSED: "`speedproof doctor` says whether generated code has the compiler and vector instructions it needs",
}


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding, for the profiled variant, where it is slower and the table says by what."""
    table = table_of(evidence.ledger.kernels)
    speedup = next((v.speedup for v in evidence.variants if table is not None and v.id == table.arm), None)
    if table is None or speedup is None or speedup.high is None or speedup.high >= 1:
        return
    parts = grown(table)
    if not parts or table.compiled_step_ms <= table.eager_step_ms:
        return  # the profiler has not seen the loss, so it cannot say where it is
    lost = 1 / speedup.ratio - 1
    yield Finding(
        slug=SLUG,
        severity="warning" if lost > SEVERE else "info",
        where=network_place(evidence),
        count=None,
        cost_ms=lost * evidence.step_ms if evidence.step_ms is not None else None,
        why=_why(table, speedup, parts),
        hints=tuple(dict.fromkeys([HINTS[p] for p, _, _ in parts[:SHOWN] if p in HINTS] + [LEAVE])),
        label="compiler",
    )


def _why(table: KernelTable, speedup: Ratio, parts: list[tuple[str, float, float]]) -> str:
    named = "; ".join(f"{part} {eager:.2f} -> {compiled:.2f} ms" for part, eager, compiled in parts[:SHOWN])
    return (
        f"{table.arm} runs at {speedup.ratio:.2f}x the speed of eager. In the profiler a step takes "
        f"{table.compiled_step_ms:.2f} ms instead of {table.eager_step_ms:.2f} ms; what grew: {named}."
    )

"""Complex numbers are not compiled

FFT results and complex arithmetic run through the plain operators of torch: the code generator has no complex type.

## What it means

Nothing is fused across these operations; each stays a call of its own. The result is right. Whether the rest still
gains is a
matter of measuring.

## How it is found

The operations of the captured graphs are looked through for complex results.

## What to do

- Nothing, if the measured ratio is good.
- Write the product on real and imaginary parts (`torch.view_as_real`), so that it can be fused.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Place, Sighted
from ..evidence import Evidence

SLUG = "complex-numbers"
HINTS = (
    "nothing, if the variant is faster as measured",
    "write products on real and imaginary parts (torch.view_as_real), so that they can be fused",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line with complex operations."""
    lines: dict[Place, list[Sighted]] = {}
    for seen in evidence.sighted("complex_op"):
        if seen.where is not None:
            lines.setdefault(seen.where, []).append(seen)
    for where, seen_there in lines.items():
        names = ", ".join(sorted({s.detail.get("op", "?") for s in seen_there}))
        count = sum(s.count for s in seen_there)
        why = f"{count} operations on complex numbers ({names}) run as plain torch operators: they are not fused."
        yield Finding(SLUG, "info", where, count, None, why, HINTS, "compiler")

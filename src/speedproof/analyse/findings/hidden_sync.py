"""The host waits for a tensor

`.item()`, `.cpu()`, `print(loss)`, `if tensor:`, `nonzero` and boolean indexing need the value of a tensor. On an
accelerator the
host stops until the device has caught up, and the queue behind it runs dry.

## What it means

On an accelerator each of them costs the time that the device needs to finish, in every step. On a CPU there is
nothing to wait
for: they are listed, and free.

## How it is found

Reads of tensors are counted and timed, by line, in a few eager steps. What optimizers read of their own step
counters is left
out.

## What to do

- Log every n-th step, and read the loss one step later.
- Keep running sums on the device (`total += loss.detach()`), and read them once an epoch.
- `torch.where` instead of boolean indexing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Place, Severity, Sighted
from ..evidence import Evidence

SLUG = "hidden-sync"
SHARE = 0.01
HINTS = (
    "read it every n-th step, or once an epoch from a running sum on the device",
    "use torch.where or masks instead of boolean indexing and nonzero",
)
FREE = ("nothing on a CPU; on an accelerator the host would wait here in every step",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that reads a tensor."""
    lines: dict[Place, list[Sighted]] = {}
    for seen in evidence.sighted("sync"):
        if seen.where is not None and not seen.detail.get("via", "").startswith("torch.optim"):
            lines.setdefault(seen.where, []).append(seen)
    for where, reads in lines.items():
        yield _finding(evidence, where, reads)


def _finding(evidence: Evidence, where: Place, reads: list[Sighted]) -> Finding:
    steps = max(1, max(s.steps or 1 for s in reads))
    waits = any(s.detail.get("device") not in ("cpu", None) for s in reads)
    count, ms = sum(s.count for s in reads), sum(s.ns or 0 for s in reads) / steps / 1e6
    calls = ", ".join(sorted({s.detail.get("call", "?") for s in reads}))
    share = evidence.share_of_step(ms)
    if not waits:
        why = f"{calls}: {count / steps:.3g} reads a step. The tensors are on the CPU, so nothing waits here."
        return Finding(SLUG, "info", where, count, 0.0, why, FREE, "benign")
    severity: Severity = "warning" if share is None or share >= SHARE else "info"
    why = f"{calls}: {count / steps:.3g} reads a step, in which the host waits {ms:.3g} ms for the device."
    return Finding(SLUG, severity, where, count, round(ms, 4), why, HINTS, "user_code")

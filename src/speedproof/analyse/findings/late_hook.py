"""A hook is registered after the first compiled call, and never fires

Compiled code contains the hooks that were there when it was compiled. By default torch does not guard on them
(`skip_nnmodule_hook_guards = True`), so a hook that comes later is not noticed.

## What it means

Feature banks stay empty, statistics are never collected, distillation losses are zero. There is no error.

## How it is found

The diagnosis pass sees every registration, and knows whether the module is inside of something that has run
compiled. A
recompile after it would have taken the hook in; there was none.

## What to do

- Register hooks before the first call of the compiled model.
- Or set `torch._dynamo.config.skip_nnmodule_hook_guards = False` before compiling, at the price of more guards.
- Or return the features from forward.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import recompiles
from ..evidence import Evidence

SLUG = "late-hook"
HINTS = (
    "register the hook before the first call of the compiled model",
    "or set torch._dynamo.config.skip_nnmodule_hook_guards = False before compiling",
    "or return what the hook collects from forward",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that registers a hook too late."""
    if any(g.cause.kind == "hooks" for g in recompiles.groups(evidence)):
        return
    observed = evidence.ledger.observed
    for seen in evidence.sighted("hook"):
        if seen.detail.get("late") == "yes" and observed is not None and observed.log.graphs:
            kind, module = seen.detail.get("kind", "register_hook"), seen.detail.get("module", "module")
            why = (
                f"{kind} on a {module} inside a model that has run compiled already: the compiled code does not have "
                "the hook and is not made anew, so it never fires. In eager it does."
            )
            yield Finding(SLUG, "error", seen.where, seen.count, None, why, HINTS, "user_code")

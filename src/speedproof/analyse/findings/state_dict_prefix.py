"""Names with `_orig_mod.` meet names without

`model = torch.compile(model)` wraps the module, and every name that comes from the wrapper (state_dict,
named_parameters,
named_modules) begins with `_orig_mod.`. Code that compares names with those of the plain model finds nothing, or
refuses to
load.

## What it means

A checkpoint saved from the wrapper does not load into the plain model. Worse, an EMA or a freeze list that looks
parameters up
by name silently does nothing at all.

## How it is found

In the diagnosis pass the names of the wrapper notice lookups that find nothing, and `load_state_dict` is compared
with what it is
given.

## What to do

- `model.compile()` instead of `model = torch.compile(model)`: it compiles in place, and names stay as they are.
- Or save `model._orig_mod.state_dict()`, and update the EMA from `model._orig_mod`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Severity
from ..evidence import Evidence

SLUG = "state-dict-prefix"
HINTS = (
    "use model.compile() instead of model = torch.compile(model): names and checkpoints stay as they are",
    "or use model._orig_mod wherever names matter",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line at which the two kinds of names meet."""
    loaded = any("keys into" in s.detail.get("how", "") for s in evidence.sighted("prefixed"))
    for seen in evidence.sighted("prefixed"):
        how = seen.detail.get("how", "")
        if seen.count <= 0:
            continue
        if how == "state_dict of the wrapper":
            why = "The checkpoint taken here has names that begin with _orig_mod.: the plain model will not load it."
            severity: Severity = "info" if loaded else "warning"
            yield Finding(SLUG, severity, seen.where, seen.count, None, why, HINTS, "user_code")
        elif "found nothing" in how:
            why = (
                f"Parameters are looked up by the names of the compiled wrapper: {seen.count} times nothing was found."
            )
            yield Finding(SLUG, "error", seen.where, seen.count, None, why, HINTS, "user_code")
        else:
            why = f"load_state_dict gets {how}: the names do not fit."
            yield Finding(SLUG, "error", seen.where, seen.count, None, why, HINTS, "user_code")

"""A compiler option that this torch does not have

Advice goes stale. Options are renamed, become the default, or never existed. Setting one that does not exist raises
an error; a
deprecated one may do nothing.

## What it means

The line fails, or has no effect.

## How it is found

The compiler options that your code names are looked up in the installed torch: `torch._dynamo.config`,
`torch._inductor.config`, `torch._functorch.config`, and the modes and options of `torch.compile`.

## What to do

- Remove the line, or use the name that torch gives.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from ..evidence import Evidence

SLUG = "unknown-setting"


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each option that is unknown, renamed or deprecated."""
    for seen in evidence.sighted("setting"):
        name, note = seen.detail.get("name", "?"), seen.detail.get("note", "")
        version = evidence.ledger.facts.get("torch", "this torch")
        if seen.detail.get("known") == "no":
            why = f"torch {version} has no {name}: a myth, or gone." + (f" ({note})" if note else "")
            yield Finding(SLUG, "warning", seen.where, seen.count, None, why, ("remove the line",), "user_code")
        elif note:
            hint = f"use {note.removeprefix('renamed to ')}" if note.startswith("renamed") else "see torch's note"
            yield Finding(SLUG, "info", seen.where, seen.count, None, f"{name}: {note}.", (hint,), "user_code")

"""The device or the compiler is the limit

Triton, which generates code for GPUs, needs compute capability 7.0 or newer. On a CPU, generated code needs a C++
compiler. A card
that other processes use, or whose clocks are held down, measures their load.

## What it means

Without Triton or a compiler nothing can be compiled at all; on a shared or throttled card every figure is of that
moment.

## How it is found

Facts about the device that the run records at its start.

## What to do

- `speedproof doctor` checks the whole stack, with a reference model.
- Install `g++` (or `clang++`), or set `CXX`.
- Wait until the card is free.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding, Severity
from ..evidence import Evidence

SLUGS = ("device-too-old", "no-cxx-compiler", "device-shared", "device-throttled")
DOCTOR = "speedproof doctor checks the whole stack"


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each limit of this machine."""
    facts = evidence.ledger.facts
    capability = facts.get("capability", "")
    if re.fullmatch(r"\d+\.\d+", capability) and float(capability) < 7.0:
        why = f"The device has compute capability {capability}; Inductor's code generator needs 7.0 or newer."
        yield _finding("device-too-old", "error", why, "stay in eager, or use a newer card")
    if facts.get("cxx") == "none" and evidence.anatomy is not None and evidence.anatomy.device == "cpu":
        why = "There is no C++ compiler on this machine, and Inductor needs one to generate code for the CPU."
        yield _finding("no-cxx-compiler", "error", why, "install g++, or set CXX to a compiler")
    others = facts.get("device_processes", "")
    if others.isdigit() and int(others) > 0:
        why = f"{others} other processes use this card: what is measured here depends on what they do."
        yield _finding("device-shared", "warning", why, "measure on a free card")
    throttled = facts.get("device_throttled", "")
    if throttled:
        why = f"The card's clocks are held down ({throttled})."
        yield _finding("device-throttled", "warning", why, "see to cooling or the power limit, then measure again")


def _finding(slug: str, severity: Severity, why: str, hint: str) -> Finding:
    return Finding(slug, severity, None, 1, None, why, (hint, DOCTOR), "library")

"""Evaluation runs with gradients on, or in training mode

An evaluation without `torch.no_grad()` builds a graph that nobody uses: memory, time, and for compiled code a
second program with
a backward that is never called. Without `model.eval()`, dropout stays on and BatchNorm keeps learning from
validation data.

## What it means

`eval-with-gradients`: slower evaluation with more memory. `eval-in-training-mode`: wrong metrics, and statistics
that move.

## How it is found

In the diagnosis pass each line that calls a compiled network is followed: is gradient mode on, is the module in
training mode, and
does a backward pass ever follow? Training mode counts only where the network has layers that differ by it.

## What to do

- `model.eval()` and `with torch.no_grad():` (or `inference_mode`) around evaluation, `model.train()` after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from ..evidence import Evidence

SLUGS = ("eval-with-gradients", "eval-in-training-mode")
CALLS = 2
GRADIENTS = ("put the evaluation under with torch.no_grad(): or torch.inference_mode()",)
TRAINING = ("call model.eval() before the evaluation, and model.train() after it",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that evaluates in the wrong mode."""
    sites = {(s.where, s.detail.get("grad"), s.detail.get("training")): s for s in evidence.sighted("call_site")}
    trains = any(s.detail.get("trained") == "yes" and s.detail.get("grad") == "yes" for s in sites.values())
    for seen in sites.values():
        detail = seen.detail
        if seen.count < CALLS or not trains:
            continue
        if detail.get("grad") == "yes" and detail.get("trained") == "no":
            why = f"{detail.get('name')} is called {seen.count} times with gradients on, and no backward pass follows."
            yield Finding(SLUGS[0], "warning", seen.where, seen.count, None, why, GRADIENTS, "user_code")
        evaluates = detail.get("grad") == "no" or detail.get("trained") == "no"
        if evaluates and detail.get("training") == "yes" and detail.get("mode_matters") == "yes":
            why = (
                f"{detail.get('name')} is evaluated in training mode here: its dropout is on, or its BatchNorm takes "
                "statistics from these batches."
            )
            yield Finding(SLUGS[1], "warning", seen.where, seen.count, None, why, TRAINING, "user_code")

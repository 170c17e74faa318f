"""Events and meta data in, the verdict file out. Reports are made from this, at any time and anywhere."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import Exit
from ..model import SCHEMA_VERSION, Event, Result, RunMeta, ScriptEnded, Variant, Verdict
from .evidence import Evidence
from .findings import find_all
from .kernels import table_of
from .ledger import Ledger, fold
from .result import baseline_of, ceiling_of, noise_of, variants_of
from .source import Sources
from .verdict import Case, failed, judge, with_findings


def conclude(
    meta: RunMeta,
    events: Iterable[Event],
    elapsed_s: float,
    interrupted: bool = False,
    verdict: Verdict | None = None,
    sources: Sources | None = None,
) -> Result:
    """The result of a run. ``verdict`` replaces the judgement where the engine knows better (script fails)."""
    return of_ledger(meta, fold(events), elapsed_s, interrupted, verdict, sources)


def of_ledger(
    meta: RunMeta,
    ledger: Ledger,
    elapsed_s: float,
    interrupted: bool = False,
    verdict: Verdict | None = None,
    sources: Sources | None = None,
) -> Result:
    """The verdict file for what the ledger holds; a ``verdict`` that is given stands, else the case is decided."""
    baseline = baseline_of(ledger)
    ceiling, noise = ceiling_of(baseline.phases), noise_of(ledger)
    variants = variants_of(ledger, meta.arms, baseline)
    findings = find_all(Evidence(meta, ledger, baseline, variants, sources or Sources()))
    case = Case(
        variants=variants,
        baseline=baseline,
        ceiling=ceiling,
        noise=noise,
        threshold=meta.threshold,
        planned_steps=meta.planned_steps,
        seen_steps=ledger.script_steps,
        interrupted=interrupted,
        budget_s=meta.budget_s,
    )
    decided = verdict or (None if interrupted else _no_steps(ledger)) or _fails_early(ledger, variants) or judge(case)
    decided = with_findings(decided, findings)
    return Result(
        schema_version=SCHEMA_VERSION,
        verdict=decided,
        baseline=baseline,
        ceiling=ceiling,
        noise=noise,
        variants=variants,
        findings=findings,
        claims=(),
        environment={**ledger.facts, **meta.environment},
        command=meta.command.words(),
        started=meta.started,
        elapsed_s=elapsed_s,
        anatomy=ledger.anatomy,
        files=tuple(ledger.files),
        failure=_failure(ledger, decided),
        exit_code=exit_code(decided, interrupted),
        planned_steps=meta.planned_steps if meta.planned_steps is not None else ledger.script_steps,
        sessions=ledger.sessions,
        kernels=table_of(ledger.kernels, decided.best),
    )


def exit_code(verdict: Verdict, interrupted: bool = False) -> int:
    """The exit code of the contract."""
    if interrupted:
        return Exit.INTERRUPTED
    if "no_steps" in verdict.reasons:
        return Exit.NO_STEPS
    if "speedproof_fails" in verdict.reasons:
        return Exit.INTERNAL
    return {"failed": Exit.SCRIPT_FAILED, "inconclusive": Exit.INCONCLUSIVE}.get(verdict.kind, Exit.VERDICT)


def _no_steps(ledger: Ledger) -> Verdict | None:
    if ledger.anatomy is not None:
        return None
    ended = ledger.endings[-1] if ledger.endings else None
    if ended is not None and ended.code:
        return failed(ended, "", "run it without speedproof and mend it first")
    seen = "the script ended" if ended is not None else "the budget for looking was used up"
    torch = "" if ledger.facts else "; torch was never imported"
    return Verdict(
        "failed",
        f"no steps found: {seen} before a loop that calls a model was recognised{torch}",
        None,
        ("no_steps",),
        (
            "point speedproof at the script that trains (and give it arguments that make it train)",
            "a loop that starts late needs a longer --budget: 40% of it is spent on looking",
        ),
    )


def _fails_early(ledger: Ledger, variants: tuple[Variant, ...]) -> Verdict | None:
    """The script trains for some steps and then fails in eager mode, before anything could be measured."""
    measured = any(v.speedup is not None or v.outcome in ("crashed", "unsupported", "timed_out") for v in variants)
    endings = [e for e in ledger.endings if e.arm in (None, "aa", "verify")]
    if measured or not endings or not all(e.code for e in endings):
        return None
    return failed(endings[-1], "", "run it without speedproof and mend it first")


def _failure(ledger: Ledger, verdict: Verdict) -> ScriptEnded | None:
    if verdict.kind != "failed":
        return None
    return next((e for e in reversed(ledger.endings) if e.code), None)

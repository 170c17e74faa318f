"""The decision, in the kinds of the contract, from figures that have been proven (design, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..model import Baseline, Ceiling, Finding, Noise, Ratio, ScriptEnded, Variant, Verdict

# A script tried out is often shorter than the job it stands for. Without --steps, a break-even up to ten times
# beyond the end that was seen is left to the user; farther than that, the run that was shown does not pay.
SHORT_RUN_FACTOR = 10
WAITING_SHARE = 0.5
TINY_STEP_MS = 2.0
NOTHING = ("unsupported",)
BROKEN = ("crashed", "out_of_memory")


@dataclass(frozen=True)
class Case:
    """What the judge gets to see."""

    variants: Sequence[Variant]
    baseline: Baseline
    ceiling: Ceiling
    noise: Noise
    threshold: float
    planned_steps: int | None
    seen_steps: int | None
    interrupted: bool = False
    budget_s: float = 600.0

    @property
    def bar(self) -> float:
        """A gain counts from here: the threshold, or what the A/A run says can be proven at all."""
        off = 0.0
        aa = self.noise.aa
        if aa is not None and aa.low is not None and aa.high is not None and not aa.low <= 1.0 <= aa.high:
            off = max(abs(aa.low - 1), abs(aa.high - 1))
        return 1.0 + max(self.threshold, off)


def judge(case: Case) -> Verdict:
    """One verdict for the run. Total: every case gets one."""
    measured = [v for v in case.variants if v.outcome == "completed" and v.speedup is not None]
    winners = [v for v in measured if _low(v) >= case.bar]
    if winners:
        return _winner(max(winners, key=lambda v: _ratio(v).ratio), case)
    if case.ceiling.max_speedup is not None and case.ceiling.max_speedup < case.bar:
        return _limited(case)
    undecided = [v for v in measured if not _decided_no(v, case)]
    unfinished = [v for v in case.variants if v.outcome in ("timed_out", "cancelled")]
    if measured and not undecided and not unfinished:
        return _no_gain(measured, case)
    if undecided:
        return _undecided(max(undecided, key=lambda v: _ratio(v).ratio), case)
    if unfinished or not case.variants:
        return _unfinished(unfinished, measured, case)
    return _nothing_runs(case)


def failed(ending: ScriptEnded | None, message: str, next_step: str) -> Verdict:
    """The script does not work without speedproof either."""
    what = message if ending is None or not ending.error else f"{ending.error}: {_first_line(ending.message)}"
    return Verdict("failed", what, None, ("script_fails",), (next_step,))


def _ratio(variant: Variant) -> Ratio:
    assert variant.speedup is not None
    return variant.speedup


def _low(variant: Variant) -> float:
    return _ratio(variant).low or 0.0


def _decided_no(variant: Variant, case: Case) -> bool:
    high = _ratio(variant).high
    return high is not None and high < case.bar


def _name(variant: Variant) -> str:
    return "the script's own torch.compile" if variant.id == "as_written" else variant.label


def _step_ms(case: Case) -> float:
    return case.baseline.step_ms.mean if case.baseline.step_ms is not None else 0.0


def _times(best: Variant, case: Case) -> str:
    """The figures behind a ratio: both step times, what compiling cost, what was captured."""
    eager = _step_ms(case)
    parts = [f"a step takes {eager:.3g} ms in eager and {eager / _ratio(best).ratio:.3g} ms compiled"]
    if best.compile_s.cold is not None:
        warm = f" ({best.compile_s.warm:.0f} s with a warm cache)" if best.compile_s.warm is not None else ""
        parts.append(f"compiling takes {best.compile_s.cold:.0f} s{warm}")
    if best.graph_breaks:
        parts.append(f"{best.graph_breaks} graph breaks")
    if best.recompiles:
        parts.append(f"{best.recompiles} recompiles")
    return ", ".join(parts)


def _noise(case: Case) -> str:
    effect = case.noise.smallest_effect
    return f"eager against eager differs by up to {100 * effect:.0f}% here" if effect is not None else "noise not known"


def _interval(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.2f}x, interval still open after {ratio.pairs} pairs"
    return f"{ratio.ratio:.2f}x, 95% interval {ratio.low:.2f} to {ratio.high:.2f}"


# --- worth it, or too short ------------------------------------------------------------------------------------------


def _winner(best: Variant, case: Case) -> Verdict:
    cold = best.break_even_steps
    planned, known = case.planned_steps, True
    if planned is None:
        planned, known = case.seen_steps, False
    limit = None if planned is None else planned if known else planned * SHORT_RUN_FACTOR
    if cold is not None and limit is not None and cold > limit:
        return _too_short(best, cold, planned or 0, known, case)
    gain = f"{_name(best)} makes a step {_interval(_ratio(best))}"
    pays = f"; it pays from step {cold:,} on" if cold is not None else ""
    reasons = ["faster"]
    advice = []
    if best.id == "as_written":
        advice.append("keep it: eager is slower here")
    else:
        advice.append(_how_to(best))
    if cold is not None and planned is not None and cold > planned:
        advice.append(f"this run ends after {planned:,} steps: only longer ones earn the compile time back (--steps)")
    return Verdict("worth_it", f"{gain}{pays}", best.id, tuple(reasons), tuple(advice), _times(best, case))


def _how_to(best: Variant) -> str:
    words = [f"{k}={v!r}" for k, v in (("mode", best.config.mode), ("backend", best.config.backend)) if v]
    words = [w for w in words if w not in ("mode='default'", "backend='inductor'")]
    return f"call model.compile({', '.join(words)}) once the model is on its device; the loop stays as it is"


def _too_short(best: Variant, cold: int, planned: int, known: bool, case: Case) -> Verdict:
    whose = "planned" if known else "the script has"
    text = (
        f"in a run of {planned:,} steps: {_name(best)} makes a step {_interval(_ratio(best))}, "
        f"but earns its compile time back after {cold:,} steps only"
    )
    advice = [f"{whose} {planned:,} steps: for a longer job, say how long with --steps N"]
    if best.compile_s.warm is not None:
        advice.append(f"keep the compile cache between runs: a warm start costs {best.compile_s.warm:.0f} s")
    return Verdict("not_worth_it", text, best.id, ("too_few_steps",), tuple(advice), _times(best, case))


# --- not worth it ----------------------------------------------------------------------------------------------------


def _limited(case: Case) -> Verdict:
    most = case.ceiling.max_speedup or 1.0
    reason, advice = _elsewhere(case)
    text = f"stay in eager: compile could gain {100 * (most - 1):.0f}% at most, since {case.ceiling.why}"
    return Verdict("not_worth_it", text, None, (reason,), advice, case.ceiling.why)


def _elsewhere(case: Case) -> tuple[str, tuple[str, ...]]:
    """Where the time goes instead, and what to do about it."""
    phases = case.baseline.phases or {}
    largest = max(("data", "transfer", "other"), key=lambda p: phases.get(p, 0.0))
    if largest == "transfer":
        return "moves_data", ("most of a step moves data: keep batches on the device, or pin memory and do not block",)
    if largest == "data":
        return "waits_for_data", (
            "the loop waits for its loader: raise num_workers, cache or vectorise the decoding, then measure again",
        )
    return "other_code", ("most of a step is Python of the loop itself: profile that first",)


def _no_gain(measured: Sequence[Variant], case: Case) -> Verdict:
    best = max(measured, key=lambda v: _ratio(v).ratio)
    ratio = _ratio(best)
    slower = ratio.high is not None and ratio.high < 1.0
    what = (
        f"the best, {_name(best)}, runs at {_interval(ratio)}"
        if len(measured) > 1
        else (f"{_name(best)} runs at {_interval(ratio)}")
    )
    reason = "slower" if slower else "no_gain"
    reasons: list[str] = [reason]
    advice: list[str] = []
    if (case.baseline.phases or {}).get("data", 0.0) > WAITING_SHARE:
        reason, more = _elsewhere(case)
        reasons.append(reason)
        advice += more
    if slower:
        advice.append("leave torch.compile out: it makes this loop slower")
    else:
        advice.append(f"leave torch.compile out: a gain under {100 * case.threshold:.0f}% does not carry its costs")
    reasons += _broken_reasons(case)
    why = _times(best, case)
    if slower and _step_ms(case) < TINY_STEP_MS:
        why += "; steps this short are mostly Python: guards and dispatch of the compiled call outweigh its kernels"
    return Verdict("not_worth_it", f"stay in eager: {what}", None, tuple(reasons), tuple(advice), why)


def _broken_reasons(case: Case) -> list[str]:
    kinds = {
        "crashed": "compile_crashes",
        "out_of_memory": "compile_out_of_memory",
        "unsupported": "nothing_compiled",
    }
    return [slug for outcome, slug in kinds.items() if any(v.outcome == outcome for v in case.variants)]


def _nothing_runs(case: Case) -> Verdict:
    """Every variant crashed or captured nothing; the skipped ones could not have helped."""
    tried = [v for v in case.variants if v.outcome in (*NOTHING, *BROKEN)]
    if not tried:
        why = case.variants[0].why
        return Verdict("not_worth_it", f"stay in eager: {why}", None, ("nothing_to_compile",), ("nothing to change",))
    first = tried[0]
    said = _first_line(first.why)
    text = f"stay in eager: {said}" if first.outcome in NOTHING else f"stay in eager: {_name(first)} fails: {said}"
    advice = ("change what stands in the way there, then measure again",)
    return Verdict("not_worth_it", text, None, tuple(_broken_reasons(case)), advice, said)


# --- not decided -----------------------------------------------------------------------------------------------------


def _undecided(best: Variant, case: Case) -> Verdict:
    ratio = _ratio(best)
    text = f"{_name(best)} runs at {_interval(ratio)}, the bar is {case.bar:.2f}x"
    why = f"{_times(best, case)}; {_noise(case)}"
    return Verdict("inconclusive", text, None, ("noise",), (_more_time(ratio, case),), why)


def _more_time(ratio: Ratio, case: Case) -> str:
    """How long it would take: an interval shrinks with the root of the number of pairs."""
    if ratio.low is None or ratio.high is None:
        return f"give it more time: --budget {max(2, round(case.budget_s / 60 * 2))}m, or a script with more steps"
    distance = abs(ratio.ratio - case.bar)
    half = (ratio.high - ratio.low) / 2
    if distance < half / 10:
        return "the true gain lies about at the threshold: no amount of time tells them apart; decide by taste"
    minutes = max(1, round(case.budget_s / 60 * (half / distance) ** 2 * 1.3))
    return f"about {minutes} min would decide it on this machine (--budget {minutes}m); a quieter machine needs less"


def _unfinished(unfinished: Sequence[Variant], measured: Sequence[Variant], case: Case) -> Verdict:
    if case.interrupted:
        text = "interrupted before anything could be proven"
        return Verdict("inconclusive", text, None, ("interrupted",), ("run it again and let it finish",))
    if not unfinished:
        text = "no variant could be tried in this budget"
        return Verdict("inconclusive", text, None, ("no_time",), ("raise --budget",))
    first = unfinished[0]
    text = f"{_name(first)} got no result: {_first_line(first.why)}"
    short = "script_too_short" if "script ends" in first.why else "no_time"
    hint = "give a longer script or more epochs" if short == "script_too_short" else "raise --budget"
    return Verdict("inconclusive", text, None, (short,), (hint,), _first_line(first.why))


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:300] if text.strip() else "no reason given"


# --- what the findings make of it ------------------------------------------------------------------------------------

CHANGES_RESULTS = (
    "random-frozen",
    "late-hook",
    "buffer-changed-in-forward",
    "custom-backward-lost",
    "overlapping-inputs",
)


def with_findings(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """The verdict after the findings have been heard: speed does not count where compiled code does something else."""
    prefix = next((f for f in findings if f.slug == "state-dict-prefix" and f.severity == "error"), None)
    if verdict.kind == "failed" and prefix is not None and "state_dict" in verdict.summary:
        text = f"as written the script fails{_at(prefix)}: {prefix.why}"
        return Verdict("not_worth_it", text, None, ("state-dict-prefix",), prefix.hints[:1], prefix.why)
    wrong = next((f for f in findings if f.slug in CHANGES_RESULTS and f.severity == "error"), None)
    if wrong is not None and verdict.kind != "failed":
        text = f"compiled, this script does something else than in eager{_at(wrong)}: {wrong.why}"
        reasons = (wrong.slug, *verdict.reasons)
        return Verdict("unsafe", text, verdict.best, reasons, wrong.hints[:2], f"speed: {verdict.summary}")
    return _pointing(_settled_by_diagnosis(verdict, findings), findings)


def _settled_by_diagnosis(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """No ratio is needed to say no where compiled code fails, or where there is none."""
    if verdict.kind != "inconclusive" or "noise" in verdict.reasons or "interrupted" in verdict.reasons:
        return verdict
    for slug, reason, what in (
        ("compiled-crash", "compile_crashes", "compiled, this script fails"),
        ("nothing-compiled", "nothing_compiled", "nothing of this script is compiled"),
    ):
        found = next((f for f in findings if f.slug == slug and f.severity == "error"), None)
        if found is not None:
            text = f"stay in eager: {what}{_at(found)}: {found.why}"
            return Verdict("not_worth_it", text, None, (reason,), found.hints[:1], found.why)
    return verdict


def _pointing(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """What stands in the way, as advice, where compile does not pay or was not decided."""
    if verdict.kind not in ("not_worth_it", "inconclusive"):
        return verdict
    loud = [f for f in findings if f.severity != "info" and f.hints]
    ahead = [f for f in loud if f.slug == "nothing-compiled"][:1] or loud[:1]
    told = tuple(f"{f.slug}{_at(f)}: {f.hints[0]}" for f in (*ahead, *(f for f in loud if f not in ahead)))[:2]
    reasons = (*verdict.reasons, *(f.slug for f in ahead if f.slug not in verdict.reasons))
    return replace(verdict, reasons=reasons, advice=(*told, *verdict.advice))


def _at(finding: Finding) -> str:
    where = finding.where
    return f" ({where.file.rsplit('/', 1)[-1]}:{where.line})" if where is not None else ""

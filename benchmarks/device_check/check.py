"""Does speedproof do its job on a CUDA machine? One command, a few minutes, one file of evidence.

``python benchmarks/device_check/check.py [--out FILE] [--minutes 6]``

Runs ``python -m speedproof run`` from this source tree on four training scripts, each with a share of the
time, and checks what the verdict files say. Needs no network; needs torch and torchvision, and rich and
jinja2 for the driver. Exit codes: 0 all checks passed, 1 some did not, 2 the checks cannot run here. The
evidence file is rewritten after each script, so that what was found survives an interruption.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SRC = HERE.parents[1] / "src"
PROBE = SRC / "speedproof" / "doctor" / "probe.py"
RESNET = SRC / "speedproof" / "demo" / "resnet50.py"

DRIVER_NEEDS = ("rich", "jinja2")
SCRIPTS_NEED = ("torch", "torchvision")
REPORTED = (*SCRIPTS_NEED, "triton", "transformers", *DRIVER_NEEDS)
MODES = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
VERDICTS = ("worth_it", "worth_it_after_fix", "not_worth_it", "unsafe")
# What speedproof and Python may take on top of a budget, and when a run is ended that takes more.
OVERHEAD_S, GRACE_S = 5.0, 30.0
TEXT_LIMIT, LIST_LIMIT = 600, 40


@dataclass(frozen=True)
class Job:
    """One script. ``weight`` is its share of the time; ``smoke`` are its arguments on a CPU."""

    name: str
    script: Path
    args: tuple[str, ...]
    smoke: tuple[str, ...]
    weight: float


@dataclass(frozen=True)
class Outcome:
    """How one run ended. ``code`` is ``None`` where it was killed, ``verdict`` where none was written."""

    job: str
    command: tuple[str, ...]
    budget_s: float
    elapsed_s: float
    code: int | None
    verdict: Mapping[str, Any] | None
    output_tail: str


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    evidence: str


TINY_RESNET = ("--image-size", "32", "--images", "16", "--classes", "10")
TINY_GPT = ("--batch-size=2", "--length=32", "--layers=1", "--heads=2", "--width=64", "--vocabulary=128")
JOBS = (
    Job("resnet50_batch64", RESNET, ("--batch-size", "64"), ("--batch-size", "2", *TINY_RESNET), 1.3),
    Job("resnet50_batch8", RESNET, ("--batch-size", "8"), ("--batch-size", "1", *TINY_RESNET), 1.1),
    Job("gpt", HERE / "gpt.py", (), TINY_GPT, 1.0),
    Job("mnist", HERE / "mnist.py", (), ("--images", "6000", "--batch-size", "32"), 0.6),
)


# ---------------------------------------------------------------------------------------------------------
# Running
# ---------------------------------------------------------------------------------------------------------


def run_job(job: Job, smoke: bool, budget_s: float, limit_s: float, folder: Path) -> Outcome:
    verdict = folder / f"{job.name}.json"
    options = ("--json", str(verdict), "--budget", f"{budget_s:.0f}s", "--out", str(folder / job.name))
    script = (str(job.script), *(job.smoke if smoke else job.args))
    command = (sys.executable, "-m", "speedproof", "run", *options, *script)
    begin_s = time.monotonic()
    code, output = run_limited(command, limit_s, folder)
    elapsed_s = time.monotonic() - begin_s
    return Outcome(job.name, command, budget_s, elapsed_s, code, read_json(verdict), output[-2000:])


def run_limited(command: Sequence[str], limit_s: float, folder: Path) -> tuple[int | None, str]:
    """Exit status and output; the status is ``None`` where the limit ended it, with all it had started."""
    path = [str(SRC), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    log = folder / "output.txt"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = wait_or_end(process, limit_s)
    return code, log.read_text(encoding="utf-8", errors="replace")


def wait_or_end(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    """Interrupt first: speedproof ends the processes that it started, which are in groups of their own."""
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        pass
    for sign, patience_s in ((signal.SIGINT, 10.0), (signal.SIGKILL, 10.0)):
        os.killpg(process.pid, sign)
        try:
            process.wait(patience_s)
            break
        except subprocess.TimeoutExpired:
            continue
    return None


def read_json(path: Path) -> Mapping[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def run_all(jobs: Sequence[Job], smoke: bool, end_s: float, report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix="speedproof-check-", ignore_cleanup_errors=True) as name:
        for index, job in enumerate(jobs):
            left_s = end_s - time.monotonic()
            share = job.weight / sum(j.weight for j in jobs[index:])
            budget_s = max(10.0, left_s * share - OVERHEAD_S)
            print(f"{job.name}: budget {budget_s:.0f} s", flush=True)
            limit_s = max(15.0, min(budget_s + GRACE_S, left_s))
            report.add(run_job(job, smoke, budget_s, limit_s, Path(name)))


# ---------------------------------------------------------------------------------------------------------
# Checking
# ---------------------------------------------------------------------------------------------------------


def check_outcome(outcome: Outcome, smoke: bool) -> list[Check]:
    checks = [verdict_reached(outcome), within_budget(outcome)]
    if outcome.verdict is not None and not smoke:  # a CPU has no CUDA graphs and reports no card's memory
        checks += [mode_has_outcome(outcome.job, outcome.verdict, mode) for mode in MODES]
        checks += [peak_known(outcome.job, outcome.verdict)]
    return checks


def verdict_reached(outcome: Outcome) -> Check:
    verdict = (outcome.verdict or {}).get("verdict") or {}
    kind = verdict.get("kind")
    evidence = f"exit {outcome.code}, {kind}: {verdict.get('summary')}"
    ok = outcome.code == 0 and kind in VERDICTS
    return Check(
        f"{outcome.job}: verdict reached",
        ok,
        evidence if ok else f"{evidence}; {outcome.output_tail[-500:].strip()}",
    )


def within_budget(outcome: Outcome) -> Check:
    evidence = f"{outcome.elapsed_s:.1f} s of {outcome.budget_s:.0f} s"
    ok = outcome.elapsed_s <= outcome.budget_s + OVERHEAD_S + 0.1 * outcome.budget_s
    return Check(f"{outcome.job}: within budget", ok, evidence)


def mode_has_outcome(job: str, verdict: Mapping[str, Any], mode: str) -> Check:
    """A mode that got no time or cannot work here is an outcome too, if it says why."""
    found = [v for v in verdict.get("variants", []) if (v.get("config") or {}).get("mode") == mode]
    told = [f"{v.get('id')} {v.get('outcome')} {speedup(v)} {v.get('why') or ''}".strip() for v in found]
    ok = any(v.get("outcome") == "completed" or (v.get("outcome") and v.get("why")) for v in found)
    return Check(f"{job}: {mode} has an outcome", ok, "; ".join(told) or "no such variant")


def speedup(variant: Mapping[str, Any]) -> str:
    ratio = (variant.get("speedup") or {}).get("ratio")
    return "" if ratio is None else f"{ratio:.3f}x"


def peak_known(job: str, verdict: Mapping[str, Any]) -> Check:
    completed = [v for v in verdict.get("variants", []) if v.get("outcome") == "completed"]
    peaks = {str(v.get("id")): v.get("peak_bytes") for v in completed}
    peaks["baseline"] = (verdict.get("baseline") or {}).get("peak_bytes")
    return Check(f"{job}: peak memory known", all(peaks.values()), json.dumps(peaks))


def modes_ran(outcomes: Sequence[Outcome]) -> list[Check]:
    """Each mode completed on at least one script: outcomes alone would pass where all are skipped."""
    checks = []
    for mode in MODES:
        where = [o.job for o in outcomes if mode in completed_modes(o.verdict or {})]
        checks.append(Check(f"{mode} completed somewhere", bool(where), ", ".join(where) or "nowhere"))
    return checks


def completed_modes(verdict: Mapping[str, Any]) -> set[str]:
    done = (v for v in verdict.get("variants", []) if v.get("outcome") == "completed")
    return {str((v.get("config") or {}).get("mode")) for v in done}


# ---------------------------------------------------------------------------------------------------------
# The evidence file
# ---------------------------------------------------------------------------------------------------------


class Report:
    """Outcomes and checks so far, written after each addition."""

    def __init__(self, path: Path, smoke: bool, machine: Mapping[str, Any]) -> None:
        self.path, self.smoke, self.machine = path, smoke, machine
        self.outcomes: list[Outcome] = []
        self.checks: list[Check] = []
        self.begin_s = time.monotonic()

    def note(self, *checks: Check) -> None:
        self.checks += checks
        for check in checks:
            print(f"  {'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.evidence[:300]}", flush=True)
        self.write()

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.note(*check_outcome(outcome, self.smoke))

    def write(self) -> None:
        content = {
            "ok": all(check.ok for check in self.checks),
            "smoke": self.smoke,
            "elapsed_s": round(time.monotonic() - self.begin_s, 1),
            "machine": self.machine,
            "checks": [vars(check) for check in self.checks],
            "runs": [trimmed(vars(outcome)) for outcome in self.outcomes],
        }
        part = self.path.with_name(self.path.name + ".new")
        part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        part.replace(self.path)


def trimmed(value: Any) -> Any:
    """The same, with long texts and lists cut and marked as cut."""
    if isinstance(value, Mapping):
        return {key: trimmed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        kept = [trimmed(item) for item in value[:LIST_LIMIT]]
        return kept + ([f"... {len(value) - LIST_LIMIT} more"] if len(value) > LIST_LIMIT else [])
    if isinstance(value, str) and len(value) > TEXT_LIMIT:
        half = TEXT_LIMIT // 2
        return f"{value[:half]} ... {value[-half:]}"
    return value


# ---------------------------------------------------------------------------------------------------------
# The machine
# ---------------------------------------------------------------------------------------------------------


def versions() -> dict[str, str | None]:
    return {name: version(name) for name in REPORTED} | {"python": sys.version.split()[0]}


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def cuda_available() -> bool:
    program = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL).returncode == 0


def obstacle(smoke: bool) -> str | None:
    """Why the checks cannot run here, and what to do."""
    missing = [n for n in (*DRIVER_NEEDS, *SCRIPTS_NEED) if importlib.util.find_spec(n) is None]
    if missing:
        return f"missing for {sys.executable}: {', '.join(missing)}; pip install them (nothing is vendored)"
    if not smoke and not cuda_available():
        return "no CUDA device; this check is for a CUDA machine, --cpu-smoke tries the check itself on a CPU"
    return None


def doctor(smoke: bool, folder: Path) -> tuple[dict[str, Any], list[Check]]:
    """The doctor's facts, and its checks as checks of ours."""
    sys.path.insert(0, str(SRC))
    from speedproof.doctor.checks import assess

    options = ["--no-reference"] if smoke else []
    code, output = run_limited([sys.executable, str(PROBE), *options], 90.0, folder)
    lines = [line for line in output.splitlines() if line.startswith('{"')]
    facts: dict[str, Any] = json.loads(lines[-1]) if code == 0 and lines else {}
    checks = [Check(f"doctor: {c.name}", c.status != "fail", f"{c.status}: {c.evidence}") for c in assess(facts)]
    answered = Check("doctor: answered", bool(facts), f"exit {code}" + ("" if facts else f": {output[-500:]}"))
    return facts, [answered, *checks]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Check speedproof on a CUDA machine.")
    parser.add_argument("--out", type=Path, default=Path("device_check.json"), help="the evidence file")
    parser.add_argument("--minutes", type=float, default=6.0, help="time for everything together")
    parser.add_argument("--only", help="comma list of: " + ", ".join(job.name for job in JOBS))
    parser.add_argument("--cpu-smoke", action="store_true", help="tiny sizes on a CPU, to test this check")
    return parser.parse_args()


def main() -> int:
    args = parse_args()
    end_s = time.monotonic() + 60 * args.minutes
    out: Path = args.out.resolve()
    why_not = obstacle(args.cpu_smoke)
    if why_not is not None:
        Report(out, args.cpu_smoke, {"versions": versions()}).note(Check("can run here", False, why_not))
        print(f"device check: {why_not}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="speedproof-doctor-") as folder:
        facts, checks = doctor(args.cpu_smoke, Path(folder))
    report = Report(out, args.cpu_smoke, {"versions": versions(), "doctor": facts})
    report.note(*checks)
    names = args.only.split(",") if args.only else [job.name for job in JOBS]
    run_all([job for job in JOBS if job.name in names], args.cpu_smoke, end_s, report)
    report.note(*([] if args.cpu_smoke else modes_ran(report.outcomes)))
    print(f"evidence: {out}")
    return 0 if all(check.ok for check in report.checks) else 1


if __name__ == "__main__":
    sys.exit(main())

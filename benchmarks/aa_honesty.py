"""Acceptance A: eager against eager must show no difference.

    aa_honesty.py [--seeds 20] [--pairs 30] [--out FILE] NAME=PYTHON:CWD:SCRIPT ARGS ...

Each seed is an arm of its own in a worker session on the unchanged script: ``pairs`` pairs of one-step blocks (60
steps at 30 pairs). Counts the intervals that exclude 1, and what the judge would say of each.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
from speedproof import codec
from speedproof.analyse.ledger import ArmRecord, fold
from speedproof.analyse.result import baseline_of, ceiling_of, noise_of
from speedproof.analyse.verdict import Case, judge
from speedproof.model import Arm, ArmConfig, Command, Schedule, SessionSpec, Variant
from speedproof.store import decode_events

BOOTSTRAP = Path(__file__).resolve().parent.parent / "src/speedproof/worker/bootstrap.py"


def session(python: str, cwd: str, words: list[str], seeds: list[int], pairs: int) -> dict[int, ArmRecord]:
    """One process; as many of the seeds as the script has steps for."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "s/scratch").mkdir(parents=True)
        spec = SessionSpec(
            session=0,
            command=Command(words[0], None, tuple(words[1:])),
            arms=tuple(Arm(f"seed-{n}", "eager against eager", "eager") for n in seeds),
            schedule=Schedule(seed=seeds[0], block_s=0.0, max_pairs=pairs),
            events_path=f"{folder}/s/events.jsonl",
            control_path=f"{folder}/s/control.jsonl",
            scratch_dir=f"{folder}/s/scratch",
            cache_dir=f"{folder}/cache",
            measure_phases=False,
        )
        Path(folder, "spec.json").write_text(codec.dumps(spec))
        with open(Path(folder, "log"), "wb") as log:
            subprocess.run(
                [python, str(BOOTSTRAP), f"{folder}/spec.json"], cwd=cwd, stdout=log, stderr=log, check=False
            )
        ledger = fold(decode_events(Path(spec.events_path).read_bytes()))
    return {n: r for n in seeds if len((r := ledger.arm(f"seed-{n}")).pairs()) >= pairs}


def said_of(record: ArmRecord) -> str:
    """The judge on this A/A arm, as if it were a variant."""
    ratio = record.ratio()
    assert ratio is not None
    variant = Variant(record.id, "eager", ArmConfig(), "compile", "completed", "", ratio)
    ledger = fold([])
    baseline = baseline_of(ledger)
    case = Case([variant], baseline, ceiling_of(None), noise_of(ledger), 0.05, None, None)
    return judge(case).kind


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--at-once", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("scripts", nargs="+")
    options = parser.parse_args()
    report = {}
    for entry in options.scripts:
        name, _, rest = entry.partition("=")
        python, cwd, line = rest.split(":", 2)
        done: dict[int, ArmRecord] = {}
        while len(done) < options.seeds:
            missing = [n for n in range(options.seeds) if n not in done][: options.at_once]
            fresh = session(python, cwd, shlex.split(line), missing, options.pairs)
            if not fresh:
                raise SystemExit(f"{name}: no seed could be finished in a session")
            done |= fresh
        ratios = [r for n in sorted(done) if (r := done[n].ratio()) is not None]
        excluded = sum(not ((r.low or 0) <= 1.0 <= (r.high or 9e9)) for r in ratios)
        widths = [(r.high - r.low) / 2 for r in ratios if r.low is not None and r.high is not None]
        kinds = [said_of(done[n]) for n in sorted(done)]
        report[name] = {
            "seeds": len(ratios),
            "steps_each": 2 * options.pairs,
            "intervals_excluding_1": excluded,
            "worth_it": kinds.count("worth_it"),
            "verdicts": {k: kinds.count(k) for k in sorted(set(kinds))},
            "median_half_width": round(statistics.median(widths), 4) if widths else None,
            "ratios": [[round(x, 4) if x else None for x in dataclasses.astuple(r)[:3]] for r in ratios],
        }
        print(name, {k: v for k, v in report[name].items() if k != "ratios"}, flush=True)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Acceptance C: what the worker adds to an eager step.

    worker_overhead.py [--rounds 8] [--steps 3000] [--out FILE]

The same script (scripts/tiny.py, the shortest step there is) in processes of its own, plain and under the worker
in the state in which arms are timed, in turn. Both are clocked by the same hook on the optimizer. The difference of
the median step times is the cost of the boundary, the switch and the audit hook together; the cost on longer steps
is the same in absolute terms, plus the audit events of a larger optimizer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
from speedproof import codec  # noqa: E402
from speedproof.model import Arm, Command, Schedule, SessionSpec  # noqa: E402

CLOCKED = """
import json, os, runpy, sys, time
import torch
times = []
def stepped(*_):
    times.append(time.perf_counter_ns())
    if len(times) == {stop}:
        steps = sorted(b - a for a, b in zip(times[{skip}:], times[{skip} + 1:]))
        open({out!r}, "w").write(json.dumps([steps[len(steps) // 2], steps[len(steps) // 4], sum(steps) / len(steps)]))
        os._exit(0)
from torch.optim.optimizer import register_optimizer_step_post_hook
register_optimizer_step_post_hook(stepped)
sys.argv = [{script!r}, "1000000"]
runpy.run_path({script!r}, run_name="__main__")
"""


def median_ns(folder: Path, script: Path, under_worker: bool, skip: int, steps: int) -> list[float]:
    """Median, lower quartile and mean of the step times, in nanoseconds."""
    out = folder / "steps.json"
    out.unlink(missing_ok=True)
    program = folder / "clocked.py"
    program.write_text(CLOCKED.format(stop=skip + steps, skip=skip, out=str(out), script=str(script)))
    line = [sys.executable, str(program)]
    if under_worker:
        (folder / "s/scratch").mkdir(parents=True, exist_ok=True)
        spec = SessionSpec(
            session=0,
            command=Command(str(program), None),
            arms=(Arm("aa", "eager", "eager"),),
            schedule=Schedule(max_pairs=1_000_000),
            events_path=str(folder / "s/events.jsonl"),
            control_path=str(folder / "s/control.jsonl"),
            scratch_dir=str(folder / "s/scratch"),
            cache_dir=str(folder / "cache"),
        )
        (folder / "s/events.jsonl.owner").unlink(missing_ok=True)
        (folder / "spec.json").write_text(codec.dumps(spec))
        line = [sys.executable, str(ROOT / "src/speedproof/worker/bootstrap.py"), str(folder / "spec.json")]
    subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return list(json.loads(out.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--script", type=Path, default=ROOT / "benchmarks/scripts/tiny.py")
    parser.add_argument("--skip", type=int, default=6000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    plain, watched = [], []
    for turn in range(options.rounds):
        for under_worker in (False, True) if turn % 2 == 0 else (True, False):
            with tempfile.TemporaryDirectory() as folder:
                taken = median_ns(Path(folder), options.script, under_worker, options.skip, options.steps)
                (watched if under_worker else plain).append(taken)
    added = [(w[0] - p[0]) / 1e3 for p, w in zip(plain, watched, strict=True)]
    report = {
        "script": options.script.name,
        "plain_step_us": round(statistics.median(p[0] for p in plain) / 1e3, 2),
        "added_us_each_round": [round(a, 2) for a in added],
        "added_us_median": round(statistics.median(added), 2),
        "share_of_a_20_ms_step": round(statistics.median(added) / 20_000, 6),
    }
    print(json.dumps(report, indent=1))
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

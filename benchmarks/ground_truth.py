"""Acceptance B: the ratio that ``speedproof run`` reports against a long, independent measurement.

    ground_truth.py [--steps 320] [--rounds 4] [--budget 2m] [--out FILE] NAME=PYTHON:CWD:SCRIPT ARGS ...

The truth: the script in processes of its own, eager and compiled in turn (``rounds`` of each), nothing of
speedproof in them. A hook on the optimizer takes the time of each step; in the compiled processes every network
the loop calls gets ``module.compile()`` before its first call. The first steps of each process are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve()


def child(mode: str, out: str, skip: int, steps: int, words: list[str]) -> None:
    """Run the script with a clock on its optimizer; stop after ``skip + steps`` steps."""
    import runpy
    import time

    import torch

    times: list[float] = []
    done: set[int] = set()
    inside = False
    plain = torch.nn.Module.__call__

    def call(module: torch.nn.Module, *args: object, **kwargs: object) -> object:
        nonlocal inside
        if inside:
            return plain(module, *args, **kwargs)
        if id(module) not in done:
            done.add(id(module))
            if mode == "compiled" and any(True for _ in module.parameters()):
                module.compile()
        inside = True
        try:
            return plain(module, *args, **kwargs)
        finally:
            inside = False

    def stepped(*_: object) -> None:
        times.append(time.perf_counter())
        if len(times) == 3:  # every network has been seen; a patched class costs the compiled side time
            torch.nn.Module.__call__ = plain  # type: ignore[method-assign]
        if len(times) > skip + steps:
            finish()

    def finish() -> None:
        durations = [b - a for a, b in zip(times[skip:], times[skip + 1 :], strict=False)]
        Path(out).write_text(json.dumps(durations))
        sys.stdout.flush()
        os._exit(0)

    torch.nn.Module.__call__ = call  # type: ignore[method-assign]
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(stepped)
    sys.argv = words
    sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
    runpy.run_path(words[0], run_name="__main__")
    finish()


def one(python: str, cwd: str, words: list[str], mode: str, skip: int, steps: int, cache: str) -> list[float]:
    with tempfile.NamedTemporaryFile() as out:
        line = [python, str(HERE), "--child", mode, out.name, str(skip), str(steps), *words]
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache}
        quiet = subprocess.DEVNULL
        subprocess.run(line, cwd=cwd, stdout=quiet, stderr=quiet, env=environment, check=False)
        return list(json.loads(Path(out.name).read_text()))


def truth(python: str, cwd: str, words: list[str], steps: int, rounds: int) -> dict[str, object]:
    """Mean step times and their ratio, with the spread over rounds."""
    each = -(-steps // rounds)
    eager: list[list[float]] = []
    compiled: list[list[float]] = []
    with tempfile.TemporaryDirectory() as cache:
        one(python, cwd, words, "compiled", 10, 5, cache)  # fills the cache
        for turn in range(rounds):
            for mode in ("eager", "compiled") if turn % 2 == 0 else ("compiled", "eager"):
                (eager if mode == "eager" else compiled).append(one(python, cwd, words, mode, 15, each, cache))
    ratios = [statistics.fmean(e) / statistics.fmean(c) for e, c in zip(eager, compiled, strict=True)]
    mean_e = statistics.fmean([t for e in eager for t in e])
    mean_c = statistics.fmean([t for c in compiled for t in c])
    return {
        "ratio": round(mean_e / mean_c, 4),
        "rounds": [round(r, 4) for r in ratios],
        "standard_error": round(statistics.stdev(ratios) / len(ratios) ** 0.5, 4),
        "steps_each_arm": sum(map(len, eager)),
    }


def reported(python: str, cwd: str, words: list[str], budget: str, seed: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-m", "speedproof", "run", "--quiet", "--budget", budget, "--python", python]
        line += ["--seed", str(seed), "--variants", "default", "--json", f"{folder}/v.json", "--out", f"{folder}/run"]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent / "src")}
        subprocess.run([*line, *words], cwd=cwd, stdout=subprocess.DEVNULL, env=environment, check=False)
        result = json.loads(Path(folder, "v.json").read_text())
    variant = next(v for v in result["variants"] if v["id"] == "default")
    return {"speedup": variant["speedup"], "elapsed_s": round(result["elapsed_s"]), "kind": result["verdict"]["kind"]}


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        mode, out, skip, steps, *words = sys.argv[2:]
        child(mode, out, int(skip), int(steps), words)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=320)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--budget", default="2m")
    parser.add_argument("--out", type=Path)
    parser.add_argument("scripts", nargs="+")
    options = parser.parse_args()
    report = {}
    for entry in options.scripts:
        name, _, rest = entry.partition("=")
        python, cwd, line = rest.split(":", 2)
        words = shlex.split(line)
        said = reported(python, cwd, words, options.budget, 0)
        real = truth(python, cwd, words, options.steps, options.rounds)
        speedup = said["speedup"]
        assert isinstance(speedup, dict)
        within = abs(speedup["ratio"] / float(str(real["ratio"])) - 1)
        inside = (speedup["low"] or 0) <= float(str(real["ratio"])) <= (speedup["high"] or 9e9)
        report[name] = {"reported": said, "truth": real, "off_by": round(within, 4), "truth_inside_interval": inside}
        print(name, json.dumps(report[name]), flush=True)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""False alarms: ``speedproof run`` on scripts that have no obstacle in them must report nothing above info.

    clean_scripts.py [--scripts DIR] [--budget 60s] [--timeout 300] [--out DIR] [NAME ...]

Prints a Markdown table and exits with 1 if a script got a finding above info, a verdict that says its numbers are wrong
or that it fails, or no verdict at all. A script whose compiled side got no result in the budget proves little: the
table shows what became of it, and the last line counts those. ``NAME``: run only the scripts whose name holds one of
these texts. With ``--out`` the verdict files stay there as ``SCRIPT.json``, and what speedproof printed as
``SCRIPT.log``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ALARMS = ("unsafe", "failed")


def run(script: Path, budget: str, timeout_s: float, folder: Path) -> tuple[dict[str, Any] | None, str]:
    """The verdict of one script, or None and the reason why there is none."""
    verdict = folder / f"{script.name}.json"
    verdict.unlink(missing_ok=True)
    line = [sys.executable, "-m", "speedproof", "run", "--budget", budget]
    line += ["--json", str(verdict), "--out", str(folder / f"{script.name}.run"), str(script)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with (folder / f"{script.name}.log").open("wb") as log:
        code = _wait(line, folder, environment, log, timeout_s)
    if not verdict.exists():
        return None, "timed out" if code is None else f"no verdict file, exit code {code}"
    return json.loads(verdict.read_text(encoding="utf-8")), ""


def _wait(line: list[str], cwd: Path, environment: dict[str, str], log: Any, timeout_s: float) -> int | None:
    """The exit code, or None after an interrupt at the time limit: speedproof then ends what it has started."""
    child = subprocess.Popen(
        line, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
    )
    try:
        return child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
    try:
        child.wait(20)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    return None


def loud(result: dict[str, Any]) -> list[str]:
    """The findings above info, as ``slug @ line``."""
    found = [f for f in result["findings"] if f["severity"] != "info"]
    return [f"{f['slug']} @ {(f['where'] or {}).get('line', '?')}" for f in found]


def compiled(result: dict[str, Any]) -> str:
    """What became of the script's own compile, else of plain torch.compile."""
    outcomes = {v["id"]: v["outcome"] for v in result["variants"]}
    tried = [outcomes[i] for i in ("as_written", "default") if outcomes.get(i, "skipped") != "skipped"]
    return str(tried[0]) if tried else "not tried"


def row(script: Path, result: dict[str, Any] | None, problem: str) -> tuple[str, bool]:
    """A line of the table, and whether the script passed."""
    if result is None:
        return f"| {script.name} | {problem} | - | - | - |", False
    alarms = loud(result)
    kind = result["verdict"]["kind"]
    cells = (script.name, kind, compiled(result), "; ".join(alarms) or "none", f"{result['elapsed_s']:.0f} s")
    return "| " + " | ".join(cells) + " |", not alarms and kind not in ALARMS


def chosen(folder: Path, names: list[str]) -> list[Path]:
    scripts = sorted(folder.resolve().glob("*.py"))
    return [s for s in scripts if not names or any(n in s.name for n in names)]


def table(scripts: list[Path], budget: str, timeout_s: float, folder: Path) -> bool:
    """Run and print one script after the other; whether all passed."""
    print("| script | verdict | compiled side | findings above info | time |")
    print("|---|---|---|---|---|")
    passed = unseen = 0
    for script in scripts:
        result, problem = run(script, budget, timeout_s, folder)
        text, good = row(script, result, problem)
        passed += good
        unseen += result is None or compiled(result) != "completed"
        print(text, flush=True)
    print(f"\n{passed} of {len(scripts)} scripts without a false alarm; {unseen} without a timed compiled side")
    return passed == len(scripts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scripts", type=Path, default=ROOT / "tests" / "clean")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="for each script")
    parser.add_argument("--out", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    scripts = chosen(options.scripts, options.names)
    if not scripts:
        parser.error(f"no script in {options.scripts} has such a name")
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.out or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return 0 if table(scripts, options.budget, options.timeout, folder) else 1


if __name__ == "__main__":
    sys.exit(main())

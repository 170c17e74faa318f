"""How long ``speedproof --help`` takes, beside an interpreter that does nothing. JSON; asserts nothing."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python": [sys.executable, "-c", "pass"],
    "help": [sys.executable, "-m", "speedproof", "--help"],
}


def run_s(command: list[str]) -> tuple[float, int]:
    begin_s = time.perf_counter()
    code = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).returncode
    return time.perf_counter() - begin_s, code


def measure(runs: int) -> dict[str, object]:
    for command in COMMANDS.values():  # fills the disk cache and writes the .pyc files
        run_s(command)
    times: dict[str, list[tuple[float, int]]] = {name: [] for name in COMMANDS}
    for _ in range(runs):  # in turns, so that a slow minute of the machine hits both
        for name, command in COMMANDS.items():
            times[name].append(run_s(command))
    median_ms = {name: 1e3 * statistics.median(t for t, _ in pairs) for name, pairs in times.items()}
    return {
        "runs": runs,
        "python": platform.python_version(),
        "median_ms": {name: round(value, 1) for name, value in median_ms.items()},
        "own_ms": round(median_ms["help"] - median_ms["python"], 1),
        # Anything but 0 here means that the figures above are of a failure.
        "exit_codes": {name: sorted({code for _, code in pairs}) for name, pairs in times.items()},
        "all_ms": {name: [round(1e3 * t, 1) for t, _ in pairs] for name, pairs in times.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    print(json.dumps(measure(parser.parse_args().runs), indent=1))


if __name__ == "__main__":
    main()

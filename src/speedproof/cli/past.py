"""``speedproof list``: past runs, newest first."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..errors import SpeedproofError
from ..report.words import verdict_words
from ..store import list_runs, load_meta
from .report import result_of


def main(argv: Sequence[str]) -> int:
    """``speedproof list``: one line for each stored run."""
    p = argparse.ArgumentParser(prog="speedproof list", description="Past runs, newest first.")
    p.add_argument("folder", type=Path, nargs="?", default=Path(".speedproof"))
    p.add_argument("--json", action="store_true", help="one JSON object a line")
    options = p.parse_args(argv)
    runs = list_runs(options.folder)
    if not runs:
        print(f"no runs under {options.folder}; speedproof run SCRIPT.py makes one")
        return 0
    for run in runs:
        print(_json_line(run) if options.json else _line(run))
    return 0


def _line(run: Path) -> str:
    try:
        meta, result = load_meta(run), result_of(run)
    except SpeedproofError as error:
        return f"{run}  {error.message}"
    return f"{run}  {meta.started[:16]}  {' '.join(meta.command.words())}\n    {verdict_words(result.verdict)}"


def _json_line(run: Path) -> str:
    import json

    try:
        meta, result = load_meta(run), result_of(run)
    except SpeedproofError as error:
        return json.dumps({"run": str(run), "error": error.message})
    return json.dumps(
        {
            "run": str(run),
            "started": meta.started,
            "command": meta.command.words(),
            "verdict": result.verdict.kind,
            "summary": result.verdict.summary,
        }
    )

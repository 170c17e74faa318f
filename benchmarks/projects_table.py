"""A table of finished runs for docs/evidence: projects_table.py NAME=VERDICT.json ..."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def row(name: str, result: dict[str, Any]) -> str:
    anatomy = result.get("anatomy") or {}
    roots = anatomy.get("roots", [])
    targets = ", ".join(sorted({r["name"] for r in roots if r["target"]})) or "none"
    others = ", ".join(sorted({f"{r['name']} ({r['role']})" for r in roots if not r["target"]}))
    boundary = anatomy.get("boundary", {})
    every = f"{boundary['every']} x " if boundary.get("every", 1) > 1 else ""
    optimizers = ", ".join(o["name"] for o in anatomy.get("optimizers", [])) or "none"
    found = f"{anatomy.get('kind', 'no loop')}; networks {targets}"
    found += f"; also {others}" if others else ""
    found += f"; optimizers {optimizers}; step ends at {every}{boundary.get('label', '?')}"
    step = (result["baseline"]["step_ms"] or {}).get("mean")
    variant = next((v for v in result["variants"] if v["id"] in ("as_written", "default")), None)
    said = "-"
    if variant is not None:
        speed = variant["speedup"]
        said = variant["outcome"]
        if speed and speed["low"] and speed["high"]:
            said = f"{speed['ratio']:.2f}x ({speed['low']:.2f} to {speed['high']:.2f})"
    verdict = result["verdict"]
    command = " ".join(Path(w).name if w.startswith("/") else w for w in result["command"])
    cells = (
        name,
        f"`{command[:90]}`",
        found,
        f"{step:.3g} ms" if step else "-",
        said,
        f"{verdict['kind']}: {verdict['summary'][:110]}",
        f"{result['elapsed_s']:.0f} s",
    )
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def main() -> None:
    print("| project | command | anatomy found | eager step | torch.compile | verdict | time |")
    print("|---|---|---|---|---|---|---|")
    for entry in sys.argv[1:]:
        name, _, path = entry.partition("=")
        print(row(name, json.loads(Path(path).read_text())))


if __name__ == "__main__":
    main()

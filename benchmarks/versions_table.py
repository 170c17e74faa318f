"""The same findings on other versions of torch: a look and a diagnosis pass under each interpreter that is given.

    versions_table.py PYTHON [PYTHON ...]

The scripts are those of ``tests/scripts/obstacles``, whose lines are marked with what is to be found there. Prints a
Markdown table: one row for each mark, one column for each torch (``yes`` found at its line, ``-`` not found), and below
it what was found and not marked.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from speedproof import codec
from speedproof.analyse.findings import find_all
from speedproof.analyse.ledger import fold
from speedproof.analyse.places import bare_evidence, user_files
from speedproof.analyse.source import Sources
from speedproof.execute.local import WORKER_PROGRAM
from speedproof.model import AnatomyFound, Command, Event, PhasesMeasured, Schedule, SessionSpec
from speedproof.store import decode_events, read_sources

SCRIPTS = Path(__file__).resolve().parent.parent / "tests" / "scripts" / "obstacles"
Found = set[tuple[str, int]]


def session(python: str, spec: SessionSpec, folder: Path, name: str) -> list[Event]:
    """One process under ``python``; what it said."""
    home = folder / name
    (home / "scratch").mkdir(parents=True)
    spec = replace(
        spec,
        events_path=str(home / "events.jsonl"),
        control_path=str(home / "control.jsonl"),
        scratch_dir=str(home / "scratch"),
        cache_dir=str(home / "cache"),
    )
    (home / "spec.json").write_text(codec.dumps(spec))
    done = subprocess.run(
        [python, str(WORKER_PROGRAM), str(home / "spec.json")], cwd=home, capture_output=True, text=True, timeout=200
    )
    if done.returncode:
        print(f"{python} {spec.command.script}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    return decode_events((home / "events.jsonl").read_bytes())


def found_by(python: str, script: Path) -> tuple[Found, str]:
    """The findings above info, as slug and line, and the version of torch."""
    command = Command(str(script), None)
    plain = SessionSpec(0, command, (), Schedule(), "", "", "", "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        events = session(python, plain, folder, "look")
        anatomy = next((e.anatomy for e in reversed(events) if isinstance(e, AnatomyFound)), None)
        if anatomy is not None:
            if not any(isinstance(e, PhasesMeasured) for e in events):
                events += session(python, replace(plain, anatomy=anatomy), folder, "again")
            events += session(python, replace(plain, anatomy=anatomy, purpose="observe"), folder, "observe")
        ledger = fold(events)
        findings = find_all(bare_evidence(ledger, Sources(read_sources(user_files(ledger)))))
    loud = {(f.slug, f.where.line if f.where is not None else 0) for f in findings if f.severity != "info"}
    return loud, ledger.facts.get("torch", "?")


def marked(script: Path) -> Found:
    """What the script's own marks say."""
    marks: Found = set()
    for number, line in enumerate(script.read_text().splitlines(), 1):
        expected = re.search(r"# expect: (.+)", line)
        marks |= {(slug, number) for slug in expected[1].split()} if expected else set()
    return marks


def main() -> int:
    """Run all scripts under all interpreters."""
    results: dict[str, dict[Path, Found]] = {}
    for python in sys.argv[1:]:
        for script in sorted(SCRIPTS.glob("*.py")):
            found, version = found_by(python, script)
            results.setdefault(version, {})[script] = found
    print("| script | finding at its line | " + " | ".join(results) + " |\n|" + "---|" * (2 + len(results)))
    for script in sorted(SCRIPTS.glob("*.py")):
        for slug, line in sorted(marked(script), key=lambda m: m[1]):
            cells = ["yes" if (slug, line) in found[script] else "-" for found in results.values()]
            print(f"| {script.name}:{line} | {slug} | " + " | ".join(cells) + " |")
    for version, found in results.items():
        extra = [f"{s.name}:{line} {slug}" for s, f in found.items() for slug, line in sorted(f - marked(s))]
        print(f"\n{version}: found and not marked: {', '.join(extra) or 'nothing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

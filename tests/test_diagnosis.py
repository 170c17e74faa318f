"""The diagnosis pass on scripts whose obstacles are marked: every finding at its line, and none elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from worker_trials import SCRIPTS, diagnosed

from speedproof.model import Finding

OBSTACLES = sorted((SCRIPTS / "obstacles").glob("*.py"))


def marked(script: Path) -> set[tuple[str, int]]:
    found = set()
    for number, line in enumerate(script.read_text().splitlines(), 1):
        expected = re.search(r"# expect: (.+)", line)
        found |= {(slug, number) for slug in expected[1].split()} if expected else set()
    return found


def loud(findings: tuple[Finding, ...]) -> set[tuple[str, int]]:
    return {(f.slug, f.where.line if f.where is not None else 0) for f in findings if f.severity != "info"}


@pytest.mark.parametrize("script", OBSTACLES, ids=lambda s: s.stem)
def test_each_obstacle_is_found_at_its_line_and_nothing_else(script: Path, tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, script)
    assert loud(findings) == marked(script)
    assert all(f.where is None or f.where.file == str(script) for f in findings if f.severity != "info")
    assert all(f.why and (f.hints or f.severity == "info") for f in findings)

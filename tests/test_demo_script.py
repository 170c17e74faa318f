"""The demo script: an ordinary user's script, and one that runs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from speedproof.demo import script_path

TINY = ["--batch-size", "2", "--image-size", "32", "--images", "8", "--classes", "10", "--workers", "0"]


def test_it_is_an_ordinary_script_that_knows_nothing_of_us() -> None:
    source = script_path().read_text(encoding="utf-8")
    ast.parse(source)
    assert "speedproof" not in source
    assert "compile" not in source
    assert '__name__ == "__main__"' in source


def test_it_trains_the_steps_it_is_told(tmp_path: object) -> None:
    pytest.importorskip("torchvision")
    command = [sys.executable, str(script_path()), "--steps", "11", *TINY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr
    # Eleven steps, and with four batches in the dataset more than one epoch.
    assert re.findall(r"^step +(\d+)  loss \d+\.\d+$", done.stdout, re.M) == ["0", "10"]

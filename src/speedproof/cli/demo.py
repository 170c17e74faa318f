"""``speedproof demo``: the main job on the ResNet-50 of the old question."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..config import options_of
from ..demo import script_path
from ..model import Command
from .run import measure, parser


def main(argv: Sequence[str]) -> int:
    """``speedproof demo``: the main job on the ResNet-50 script that ships with us."""
    p = parser()
    p.prog, p.usage = "speedproof demo", "speedproof demo [options]"
    given = vars(p.parse_args(list(argv)))
    given.pop("module")
    if given["budget"] is None:
        given["budget"] = "5m"
    # a copy: the demo is somebody's script, not a part of the package
    folder = Path(tempfile.mkdtemp(prefix="speedproof-demo-"))
    script = shutil.copy(script_path(), folder / "resnet50.py")
    try:
        return measure(Command(str(script), None, ()), options_of(given, os.environ, Path.cwd()))
    finally:
        shutil.rmtree(folder, ignore_errors=True)

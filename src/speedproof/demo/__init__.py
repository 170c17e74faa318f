"""The script of ``speedproof demo``: the ResNet-50 of the old question, as anybody would write it."""

from __future__ import annotations

from pathlib import Path


def script_path() -> Path:
    """The training script. It runs on its own, in any interpreter with torch and torchvision."""
    return Path(__file__).with_name("resnet50.py")

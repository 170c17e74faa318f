"""The options of a run: defaults < ``[tool.speedproof]`` of pyproject.toml < environment < command line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import SpeedproofError

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
NAMES = ("budget", "steps", "threshold", "variants", "python", "out", "json", "html", "seed", "quiet")


@dataclass(frozen=True)
class Options:
    """What the user wants, merged from all sources, with the documented defaults."""

    budget_s: float = 600.0
    planned_steps: int | None = None
    threshold: float = 0.05
    variants: str | None = None
    python: str = sys.executable
    out: str | None = None
    json: str | None = None
    html: str | None = None
    seed: int = 0
    quiet: bool = False


def options_of(given: Mapping[str, Any], environ: Mapping[str, str], folder: Path) -> Options:
    """Merge the layers. ``given``: what stood on the command line, as text. Raises ``SpeedproofError``."""
    layers = [
        _file_layer(folder),
        _environment_layer(environ),
        {k: v for k, v in given.items() if v is not None},
    ]
    merged: dict[str, Any] = {}
    for layer in layers:
        merged |= layer
    return Options(
        budget_s=seconds(str(merged.get("budget", "10m"))),
        planned_steps=_whole(merged.get("steps"), "steps"),
        threshold=fraction(str(merged.get("threshold", "5%"))),
        variants=_text(merged.get("variants")),
        python=_python(_text(merged.get("python"))),
        out=_text(merged.get("out")),
        json=_text(merged.get("json")),
        html=_text(merged.get("html")),
        seed=_whole(merged.get("seed"), "seed") or 0,
        quiet=str(merged.get("quiet", "")).lower() in ("1", "true", "yes"),
    )


def seconds(text: str) -> float:
    """``90s``, ``10m``, ``1h30m``, ``600``. Raises ``SpeedproofError``."""
    parts = re.findall(r"([\d.]+)\s*([smh]?)", text.strip().lower())
    if not parts or re.sub(r"[\d.]+\s*[smh]?\s*", "", text.strip().lower()):
        raise SpeedproofError("bad-budget", f"{text!r} is no length of time", "write --budget 90s, 10m or 1h30m")
    try:
        total = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    except ValueError:
        total = 0.0
    if total < 10:
        raise SpeedproofError("bad-budget", f"a budget of {total:g} s is too short", "give at least 10s")
    return total


def fraction(text: str) -> float:
    """``5%`` or ``0.05``. Raises ``SpeedproofError``."""
    try:
        value = float(text.rstrip("% ")) / (100.0 if text.strip().endswith("%") else 1.0)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1.0:
        raise SpeedproofError("bad-threshold", f"{text!r} is no share", "write --threshold 5% or 0.05")
    return value


def _whole(value: Any, name: str) -> int | None:
    if value is None:
        return None
    try:
        number = int(str(value).replace("_", "").replace(",", ""))
    except ValueError:
        number = -1
    if number < 0:
        raise SpeedproofError("bad-number", f"--{name} {value}: not a whole number", f"write --{name} 10000")
    return number


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _python(value: str | None) -> str:
    import shutil

    if value is None:
        return sys.executable
    found = shutil.which(os.path.expanduser(value))
    if found is None:
        raise SpeedproofError(
            "no-python",
            f"--python {value}: no such program",
            "name the interpreter of the project's environment",
        )
    return os.path.abspath(found)


def _environment_layer(environ: Mapping[str, str]) -> dict[str, str]:
    return {n: environ[f"SPEEDPROOF_{n.upper()}"] for n in NAMES if f"SPEEDPROOF_{n.upper()}" in environ}


def _file_layer(folder: Path) -> dict[str, Any]:
    """``[tool.speedproof]`` of the nearest pyproject.toml upwards."""
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            return _table_of(file)
    return {}


def _table_of(file: Path) -> dict[str, Any]:
    text = file.read_text(errors="replace")
    if "speedproof" not in text:  # most projects: spare them the parser
        return {}
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table = tomllib.loads(text).get("tool", {}).get("speedproof", {})
    except tomllib.TOMLDecodeError as error:
        raise SpeedproofError("bad-config", f"{file}: {error}", "mend the file, or move it away") from error
    unknown = sorted(set(table) - set(NAMES))
    if unknown:
        raise SpeedproofError(
            "bad-config",
            f"{file}: [tool.speedproof] has no option {', '.join(unknown)}",
            f"it has {', '.join(NAMES)}",
        )
    return dict(table)

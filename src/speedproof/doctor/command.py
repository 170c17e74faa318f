"""Run the probe in the interpreter under test, and draw the checks.

The probe may crash, hang or talk nonsense: each becomes a check, beside what it had found out before.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .checks import Check, Facts, Status, assess

PROBE = Path(__file__).with_name("probe.py")
NAME = "probe"
MARKS: dict[Status, str] = {"ok": "ok", "warn": "warn", "fail": "FAIL"}
COLORS: dict[Status, str] = {"ok": "32", "warn": "33", "fail": "31"}
COLUMNS = 100


@dataclass(frozen=True)
class Ended:
    """How the probe ended. ``code`` is ``None`` where it was killed for taking too long."""

    code: int | None
    output: str
    log: str


def diagnose(python: str, timeout_s: float = 180.0, *, reference: bool = True) -> tuple[Check, ...]:
    """The health of the compile stack of ``python``. Never raises for what is wrong there: that is a check.

    ``reference=False`` skips compiling the reference models, which is most of the time.
    """
    with tempfile.TemporaryDirectory(prefix="speedproof-doctor-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        progress = folder / "facts.json"
        words = [python, str(PROBE), "--progress", str(progress), *([] if reference else ["--no-reference"])]
        try:
            ended = _run(words, folder, timeout_s)
        except OSError as error:
            return (_unstartable(python, error),)
        facts = _facts(ended.output.strip().rpartition("\n")[2])
        if facts is not None and ended.code == 0:
            return assess(facts)
        partial = _facts(_read(progress)) or {}
        return (*assess(partial), _trouble(python, ended, partial, timeout_s))


def _run(words: list[str], folder: Path, timeout_s: float) -> Ended:
    # Files and not pipes: a compile worker that outlives the probe would keep a pipe open, and us waiting.
    with open(folder / "out", "wb") as out, open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=log, start_new_session=os.name != "nt"
        )
        try:
            code: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _kill_group(process)
    return Ended(code, _read(folder / "out"), _read(folder / "log"))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the probe and the compilers it started."""
    if sys.platform == "win32":
        process.kill()
    else:
        # All gone already; macOS says EPERM for a group of zombies.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _facts(text: str) -> Facts | None:
    try:
        found: Any = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, Mapping) and "schema" in found else None


def _unstartable(python: str, error: OSError) -> Check:
    return Check(
        "interpreter",
        "fail",
        f"{python} cannot be started: {error.strerror or error}",
        "Name the Python that runs your project: --python PATH (in its environment: which python)",
    )


def _trouble(python: str, ended: Ended, partial: Facts, timeout_s: float) -> Check:
    """The check for a probe that gave no answer."""
    during = f" while it looked at {partial['running']!r}" if partial.get("running") else ""
    said = _last_words(ended)
    if ended.code is None:
        return Check(
            NAME,
            "fail",
            f"no answer within {timeout_s:g} s{during}{said}",
            f"If the machine is merely slow, allow more time; otherwise see where it hangs: {python} {PROBE}",
        )
    if ended.code == 0:
        return Check(
            NAME,
            "fail",
            f"{python} ran the probe and did not answer with its facts{said}",
            "Is it a Python interpreter, and not a wrapper that prints or starts something else? Name it: "
            "--python PATH",
        )
    return Check(
        NAME,
        "fail",
        f"ended with {_exit_name(ended.code)}{during}{said}",
        f"{_crash_advice(ended)}; see it whole: {python} {PROBE}",
    )


def _crash_advice(ended: Ended) -> str:
    if "SyntaxError" in ended.log:
        return "This Python is too old: speedproof needs 3.10 or later"
    return "Importing torch or compiling crashes this interpreter"


def _last_words(ended: Ended) -> str:
    lines = [line.strip() for line in (ended.log or ended.output).splitlines() if line.strip()]
    return f"; its last words: {' | '.join(lines[-3:])[:500]}" if lines else ""


def _exit_name(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


# ------------------------------------------------------------------------------------------------------------
# Text
# ------------------------------------------------------------------------------------------------------------


def render(checks: tuple[Check, ...], color: bool) -> str:
    """Aligned lines ``mark  name  evidence``, each with its advice below, and a last line that sums up."""
    width = max((len(check.name) for check in checks), default=0)
    lines = [line for check in checks for line in _lines(check, width, color)]
    return "\n".join([*lines, "", _sum(checks)]) + "\n"


def _lines(check: Check, width: int, color: bool) -> list[str]:
    mark = MARKS[check.status].ljust(4)
    if color:
        mark = f"\x1b[{COLORS[check.status]}m{mark}\x1b[0m"
    indent = " " * (4 + 2 + width + 2)
    evidence = _wrap(_clean(check.evidence), indent)
    lines = [f"{mark}  {check.name.ljust(width)}  {evidence[0]}", *(indent + line for line in evidence[1:])]
    advice = _wrap(_clean(check.advice), indent + "-> ") if check.advice else []
    return [*lines, *(indent + ("-> " if i == 0 else "   ") + line for i, line in enumerate(advice))]


def _wrap(text: str, indent: str) -> list[str]:
    # Long words stay whole: a path or a command that is cut cannot be copied.
    return textwrap.wrap(text, COLUMNS - len(indent), break_long_words=False, break_on_hyphens=False) or [""]


def _clean(text: str) -> str:
    """One line without control characters: evidence may hold what a compiler printed for a terminal."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)).strip()


def _sum(checks: tuple[Check, ...]) -> str:
    fails, warns = (sum(check.status == status for check in checks) for status in ("fail", "warn"))
    if fails:
        return f"{fails} of {len(checks)} checks failed: begin with the first."
    head = f"{warns} of {len(checks)} checks want a look" if warns else f"All {len(checks)} checks are ok"
    # Only a compiled model proves it.
    return f"{head}: torch.compile works here." if any("reference" in c.name for c in checks) else f"{head}."

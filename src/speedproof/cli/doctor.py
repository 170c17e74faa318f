"""``speedproof doctor``: is this machine's compile stack healthy?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..doctor.command import diagnose, render


def main(argv: Sequence[str]) -> int:
    """``speedproof doctor``: exit 1 where something that compiling needs is broken."""
    p = argparse.ArgumentParser(prog="speedproof doctor", description=__doc__)
    p.add_argument("--python", default=sys.executable, metavar="PATH", help="the interpreter to look at")
    p.add_argument("--timeout", type=float, default=180.0, metavar="SECONDS")
    options = p.parse_args(argv)
    checks = diagnose(options.python, options.timeout)
    print(render(checks, sys.stdout.isatty()), end="")
    return 1 if any(c.status == "fail" for c in checks) else 0

"""The command line: one module a command, imported when its command is given, so that ``--help`` is quick."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from .. import __version__
from ..errors import Exit, SpeedproofError

COMMANDS = {  # name: (module, what it does)
    "run": ("run", "measure a script, try torch.compile on it, decide"),
    "demo": ("demo", "the same on a ResNet-50 script that ships with speedproof"),
    "report": ("report", "render a stored run again"),
    "explain": ("explain", "what stands in the compiler's way, with source, cause and cure"),
    "list": ("past", "past runs"),
    "doctor": ("doctor", "is this machine's compile stack healthy?"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code of the contract."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="speedproof",
        description="Does torch.compile pay off on my project? One command, on the unchanged script, with proof.",
        epilog="speedproof COMMAND --help says more. First try: speedproof run train.py",
    )
    parser.add_argument("--version", action="version", version=f"speedproof {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (_, help_text) in COMMANDS.items():
        commands.add_parser(name, help=help_text, add_help=False)
    known, rest = parser.parse_known_args(words[:1])
    if known.command is None:
        parser.print_help()
        return Exit.USAGE
    try:
        command = import_module(f"{__name__}.{COMMANDS[known.command][0]}")
        return int(command.main(words[1:] if not rest else [*rest, *words[1:]]))
    except SpeedproofError as error:
        print(f"speedproof: {error.message}\n  {error.hint}  [{error.slug}]", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return Exit.VERDICT

"""Run a script or a module exactly as ``python`` would."""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import runpy
import sys
import types
from typing import Any

from ..model import Command


def run_command(command: Command) -> None:
    """Run the user's program as ``__main__``. Raises whatever it raises, ``SystemExit`` included."""
    if command.module is not None:
        _run_module(command.module, command.args)
    else:
        _run_script(command.script or "", command.args)


def _run_module(module: str, args: tuple[str, ...]) -> None:
    sys.argv = ["-m", *args]
    sys.path.insert(0, os.getcwd())
    _fresh_main()
    # What ``python -m`` itself calls; it fills in argv[0] and runs in the __main__ made above.
    runpy._run_module_as_main(module)  # type: ignore[attr-defined]


def _run_script(script: str, args: tuple[str, ...]) -> None:
    sys.argv = [script, *args]
    if os.path.isdir(script) or script.endswith((".pyz", ".zip")):
        sys.path.insert(0, script)
        _fresh_main()
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
        return
    # python resolves links before it takes the folder, but names the file as it was given
    sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
    main = _fresh_main()
    main.__file__ = script if os.path.isabs(script) else os.path.join(os.getcwd(), script)  # not normalised
    main.__dict__["__cached__"] = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", main.__file__)
    with open(script, "rb") as source:
        code = compile(source.read(), main.__file__, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _fresh_main() -> Any:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    return main

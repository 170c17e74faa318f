"""Compiler options that the user's code names, looked up in the torch that is installed."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator

from ..model import Place
from . import compat
from .places import is_user_file

_BIGGEST = 1_000_000
Named = tuple[Place, str, str, str]


def settings_named() -> Iterator[Named]:
    """``(place, name, known, note)`` for every option in the source of the user's modules that are loaded."""
    for file in sorted(_user_files()):
        try:
            with open(file, encoding="utf-8", errors="replace") as source:
                tree = ast.parse(source.read(_BIGGEST))
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        aliases = _aliases(tree)
        for node in ast.walk(tree):
            yield from _attribute(node, aliases, file)
            yield from _compile_call(node, file)


def _user_files() -> set[str]:
    files = {getattr(m, "__file__", None) for m in list(sys.modules.values())}
    return {os.path.abspath(f) for f in files if f and f.endswith(".py") and is_user_file(f)}


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Local names of what is imported, in full: ``cfg`` for ``import torch._dynamo.config as cfg``."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    found[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _attribute(node: ast.AST, aliases: dict[str, str], file: str) -> Iterator[Named]:
    if not isinstance(node, ast.Attribute):
        return
    words = _dotted(node).split(".")
    full = ".".join([aliases.get(words[0], words[0]), *words[1:]])
    for module in compat.SETTINGS:
        if full.startswith(module + "."):
            name = full[len(module) + 1 :]
            if "." in name and not isinstance(getattr(node, "ctx", None), ast.Store):
                continue  # the inner part of a longer name, or a method of the value
            known = compat.setting_exists(module, name)
            if known is not None and name not in ("patch", "save_config", "load_config"):
                note = compat.setting_note(module, name) if known else ""
                yield Place(file, node.lineno, None), f"{module}.{name}", "yes" if known else "no", note


def _compile_call(node: ast.AST, file: str) -> Iterator[Named]:
    if not isinstance(node, ast.Call) or not _dotted(node.func).endswith("compile"):
        return
    for keyword in node.keywords:
        value = keyword.value
        if keyword.arg == "mode" and isinstance(value, ast.Constant) and isinstance(value.value, str):
            modes = compat.compile_modes()
            if modes and value.value not in modes:
                yield Place(file, node.lineno, None), f'mode="{value.value}"', "no", f"modes are {', '.join(modes)}"
        elif keyword.arg == "options" and isinstance(value, ast.Dict):
            for key in value.keys:
                yield from _option(key, node, file)


def _option(key: ast.expr | None, node: ast.Call, file: str) -> Iterator[Named]:
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return
    options = compat.inductor_options()
    if options and key.value.replace("-", "_") not in options:
        yield Place(file, node.lineno, None), f'options["{key.value}"]', "no", ""


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""

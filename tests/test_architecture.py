"""What the folder names promise: imports point one way, private torch names have one home, no file grows too long."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import speedproof

SOURCE = Path(speedproof.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
LONGEST = 520
MAY_BE_LONGER: dict[str, int] = {}
# Programs that another interpreter runs; the driver only knows their paths.
IN_THE_USERS_INTERPRETER = ("worker/", "doctor/probe.py", "demo/resnet50.py")
VOCABULARY = {"model", "codec", "errors", "trace"}


def name_of(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def module_of(file: Path) -> str:
    parts = ["speedproof", *file.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(file: Path) -> Iterator[str]:
    """Full names of all modules that a file imports, at its top or within functions."""
    package = module_of(file).split(".")
    if file.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            # "from . import guard" imports a module, "from .guard import start" names one
            yield from (f"{stem}.{a.name}" if is_module(f"{stem}.{a.name}") else stem for a in node.names)


def is_module(name: str) -> bool:
    head, *rest = name.split(".")
    path = SOURCE.joinpath(*rest)
    return head == "speedproof" and (path.with_suffix(".py").is_file() or (path / "__init__.py").is_file())


def part_of(module: str) -> str | None:
    """The folder or file right below the package that a module belongs to; ``None`` if it is not ours."""
    head, *rest = module.split(".")
    return (rest[0] if rest else "__init__") if head == "speedproof" else None


def parts_used_by(file: Path) -> set[str]:
    return {part for name in imports_of(file) if (part := part_of(name)) is not None}


def part_files(part: str) -> list[Path]:
    return [f for f in FILES if part_of(module_of(f)) == part]


def test_the_reading_of_imports_sees_what_there_is() -> None:
    assert parts_used_by(SOURCE / "engine.py") >= {"analyse", "execute", "plan", "store", "model"}
    assert "speedproof.execute.guard" in set(imports_of(SOURCE / "execute" / "local.py"))
    assert "speedproof.codec" in set(imports_of(SOURCE / "plan" / "arms.py"))  # inside a function


# -------------------------------------------------------------------------------------------------------------------
# Imports point one way
# -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(VOCABULARY))
def test_the_vocabulary_imports_nothing_of_the_project_but_itself(name: str) -> None:
    for file in part_files(name):
        assert parts_used_by(file) <= VOCABULARY, name_of(file)


@pytest.mark.parametrize("name", sorted(VOCABULARY))
def test_the_vocabulary_is_standard_library_only(name: str) -> None:
    for file in part_files(name):
        foreign = {i.split(".")[0] for i in imports_of(file)} - set(sys.stdlib_module_names)
        assert foreign <= {"speedproof"}, name_of(file)


ALLOWED = {
    "analyse": VOCABULARY | {"analyse"},
    "plan": VOCABULARY | {"plan", "analyse"},
    "report": VOCABULARY | {"report", "analyse"},
    "patch": VOCABULARY | {"patch", "analyse"},
    "execute": VOCABULARY | {"execute", "store"},
    "worker": {"worker", "model", "codec", "trace"},
    "doctor": VOCABULARY | {"doctor"},
    "store": VOCABULARY | {"store"},
    "config": VOCABULARY | {"config"},
}


@pytest.mark.parametrize("part", ALLOWED)
def test_each_part_imports_only_what_is_below_it(part: str) -> None:
    for file in part_files(part):
        assert parts_used_by(file) <= ALLOWED[part], name_of(file)


def test_nothing_but_the_worker_imports_the_worker() -> None:
    users = [name_of(f) for f in FILES if "worker" in parts_used_by(f) and part_of(module_of(f)) != "worker"]
    assert users == []


def test_nothing_but_the_entry_point_imports_the_command_line() -> None:
    users = {name_of(f) for f in FILES if "cli" in parts_used_by(f) and part_of(module_of(f)) != "cli"}
    assert users <= {"__main__.py"}


def test_there_is_no_import_cycle_between_parts() -> None:
    parts = {p for f in FILES if (p := part_of(module_of(f))) is not None}
    below = {p: {u for f in part_files(p) for u in parts_used_by(f)} - {p, "__init__"} for p in parts}
    while below:
        leaves = {p for p, used in below.items() if not used & set(below)}
        assert leaves, f"a cycle among {sorted(below)}"
        below = {p: used for p, used in below.items() if p not in leaves}


# -------------------------------------------------------------------------------------------------------------------
# torch
# -------------------------------------------------------------------------------------------------------------------

DRIVER = [f for f in FILES if not name_of(f).startswith(IN_THE_USERS_INTERPRETER)]


def test_the_driver_never_imports_torch() -> None:
    for file in DRIVER:
        roots = {i.split(".")[0] for i in imports_of(file)}
        assert not roots & {"torch", "torchvision", "numpy", "triton"}, name_of(file)


def test_with_all_of_the_driver_imported_torch_is_not() -> None:
    names = [module_of(f) for f in DRIVER if f.name != "__main__.py"]
    program = f"import importlib, sys\nfor n in {names!r}: importlib.import_module(n)\nprint('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.strip() == "False"


def test_the_worker_imports_no_third_party_package_but_torch() -> None:
    for file in part_files("worker"):
        foreign = {i.split(".")[0] for i in imports_of(file)} - set(sys.stdlib_module_names)
        assert foreign <= {"torch", "speedproof"}, name_of(file)


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def docstrings_of(tree: ast.Module) -> set[int]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    with_body = [n for n in ast.walk(tree) if isinstance(n, kinds) and n.body and isinstance(n.body[0], ast.Expr)]
    return {id(n.body[0].value) for n in with_body}  # type: ignore[attr-defined]


PRIVATE_MODULE = re.compile(r"torch(\.\w+)*\._(?!_)")  # dunders, such as torch.__version__, are public
PRIVATE_NAMES = {"_call_impl", "_compiled_call_impl", "_dynamo", "_inductor", "_functorch", "_C"}


def private_names_in(file: Path) -> set[str]:
    """Private torch names in the code of a file: imports, attributes, and strings other than docstrings."""
    tree, found = tree_of(file), {i for i in imports_of(file) if PRIVATE_MODULE.match(i)}
    docs = docstrings_of(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (node.attr in PRIVATE_NAMES or PRIVATE_MODULE.match(dotted(node))):
            found.add(dotted(node) or node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            words = node.value
            if words in PRIVATE_NAMES or PRIVATE_MODULE.match(words):
                found.add(words)
    return found


def test_private_torch_names_have_one_home() -> None:
    homes = {name_of(f): names for f in FILES if (names := private_names_in(f))}
    assert set(homes) == {"worker/compat.py", "doctor/probe.py"}, homes


def test_the_home_of_private_names_says_on_which_torch_it_was_checked() -> None:
    text = ast.get_docstring(tree_of(SOURCE / "worker" / "compat.py")) or ""
    assert "2.14" in text and "hecked" in text


# -------------------------------------------------------------------------------------------------------------------
# Size and words
# -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_no_file_is_too_long(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MAY_BE_LONGER.get(name_of(file), LONGEST)


def test_every_module_has_a_docstring() -> None:
    assert [name_of(f) for f in FILES if not ast.get_docstring(tree_of(f))] == []


def undocumented(file: Path) -> list[str]:
    return [
        f"{name_of(file)}:{node.lineno} {node.name}"
        for node in tree_of(file).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
        if not ast.get_docstring(node)
    ]


def test_every_public_function_and_class_has_a_docstring() -> None:
    assert [entry for f in FILES for entry in undocumented(f)] == []


def test_exceptions_are_caught_by_name_but_at_the_border_to_the_users_script() -> None:
    broad = [
        name_of(file)
        for file in FILES
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or dotted(node.type) in ("Exception", "BaseException"))
    ]
    assert {name for name in broad if not name.startswith(("worker/", "doctor/probe.py"))} <= {"engine.py"}

"""Where a value that varies comes from: from the call that gets it back through assignments to what made it.

Static and local: the nearest assignment before the line in the same function or module, a few times over. It is a
guess that a reader would make, too; where it finds nothing, the call itself is the answer.
"""

from __future__ import annotations

import ast
import re

from ..model import Place
from .source import Sources

_MOST_HOPS = 6


def origin_of_argument(sources: Sources, call: Place | None, name: str) -> Place | None:
    """The line that makes the argument ``name`` (``args[0]`` or a parameter's name) of the call on this line."""
    if call is None:
        return None
    argument = _argument(sources, call, name)
    if argument is None:
        return None
    return _chase(sources, call, argument, _MOST_HOPS)


def assignments_to(sources: Sources, file: str, attribute: str) -> list[Place]:
    """The lines that assign to ``self.attribute`` (or any object's) outside ``__init__``."""
    found = []
    for node in sources.walk(file):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr == attribute:
                place = Place(file, node.lineno)  # type: ignore[attr-defined]
                around = sources.function_at(place)
                if around is None or around.name != "__init__":
                    found.append(Place(file, place.line, around.name if around is not None else None))
    return found


def calls_of(sources: Sources, file: str, pattern: str) -> list[Place]:
    """The lines that call something whose dotted name matches, compared without underscores and case."""
    found = []
    for node in sources.walk(file):
        if isinstance(node, ast.Call):
            name = re.sub("_", "", _dotted(node.func)).lower()
            if re.search(pattern, name):
                found.append(Place(file, node.lineno, None))
    return sorted(set(found), key=lambda p: p.line)


def loop_over(sources: Sources, place: Place, name: str) -> Place | None:
    """The loop or comprehension over ``name`` in the function around the place."""
    function = sources.function_at(place)
    for node in ast.walk(function) if function is not None else ():
        iterators = (
            [node.iter]
            if isinstance(node, ast.For)
            else [g.iter for g in node.generators]
            if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
            else []
        )
        if any(name in _names(i) for i in iterators):
            return Place(place.file, node.lineno, function.name if function is not None else None)  # type: ignore[attr-defined]
    return None


def loop_around(sources: Sources, place: Place) -> ast.For | ast.While | None:
    """The innermost loop whose body contains the line, in the same function."""
    function = sources.function_at(place)
    nodes = ast.walk(function) if function is not None else sources.walk(place.file)
    around = [
        n for n in nodes if isinstance(n, (ast.For, ast.While)) and n.lineno < place.line <= (n.end_lineno or n.lineno)
    ]
    return max(around, key=lambda n: n.lineno, default=None)


def with_around(sources: Sources, place: Place, pattern: str) -> Place | None:
    """The innermost ``with`` around the line whose context matches, such as ``torch.no_grad()``."""
    found = [
        n
        for n in sources.walk(place.file)
        if isinstance(n, ast.With) and n.lineno <= place.line <= (n.end_lineno or n.lineno)
        if any(re.search(pattern, ast.unparse(i.context_expr)) for i in n.items)
    ]
    inner = max(found, key=lambda n: n.lineno, default=None)
    return None if inner is None else Place(place.file, inner.lineno, None)


def _argument(sources: Sources, call: Place, name: str) -> ast.expr | None:
    position = re.fullmatch(r"args\[(\d+)\]", name)
    calls = [
        n
        for n in sources.walk(call.file)
        if isinstance(n, ast.Call) and n.lineno <= call.line <= (n.end_lineno or n.lineno) and (n.args or n.keywords)
    ]
    calls = [
        c for c in calls if not re.search(r"loss|entropy|backward|print|float|int$", _dotted(c.func), re.I)
    ] or calls
    # the call of the network is the innermost of those left that has positional tensors
    for node in sorted(calls, key=lambda c: (c.lineno, c.col_offset), reverse=True):
        if position is not None and len(node.args) > int(position[1]):
            return node.args[int(position[1])]
        for keyword in node.keywords:
            if keyword.arg == name:
                return keyword.value
    network = [c for c in calls if isinstance(c.func, (ast.Name, ast.Attribute)) and c.args]
    return network[0].args[0] if network else None


def _chase(sources: Sources, at: Place, expression: ast.expr, hops: int) -> Place | None:
    if hops == 0:
        return None
    if any(isinstance(n, ast.Call) and not _views(n) for n in ast.walk(expression)):
        return Place(at.file, expression.lineno, at.function)  # it is made right here
    for name in _names(expression):
        found = _assignment_before(sources, at, name)
        if found is None:
            continue
        line, value, is_loop = found
        if is_loop:
            further = _chase(sources, line, value, hops - 1) if not _is_call(value) else None
            return further or line
        further = _chase(sources, line, value, hops - 1) if not _is_call(value) else line
        return further or line
    return None


def _views(call: ast.Call) -> bool:
    """Calls that only look at a tensor in another way, or move it: the shape was made earlier."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in (
        *("to", "cuda", "cpu", "float", "half", "long", "detach", "contiguous", "view", "reshape", "flatten"),
        *("squeeze", "unsqueeze", "permute", "transpose", "requires_grad_", "clone", "size"),
    )


def _is_call(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Call) and not _views(value) and _dotted(value.func) not in ("enumerate", "iter", "tqdm")
    )


def _assignment_before(sources: Sources, at: Place, name: str) -> tuple[Place, ast.expr, bool] | None:
    """The nearest assignment to a name above the line, in the same function if there is one there."""
    function = sources.function_at(at)
    for scope in (function, sources.tree(at.file)):
        if scope is None:
            continue
        found = [hit for node in ast.walk(scope) if (hit := _assigns(node, name)) and hit[0] <= at.line]
        found = [f for f in found if f[0] < at.line or f[2]]
        if found:
            line, value, is_loop = max(found, key=lambda f: f[0])
            return Place(at.file, line, at.function), value, is_loop
    return None


def _assigns(node: ast.AST, name: str) -> tuple[int, ast.expr, bool] | None:
    if isinstance(node, ast.Assign) and any(name in _targets(t) for t in node.targets):
        return node.lineno, node.value, False
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value is not None and name in _targets(node.target):
        return node.lineno, node.value, False
    if isinstance(node, (ast.For, ast.AsyncFor)) and name in _targets(node.target):
        return node.lineno, node.iter, True
    return None


def _targets(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _names(node: ast.AST) -> list[str]:
    return list(dict.fromkeys(n.id for n in ast.walk(node) if isinstance(n, ast.Name)))


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""

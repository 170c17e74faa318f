"""Recompiles: which guard failed, on what, what made it vary, and whether it settled.

A guard's text names a value by the path from the function's arguments; newer torch adds the line of source that
depended on it. Recompiles of one function for one cause are one group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from ..model import CompileLog, Finding, Place, Recompile, Severity
from .evidence import Evidence

SETTLED_STEPS = 8  # steps without a recompile at the end of the pass that count as settled

_TENSOR = r"tensor '?(?P<name>.+?)'? "
_CHANGE = r"\. expected (?P<old>\d+), actual (?P<new>\d+)"
_SHAPE = re.compile(_TENSOR + r"size mismatch at index (?P<dim>\d+)" + _CHANGE)
_RANK = re.compile(_TENSOR + "rank mismatch" + _CHANGE)
_DTYPE = re.compile(r"tensor '?(?P<name>.+?)'? (?:dtype|dispatch key set|device|stride) mismatch", re.I)
_GRAD = re.compile(r"requires_grad mismatch")
_STATE = re.compile(r"GLOBAL_STATE changed: (?P<what>.*)")
_LENGTH = re.compile(r"len\((?P<name>[^()]+(?:\([^()]*\))?[^()]*)\) (?:==|!=) \d+")
_SYMBOL = re.compile(r"_inductor/lowering\.py[^)]* in (?P<op>\w+)|lowering\.py:\d+ in (?P<op2>\w+)")
_COMMENT = re.compile(r"#\s*(?P<code>.+?)\s*#\s*(?P<file>\S+\.py):(?P<line>\d+) in (?P<function>\S+)")
_VALUE = re.compile(r"^\s*(?:not )?(?P<name>[\w.\[\]'\"()*, ]+?)\s*(?:==|!=|is|is not|<|>|<=|>=)\s*(?P<value>\S+)")
_ATTRIBUTE = re.compile(r"(?:self|module|L\['self'\]|fn)(?:\._modules\['[^']+'\])*\.(?P<name>\w+)$")
_USER_STACK = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


@dataclass(frozen=True)
class Cause:
    """What varied. ``kind``: shape, inductor-shape, length, attribute, mode, grad, lr, value, identity, dtype, hook...

    ``name`` is the argument or attribute; ``dim`` the dimension of a tensor; ``values`` are what it was seen as.
    """

    kind: str
    name: str = ""
    dim: int | None = None
    values: tuple[str, ...] = ()
    code: str = ""


@dataclass(frozen=True)
class RecompileGroup:
    """Recompiles of one function for one cause. ``frame`` is the function, ``caller`` the user's line that calls it."""

    cause: Cause
    frame: Place | None
    stack: tuple[Place, ...]
    source: Place | None
    count: int
    cost_s: float | None
    settled: bool | None
    limit_hit: bool
    steps: tuple[int, ...]
    arms: tuple[str, ...]
    first: Recompile

    @property
    def caller(self) -> Place | None:
        """The user's line from which the compiled function is called."""
        if not self.stack:
            return None
        inside = self.frame is not None and self.stack[-1].file == self.frame.file
        inside = inside and self.frame is not None and self.stack[-1].line >= self.frame.line
        return self.stack[-2] if inside and len(self.stack) > 1 else self.stack[-1]

    def frame_place(self, evidence: Evidence) -> Place | None:
        """The compiled function itself, where it is the user's own."""
        return self.frame if self.frame is not None and evidence.is_user(self.frame) else None


def cause_of(reason: str) -> Cause:
    """Read a guard. What no pattern knows is a plain ``value``."""
    guard = re.sub(r"^\d+/\d+:\s*", "", reason.strip())
    code = _COMMENT.search(guard)
    comment = code["code"] if code else ""
    for pattern, kind in ((_SHAPE, "shape"), (_RANK, "rank")):
        found = pattern.search(guard)
        if found:
            dim = int(found["dim"]) if kind == "shape" else None
            return Cause(kind, _plain(found["name"]), dim, (found["old"], found["new"]), comment)
    symbol = _SYMBOL.search(guard)
    if symbol:
        return Cause("inductor-shape", symbol["op"] or symbol["op2"] or "", code=comment)
    state = _STATE.search(guard)
    if state:
        return _of_state(state["what"])
    if _GRAD.search(guard):
        return Cause("requires_grad", code=comment)
    if _DTYPE.search(guard):
        return Cause("dtype", _plain(_DTYPE.search(guard)["name"]), code=comment)  # type: ignore[index]
    return _of_value(guard, comment)


def _of_state(what: str) -> Cause:
    if "autocast" in what:
        return Cause("autocast", what.strip())
    if "grad_mode" in what:
        return Cause("grad-mode", what.strip())
    return Cause("global-state", what.strip())


def _of_value(guard: str, comment: str) -> Cause:
    head = guard.split("#")[0].strip()
    if "hooks" in head:
        return Cause("hooks", code=comment)
    length = _LENGTH.search(head)
    if re.search(r"\['lr'\]|\.lr\b|param_groups", head):
        return Cause("learning-rate", "lr", values=_value_of(head), code=comment)
    if re.search(r"\.training\b", head):
        return Cause("mode", "training", values=_value_of(head), code=comment)
    if "___check_obj_id" in head or "check_obj_id" in head or re.search(r"\bid\(", head):
        return Cause("identity", _plain(head.split("(")[-1].split(",")[0]), code=comment)
    if length:
        return Cause("length", _plain(length["name"]), values=_value_of(head), code=comment)
    if re.search(r"\.size\(\)|\.stride\(\)|\.shape|s\d+|Eq\(|Ne\(|Mod\(", head):
        return Cause("shape", _plain(head.split(".size")[0].split("(")[-1]), code=comment)
    name = _VALUE.match(head)
    named = _plain(name["name"]) if name else head[:60]
    attribute = _ATTRIBUTE.search(named)
    if attribute:
        return Cause("attribute", attribute["name"], values=_value_of(head), code=comment)
    return Cause("value", named, values=_value_of(head), code=comment)


def _value_of(head: str) -> tuple[str, ...]:
    found = re.search(r"(?:==|!=|is not|is)\s*(\S+)", head)
    return (found[1],) if found else ()


def _plain(name: str) -> str:
    """``L['x']`` and ``'x'`` to ``x``."""
    return re.sub(r"L\['(\w+)'\]", r"\1", name).strip().strip("'\"")


def groups(evidence: Evidence) -> tuple[RecompileGroup, ...]:
    """Every cause of recompiles in this run, from all of its compile logs. Made once for a run."""
    known = evidence.memo.get("recompile groups")
    if known is None:
        known = evidence.memo["recompile groups"] = _all(evidence)
    return cast("tuple[RecompileGroup, ...]", known)


def _all(evidence: Evidence) -> tuple[RecompileGroup, ...]:
    found: dict[tuple[object, ...], RecompileGroup] = {}
    for arm, log in evidence.logs:
        quiet = evidence.ledger.observed.quiet_steps if arm == "observed" and evidence.ledger.observed else None
        for key, group in _of_log(evidence, arm, log, quiet).items():
            if key not in found or group.count > found[key].count:
                found[key] = group
    return tuple(found.values())


def _of_log(
    evidence: Evidence, arm: str, log: CompileLog, quiet: int | None
) -> dict[tuple[object, ...], RecompileGroup]:
    members: dict[tuple[object, ...], list[tuple[Recompile, Cause]]] = {}
    frames = {g.compile_id: g.where for g in log.captured}
    for entry in log.recompiles:
        cause = cause_of(entry.reason)
        frame = _frame_of(entry, frames)
        key = (cause.kind, cause.name, cause.dim, frame)
        members.setdefault(key, []).append((entry, cause))
    return {key: _group(evidence, arm, log, quiet, entries, key[3]) for key, entries in members.items()}


def _frame_of(entry: Recompile, frames: dict[str | None, Place | None]) -> Place | None:
    if entry.compile_id in frames:
        return frames[entry.compile_id]
    frame_id = (entry.compile_id or "").split("/")[0]
    known = next((w for i, w in frames.items() if i is not None and i.split("/")[0] == frame_id), None)
    return known or (entry.stack[-1] if entry.stack else None)


def _group(
    evidence: Evidence,
    arm: str,
    log: CompileLog,
    quiet: int | None,
    entries: list[tuple[Recompile, Cause]],
    frame: object,
) -> RecompileGroup:
    first, cause = entries[0]
    values = tuple(dict.fromkeys(v for _, c in entries for v in c.values))
    costs = [e.cost_s for e, _ in entries if e.cost_s is not None]
    steps = tuple(e.step for e, _ in entries if e.step is not None)
    hit = log.limit_hit and len(entries) >= 6
    return RecompileGroup(
        cause=Cause(cause.kind, cause.name, cause.dim, values, cause.code),
        frame=frame if isinstance(frame, Place) else None,
        stack=evidence.own(first.stack),
        source=_source_line(evidence, first),
        count=len(entries),
        cost_s=round(sum(costs), 3) if costs else None,
        settled=_settled(quiet, hit),
        limit_hit=hit,
        steps=steps,
        arms=(arm,),
        first=first,
    )


def _settled(quiet: int | None, hit: bool) -> bool | None:
    """Whether the recompiles came to an end by themselves, and not because torch gave up."""
    if hit:
        return False
    return None if quiet is None else quiet >= SETTLED_STEPS


def _source_line(evidence: Evidence, entry: Recompile) -> Place | None:
    """The user's line that depends on the value: from the guard's own stack, else from its comment."""
    stack = [Place(f, int(n), name) for f, n, name in _USER_STACK.findall(entry.reason)]
    own = evidence.own(stack)
    if own:
        return own[-1]
    comment = _COMMENT.search(entry.reason)
    if comment is None:
        return None
    for file in evidence.sources.texts:
        if file.endswith("/" + comment["file"]) or file == comment["file"]:
            return Place(file, int(comment["line"]), comment["function"])
    return None


def price(evidence: Evidence, group: RecompileGroup) -> tuple[float | None, str]:
    """What the group costs: milliseconds a step over the length of the script, and the same in words.

    Seconds come from the arms, which compile for real, where one of them met the same recompiles or any at all.
    """
    real = [r.cost_s for arm, log in evidence.logs if arm != "observed" for r in log.recompiles if r.cost_s]
    each = sum(real) / len(real) if real else (group.cost_s or 0.0) / group.count
    if not each:
        return None, ""
    whose = "" if real else " (tracing alone, without generating code)"
    text = f"Each costs about {each:.2g} s of compiling{whose}."
    steps = evidence.script_steps
    return (None if not steps else 1000 * each * group.count / steps), text


def finding(
    evidence: Evidence,
    group: RecompileGroup,
    slug: str,
    where: Place | None,
    why: str,
    hints: tuple[str, ...],
    *,
    benign: bool = False,
    severity: Severity | None = None,
    fix: str | None = None,
) -> Finding:
    """A finding for one group. ``benign``: it comes to an end by itself and needs no action."""
    cost_ms, price_text = price(evidence, group)
    parts = [why, f"{group.count} recompile{'s' if group.count != 1 else ''} in all.", price_text, _ending(group)]
    guard = re.sub(r"\s+", " ", group.first.reason.split("\n")[0].split(" # ")[0]).strip()[:160]
    parts.append(f"The guard that failed: {guard}.")
    return Finding(
        slug=slug,
        severity=severity or ("error" if group.limit_hit else "info" if benign else "warning"),
        where=where or group.caller,
        count=group.count,
        cost_ms=None if cost_ms is None else round(cost_ms, 4),
        why=" ".join(p for p in parts if p),
        hints=hints,
        label="benign" if benign and not group.limit_hit else "user_code",
        fix=fix,
    )


def _ending(group: RecompileGroup) -> str:
    if group.limit_hit:
        return "Torch's recompile limit was reached: from then on this function ran in eager, without a word."
    if group.settled:
        return "They came to an end by themselves."
    return ""


def few(group: RecompileGroup, most: int = 2) -> bool:
    """Whether there were so few that they are the price of starting, not of running."""
    return group.count <= most and not group.limit_hit

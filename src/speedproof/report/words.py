"""How figures and facts are put into words, the same in every report. Pure; standard library only.

Every function takes ``None`` for "never measured" and says so: an unknown figure must not look like a zero.
Text that may come from the user's project (paths, labels, messages) leaves this module without control,
bidirectional or invisible characters; escaping for HTML or Markdown is the renderer's own business.
"""

from __future__ import annotations

import math
import shlex
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from speedproof.model import (
    Anatomy,
    FileTouched,
    Finding,
    Noise,
    Place,
    Ratio,
    Result,
    Root,
    Variant,
    Verdict,
)

UNKNOWN = "not known"
DASH = "–"  # the same in a table cell, where two words are too wide
THRESHOLD = 0.05  # the gain below which a speed-up is not called one, unless the user says otherwise
FILES_SHOWN = 5

VERDICTS = {
    "worth_it": "worth it",
    "worth_it_after_fix": "worth it after a fix",
    "not_worth_it": "not worth it",
    "unsafe": "unsafe",
    "inconclusive": "inconclusive",
    "failed": "the script fails",
}
LABELS = {"user_code": "your code", "library": "library", "compiler": "compiler", "benign": "harmless"}
NUMERICS = {"pass": "match eager", "fail": "differ from eager", "not_checked": "not checked"}

# ------------------------------------------------------------------------------------------------------------
# Numbers
# ------------------------------------------------------------------------------------------------------------


def finite(value: float | None) -> float | None:
    """The value as a float, or ``None`` where it is unknown, not a number or too large for arithmetic."""
    if value is None:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and abs(number) < 1e30 else None


def number(value: float | None) -> str:
    """About three digits that carry meaning: 1,234 then 123 then 12.3 then 1.23 then 0.012."""
    known = finite(value)
    if known is None:
        return UNKNOWN
    size = abs(known)
    if size >= 1e15:
        return f"{known:.1e}"
    if size >= 99.95:
        return f"{known:,.0f}"
    if size >= 9.995:
        return f"{known:.1f}"
    return f"{known:.2f}" if size >= 0.0995 or size == 0 else f"{known:.2g}"


def count(value: int | None) -> str:
    """A whole number with thousands separators."""
    if finite(value) is None or value is None:
        return UNKNOWN
    return f"{value:,}" if abs(value) < 10**15 else f"{float(value):.1e}"


def scaled(value: float | None) -> str:
    """A count by its order of size, for parameters and axes: 950, 12.4k, 124M, 1.3B."""
    known = finite(value)
    if known is None:
        return UNKNOWN
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(known) >= size * 0.9995:
            return f"{_trim(known / size)}{unit}"
    return _trim(known)


def plural(value: int, noun: str) -> str:
    """A count and its noun, with an s where there is not exactly one."""
    return f"{count(value)} {noun}" if value == 1 else f"{count(value)} {noun}s"


def times(value: float | None) -> str:
    """A ratio of step times: 1.42x."""
    known = finite(value)
    if known is None:
        return UNKNOWN
    return f"{known:.2f}x" if 0.01 <= known < 9.995 else f"{number(known)}x"


def interval(ratio: Ratio | None) -> str:
    """The 95% interval of a ratio: 1.38x to 1.46x."""
    if ratio is None or finite(ratio.low) is None or finite(ratio.high) is None:
        return UNKNOWN
    return f"{times(ratio.low)} to {times(ratio.high)}"


def share(value: float | None) -> str:
    """A part of a whole: 63%."""
    known = finite(value)
    if known is None:
        return UNKNOWN
    return "<1%" if 0 < known < 0.005 else f"{_trim(round(known * 100))}%"


def effect(value: float | None) -> str:
    """A small difference, with one decimal where that matters: 2.1%, 5%, 12%."""
    known = finite(value)
    return UNKNOWN if known is None else f"{_trim(known * 100)}%"


def milliseconds(value: float | None) -> str:
    """A step time or a cost a step, given in milliseconds: 850 µs, 12.3 ms, 1.23 s."""
    known = finite(value)
    if known is None:
        return UNKNOWN
    if abs(known) >= 999.5:
        return duration(known / 1e3) if abs(known) >= 60_000 else f"{number(known / 1e3)} s"
    return f"{number(known * 1e3)} µs" if 0 < abs(known) < 0.0995 else f"{number(known)} ms"


def duration(value: float | None) -> str:
    """A span of wall time, given in seconds: 85 ms, 8.1 s, 43 s, 2m 05s, 1h 02m, 3d 4h."""
    known = finite(value)
    if known is None:
        return UNKNOWN
    if known < 0:
        return f"-{duration(-known)}"
    if known < 0.0995:
        return f"{known * 1e3:.0f} ms" if known else "0 s"
    if known < 9.95:
        return f"{known:.1f} s"
    seconds = round(known)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60:02d}s"
    if seconds < 86_400:
        return f"{seconds // 3600}h {seconds % 3600 // 60:02d}m"
    return f"{count(seconds // 86_400)}d {seconds % 86_400 // 3600}h"


def size(value: int | None) -> str:
    """An amount of memory, given in bytes: 512 B, 812 MiB, 3.2 GiB."""
    known = finite(value)
    if known is None:
        return UNKNOWN
    unit = "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(known) < 999.5:
            break
        known, unit = known / 1024, larger
    whole = unit == "B" or abs(known) >= 99.5
    return f"{known:,.0f} {unit}" if whole else f"{known:.1f} {unit}"


def _trim(value: float) -> str:
    """At most one decimal, and none where it would be a zero."""
    text = f"{value:,.0f}" if abs(value) >= 99.5 else f"{value:.1f}"
    return text.removesuffix(".0") if abs(value) < 1e15 else f"{value:.1e}"


# ------------------------------------------------------------------------------------------------------------
# Text from the user's project
# ------------------------------------------------------------------------------------------------------------

# Control, format (bidirectional, zero width), surrogate, private and unassigned characters, line separators:
# they can repaint a terminal, reorder a line, or be refused by an encoder.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean(text: str, *, lines: bool = False) -> str:
    """The text with unseen characters as escapes, in one line unless ``lines`` keeps its newlines."""
    if lines:
        return "\n".join(_visible(line.expandtabs(4)) for line in text.replace("\r\n", "\n").split("\n"))
    return _visible(" ".join(text.split()))


def short(text: str, limit: int) -> str:
    """The cleaned text, cut at the end to ``limit`` characters."""
    whole = clean(text)
    return whole if len(whole) <= limit else f"{whole[: limit - 1].rstrip()}…"


def short_path(path: str, limit: int = 48) -> str:
    """The cleaned path, cut at the start: the end of a path tells more."""
    whole = clean(path)
    return whole if len(whole) <= limit else f"…{whole[len(whole) - limit + 1 :]}"


def place(where: Place | None) -> str:
    """A line of source: train.py:41 in forward."""
    if where is None:
        return "no place in your code"
    spot = f"{short_path(where.file)}:{where.line}"
    return f"{spot} in {short(where.function, 40)}" if where.function else spot


def full_place(where: Place | None) -> str:
    """The same with the whole path, as editors and terminals open it."""
    if where is None:
        return "no place in your code"
    spot = f"{clean(where.file)}:{where.line}"
    return f"{spot} in {clean(where.function)}" if where.function else spot


def command(result: Result) -> str:
    """The user's own command line."""
    return clean(shlex.join(result.command)) or UNKNOWN


def slug_words(slug: str) -> str:
    """A slug for human eyes: ``waits_for_data`` becomes "waits for data"."""
    return clean(slug.replace("_", " ").replace("-", " "))


def _visible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(c) if unicodedata.category(c) in _UNSEEN else c for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# ------------------------------------------------------------------------------------------------------------
# Sentences that more than one report needs
# ------------------------------------------------------------------------------------------------------------


def verdict_words(verdict: Verdict) -> str:
    """Kind and summary as one sentence: worth it: a step is 1.42x faster."""
    kind = VERDICTS[verdict.kind]
    summary = clean(verdict.summary)
    return f"{kind}: {summary}" if summary else kind


def whys(result: Result) -> tuple[str, ...]:
    """The reasons of the verdict, with their figures; where the script itself failed, its error as well."""
    found = [slug_words(reason) for reason in result.verdict.reasons]
    if result.verdict.why:
        found.append(clean(result.verdict.why))
    failure = result.failure
    if failure is not None and failure.error:
        spot = f" ({place(failure.where)})" if failure.where else ""
        found.append(f"{clean(failure.error)}: {short(failure.message, 200)}{spot}")
    return tuple(why for why in found if why) or (UNKNOWN,)


def advices(result: Result) -> tuple[str, ...]:
    """What to do next; never empty, as each message owes its reader that."""
    return tuple(filter(None, map(clean, result.verdict.advice))) or ("nothing more to suggest",)


def ceiling(result: Result) -> str:
    """The most that compiling could gain, and why."""
    most, why = result.ceiling.max_speedup, clean(result.ceiling.why)
    head = f"at most {times(most)}" if finite(most) is not None else UNKNOWN
    return f"{head}: {why}" if why else head


def noise(facts: Noise) -> str:
    """What eager against eager showed, and the smallest effect that can be told from it."""
    aa = facts.aa
    seen = "eager against eager not measured"
    if aa is not None:
        seen = f"eager against eager {times(aa.ratio)} ({interval(aa)})"
    return f"{seen}; smallest effect that can be shown: {effect(facts.smallest_effect)}"


def anatomy_facts(anatomy: Anatomy | None) -> tuple[tuple[str, str], ...]:
    """What the loop is made of, as (name, text) pairs."""
    if anatomy is None:
        return (("loop", UNKNOWN),)
    boundary = anatomy.boundary
    ends = clean(boundary.label) or boundary.kind
    step = f"a step is {boundary.every} x {ends}" if boundary.every > 1 else f"a step ends at {ends}"
    loaders = (
        f"{short(x.dataset, 32)} (batch {x.batch_size if x.batch_size is not None else UNKNOWN}, "
        f"{plural(x.workers, 'worker')})"
        for x in anatomy.loaders
    )
    sites = (f"{clean(x.how)} at {place(x.where)}" for x in anatomy.sites)
    facts = (
        ("loop", f"{anatomy.kind} on {clean(anatomy.device) or UNKNOWN}; {step}"),
        ("networks", _some(_root(root) for root in anatomy.roots if root.role == "network")),
        ("loaders", _some(loaders)),
        ("optimizers", _some(short(x.name, 32) for x in anatomy.optimizers)),
        ("own torch.compile", _some(sites)),
    )
    return tuple((name, text) for name, text in facts if text != "none" or name in ("networks", "loaders"))


def file_facts(files: Iterable[FileTouched]) -> tuple[str, ...]:
    """What the script wrote while it was measured, and what became of it."""
    touched = tuple(files)
    edited = [f for f in touched if f.how in ("changed", "removed")]
    groups = (
        ("put back as before", [f for f in edited if f.kept is not None]),
        ("changed or removed, no copy was kept", [f for f in edited if f.kept is None]),
        ("written to a scratch folder instead", [f for f in touched if f.how == "diverted"]),
        ("created, left in place", [f for f in touched if f.how == "created"]),
    )
    return tuple(
        f"{name}: {_some((short_path(f.path) for f in group), FILES_SHOWN)}" for name, group in groups if group
    )


def _root(root: Root) -> str:
    return f"{short(root.name, 40) or 'unnamed'} ({scaled(root.parameters)} parameters)"


def _some(items: Iterable[str], limit: int = 4) -> str:
    """A list in a line, with a count in place of what does not fit."""
    every = list(items)
    if not every:
        return "none"
    rest = [f"and {count(len(every) - limit)} more"] if len(every) > limit else []
    return ", ".join(every[:limit] + rest)


# ------------------------------------------------------------------------------------------------------------
# A variant, a finding, in the cells of a table
# ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """One variant as text. A dash stands for what is not known."""

    label: str
    outcome: str
    ratio: str
    interval: str
    compile: str
    break_even: str
    memory: str
    counts: str


def cells(variant: Variant) -> Cells:
    """The texts of a variant's row, the same in every format."""
    label = clean(variant.label) or clean(variant.id)
    cost = variant.compile_s
    cold, warm = _dash(duration(cost.cold)), _dash(duration(cost.warm))
    counts = (variant.graphs, variant.graph_breaks, variant.recompiles)
    return Cells(
        label=f"{label} (rival)" if variant.kind == "rival" else label,
        outcome=outcome(variant),
        ratio=_dash(times(variant.speedup.ratio if variant.speedup else None)),
        interval=_dash(interval(variant.speedup)),
        compile=DASH if cold == warm == DASH else f"{cold} / {warm}",
        break_even=break_even(variant),
        memory=_dash(size(variant.peak_bytes)),
        counts=DASH if counts == (None, None, None) else " / ".join(_dash(count(n)) for n in counts),
    )


def outcome(variant: Variant) -> str:
    """How the trial ended; wrong numbers outrank everything else."""
    return "wrong numbers" if variant.numerics.status == "fail" else variant.outcome.replace("_", " ")


def break_even(variant: Variant) -> str:
    """Steps until compiling has paid for itself; "never" where a step is no faster."""
    if variant.break_even_steps is not None:
        return _dash(count(variant.break_even_steps))
    ratio = finite(variant.speedup.ratio) if variant.speedup else None
    return "never" if variant.outcome == "completed" and ratio is not None and ratio <= 1 else DASH


def finding_cost(finding: Finding, step_ms: float | None = None) -> str:
    """What a finding costs a step, in time and as a share of ``step_ms``, and how often it was seen."""
    seen = f", seen {plural(finding.count, 'time')}" if finding.count is not None else ""
    cost = f"{milliseconds(finding.cost_ms)} a step" if finding.cost_ms is not None else "cost not known"
    part = part_of(finding.cost_ms, step_ms)
    return f"{cost}{f' ({effect(part)} of it)' if part is not None else ''}{seen}"


def part_of(ms: float | None, step_ms: float | None) -> float | None:
    """A cost as a share of a step; ``None`` where either is not known."""
    cost, step = finite(ms), finite(step_ms)
    return finite(cost / step) if cost is not None and step is not None and step > 0 else None


def _dash(text: str) -> str:
    return DASH if text == UNKNOWN else text

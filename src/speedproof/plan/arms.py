"""The space of arms, and which of them apply here."""

from __future__ import annotations

import json
from pathlib import Path

from ..errors import SpeedproofError
from ..model import Anatomy, Arm, ArmConfig, ArmVoided, Ceiling

AA = Arm("aa", "eager against eager", "eager")
VERIFY = Arm("verify", "eager, past the step where a variant crashed", "eager")
AS_WRITTEN = Arm("as_written", "as the script is written", "as_written")

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_BACKENDS = ("eager", "aot_eager", "cudagraphs")


def mode_arm(mode: str) -> Arm:
    """``torch.compile`` with Inductor in this mode."""
    label = "torch.compile" if mode == "default" else f'torch.compile(mode="{mode}")'
    return Arm(mode, label, "compile", ArmConfig(mode=mode, backend="inductor"))


def backend_arm(backend: str) -> Arm:
    """``torch.compile`` with this backend, to see where in the stack the time goes."""
    return Arm(backend, f'torch.compile(backend="{backend}")', "compile", ArmConfig(backend=backend))


def standard_arms() -> tuple[Arm, ...]:
    """What is tried unless the user names something else."""
    return (AS_WRITTEN, *(mode_arm(m) for m in _MODES))


def named_arms(text: str) -> tuple[Arm, ...]:
    """The value of ``--variants``: names separated by commas, or a JSON file with a list of arms.

    Raises ``SpeedproofError`` for a name that is no variant.
    """
    if text.endswith(".json"):
        return _arms_of_file(Path(text))
    known = {a.id: a for a in (AS_WRITTEN, *map(mode_arm, _MODES), *map(backend_arm, _BACKENDS))}
    names = [n.strip() for n in text.split(",") if n.strip()]
    unknown = [n for n in names if n not in known]
    if unknown or not names:
        raise SpeedproofError(
            "unknown-variant",
            f"no variant is called {', '.join(unknown) or '(nothing)'}",
            f"choose from {', '.join(known)}, or name a .json file with a list of arms",
        )
    return tuple(known[n] for n in dict.fromkeys(names))


def _arms_of_file(path: Path) -> tuple[Arm, ...]:
    from .. import codec

    try:
        plain = json.loads(path.read_text())
        arms = tuple(codec.from_plain(Arm, entry) for entry in plain)
        if not arms or len({a.id for a in arms}) < len(arms):
            raise ValueError("it needs at least one variant, and ids that differ")
        return arms
    except (OSError, ValueError, TypeError) as error:
        raise SpeedproofError(
            "bad-variants-file",
            f"{path} holds no list of variants: {error}",
            'write a JSON list such as [{"id": "d", "label": "dynamic", "kind": "compile",'
            ' "config": {"dynamic": true}}]',
        ) from error


def applicable(
    wanted: tuple[Arm, ...], anatomy: Anatomy, explicit: bool, now_s: float
) -> tuple[tuple[Arm, ...], tuple[ArmVoided, ...]]:
    """Split the wanted arms into those to try and those that cannot matter here, with the reason.

    ``explicit``: the user named them, so only what is impossible is left out.
    """
    tried, skipped = [], []
    for arm in wanted:
        why = _why_not(arm, anatomy, explicit, wanted)
        if why is None:
            tried.append(arm)
        elif arm != AS_WRITTEN or explicit:
            skipped.append(ArmVoided(now_s, arm.id, "skipped", why))
    return tuple(tried), tuple(skipped)


def none_can_gain(wanted: tuple[Arm, ...], ceiling: Ceiling, bar: float, now_s: float) -> tuple[ArmVoided, ...]:
    """All arms, skipped, where the anatomy of the step proves that none can reach the bar; else nothing."""
    most = ceiling.max_speedup
    if most is None or most >= bar:
        return ()
    why = f"no variant can gain more than {100 * (most - 1):.1f}%: {ceiling.why}"
    return tuple(ArmVoided(now_s, arm.id, "skipped", why) for arm in wanted if arm.kind != "as_written")


def _why_not(arm: Arm, anatomy: Anatomy, explicit: bool, wanted: tuple[Arm, ...]) -> str | None:
    if arm.kind == "as_written":
        return None if anatomy.sites else "the script does not ask for compilation"
    if not any(r.target for r in anatomy.roots) and not anatomy.sites:
        return "the loop calls no module at its top level, so there is nothing to compile"
    if arm.id == "default" and AS_WRITTEN in wanted and as_written_is_default(anatomy) and not explicit:
        return "the script itself compiles its networks with torch's defaults: see as_written"
    if explicit or anatomy.device == "cuda":
        return None
    if arm.config.mode == "reduce-overhead":
        return f"there are no CUDA graphs on {anatomy.device}: the mode is the same as default"
    if arm.config.mode in ("max-autotune", "max-autotune-no-cudagraphs"):
        return f"autotuning of kernels is for GPUs; on {anatomy.device} name it in --variants to have it tried"
    return None


def as_written_is_default(anatomy: Anatomy) -> bool:
    """Whether the script's own requests are, taken together, what the arm ``default`` would do."""
    if not anatomy.sites or any(s.options for s in anatomy.sites):
        return False
    targets = [r.name for r in anatomy.roots if r.target]
    compiled = [s.name for s in anatomy.sites]
    return not targets or sorted(targets) == sorted(compiled)

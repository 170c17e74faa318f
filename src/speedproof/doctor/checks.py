"""Facts of the probe to checks: what is healthy, what is not, and what to do about it. Pure.

``fail``: torch.compile will not work, or works wrongly. ``warn``: it works, but slower than it could, or the
machine is no place to measure on. Each line that is not ``ok`` says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["ok", "warn", "fail"]
Facts = Mapping[str, Any]

GIB = 2**30
LOW_DISK_BYTES = 1 * GIB
LOW_CARD_SHARE = 0.2
# Triton makes no code for anything older; Inductor raises GPUTooOldForTriton (torch/_inductor/scheduler.py).
OLDEST_CAPABILITY = (7, 0)
# PyTorch's own benchmark runner: at most twice the error that eager has against float64, plus a tolerance.
ERROR_FACTOR, ERROR_TOLERANCE = 2.0, 1e-4
# A fused pointwise chain gains 2x and more where all is well; below this something else eats the time.
LEAST_RATIO = 1.1


@dataclass(frozen=True)
class Check:
    """One line of the doctor. ``advice`` is empty only where ``status`` is ok."""

    name: str
    status: Status
    evidence: str
    advice: str = ""


@dataclass(frozen=True)
class Rule:
    """``judge`` reads one section of the facts; ``broken`` is the check where that section raised."""

    name: str
    section: str
    judge: Callable[[str, Facts, Facts], Check | None]
    broken: Callable[[str, str, Facts], Check | None]


def assess(facts: Facts) -> tuple[Check, ...]:
    """What each rule has to say about these facts, in the order of a build: interpreter to model."""
    checks = (_apply(rule, facts) for rule in RULES)
    return tuple(check for check in checks if check is not None)


def _apply(rule: Rule, facts: Facts) -> Check | None:
    section = facts.get(rule.section)
    if not isinstance(section, Mapping):
        # The probe ended before; how it ended is a check of its own.
        return None
    if "skipped" in section:
        return None
    if "error" in section:
        return rule.broken(rule.name, str(section["error"]), facts)
    return rule.judge(rule.name, section, facts)


def _ok(name: str, evidence: str) -> Check:
    return Check(name, "ok", evidence)


def _section(facts: Facts, name: str) -> Facts:
    value = facts.get(name)
    return value if isinstance(value, Mapping) else {}


def _has_card(facts: Facts) -> bool:
    return bool(_section(facts, "cuda").get("available"))


def _interpreter(facts: Facts) -> str:
    return str(_section(facts, "python").get("executable") or "python")


def _unknown(name: str, error: str, facts: Facts) -> Check:
    return Check(
        name,
        "warn",
        f"could not be found out: {error}",
        "If the reference model below is ok, this needs no action; otherwise look at this error first.",
    )


# ------------------------------------------------------------------------------------------------------------
# Interpreter and torch
# ------------------------------------------------------------------------------------------------------------


def _python(name: str, found: Facts, facts: Facts) -> Check:
    return _ok(
        name,
        f"{found.get('version')} ({found.get('machine')}, {found.get('system')}) {found.get('executable')}",
    )


def _torch(name: str, found: Facts, facts: Facts) -> Check:
    version = str(found.get("version"))
    if not found.get("has_compile"):
        return Check(
            name,
            "fail",
            f"{version} has no torch.compile",
            f"Install torch 2.0 or later: {_interpreter(facts)} -m pip install --upgrade torch",
        )
    return _ok(name, f"{version} ({_build(found)})")


def _build(found: Facts) -> str:
    for key, label in (("cuda_build", "CUDA"), ("hip_build", "ROCm")):
        if found.get(key):
            return f"built for {label} {found[key]}"
    return "CPU build"


def _torch_broken(name: str, error: str, facts: Facts) -> Check:
    python = _interpreter(facts)
    if error.startswith("ModuleNotFoundError") and "'torch'" in error:
        return Check(
            name,
            "fail",
            f"torch is not installed for {python}",
            "Name the interpreter that runs your project (--python PATH), or install torch for this one: "
            f"{python} -m pip install torch",
        )
    return Check(
        name,
        "fail",
        f"import torch fails: {error}",
        "The installation is damaged or built for another system; reinstall it: "
        f"{python} -m pip install --force-reinstall torch",
    )


def _dynamo(name: str, found: Facts, facts: Facts) -> Check:
    off = [n for n in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE") if _is_on(facts, n)]
    if off:
        return Check(
            name,
            "fail",
            f"{off[0]} is set: torch.compile compiles nothing, without an error",
            f"Unset it for measurements: unset {off[0]}",
        )
    if _is_on(facts, "TORCHDYNAMO_SUPPRESS_ERRORS"):
        return Check(
            name,
            "warn",
            "TORCHDYNAMO_SUPPRESS_ERRORS is set: what cannot be compiled runs eager, without an error",
            "Unset it for measurements: unset TORCHDYNAMO_SUPPRESS_ERRORS",
        )
    return _ok(name, f"supports Python {_section(facts, 'python').get('version')}")


def _is_on(facts: Facts, name: str) -> bool:
    return str(_section(facts, "environment").get(name, "")) not in ("", "0")


def _dynamo_broken(name: str, error: str, facts: Facts) -> Check:
    return Check(
        name,
        "fail",
        error,
        "Use a Python version that your torch supports (https://pytorch.org/get-started), or a newer torch.",
    )


# ------------------------------------------------------------------------------------------------------------
# Compilers
# ------------------------------------------------------------------------------------------------------------


def _compiler(name: str, found: Facts, facts: Facts) -> Check:
    label = f"{found.get('command')}: {found.get('version')}"
    if found.get("plain"):
        return _needed(name, f"{label}; a one-line file fails: {found['plain']}", _install_compiler(facts), facts)
    if found.get("openmp"):
        return _needed(name, f"{label}; works, but not with OpenMP: {found['openmp']}", _install_openmp(facts), facts)
    return _ok(name, label + (", with OpenMP" if found.get("openmp_flags") else ""))


def _compiler_broken(name: str, error: str, facts: Facts) -> Check:
    chosen = _section(facts, "environment").get("CXX")
    seen = f"CXX={chosen}: " if chosen else ""
    advice = _install_compiler(facts)
    return _needed(name, seen + error, f"Correct or unset CXX. {advice}" if chosen else advice, facts)


def _needed(name: str, evidence: str, advice: str, facts: Facts) -> Check:
    """A tool that generated code is built with. Where a model did compile without it, it is no failure."""
    if _section(facts, "reference_cuda" if _has_card(facts) else "reference_cpu").get("graphs"):
        return Check(name, "warn", f"{evidence} (the reference model compiled without it)", advice)
    return Check(name, "fail", evidence, advice)


def _install_compiler(facts: Facts) -> str:
    return {
        "darwin": "Install the command line tools: xcode-select --install",
        "win32": "Install the Visual Studio Build Tools (with C++) and start from their prompt.",
    }.get(
        str(_section(facts, "python").get("platform")),
        "Install one: apt install g++, or dnf install gcc-c++, or conda install -c conda-forge gxx; "
        "or name another with CXX=PATH",
    )


def _install_openmp(facts: Facts) -> str:
    return "Install OpenMP for this compiler (clang: apt install libomp-dev), or use GCC: CXX=g++"


def _header(name: str, found: Facts, facts: Facts) -> Check:
    include = found.get("include")
    if found.get("header"):
        return _ok(name, f"in {include}")
    minor = ".".join(str(found.get("version")).split(".")[:2])
    return _needed(
        name,
        f"no Python.h in {include}: what Inductor and Triton generate includes it",
        f"Install it: apt install python{minor}-dev, or dnf install python3-devel; the Pythons of conda and uv have it",
        facts,
    )


def _c_compiler(name: str, found: Facts, facts: Facts) -> Check | None:
    if not found.get("available"):
        return None
    if found.get("c_compiler"):
        return _ok(name, str(found["c_compiler"]))
    return _needed(
        name,
        "neither CC nor clang nor gcc: Triton builds its launcher with one",
        "Install one: apt install gcc, or conda install -c conda-forge gcc",
        facts,
    )


def _triton(name: str, found: Facts, facts: Facts) -> Check:
    return _ok(name, f"{found.get('version')}" + ("" if _has_card(facts) else " (not needed without a GPU)"))


def _triton_broken(name: str, error: str, facts: Facts) -> Check | None:
    if not _has_card(facts):
        return None  # the CPU route is C++
    advice = f"torch's own wheels bring it: {_interpreter(facts)} -m pip install --force-reinstall torch"
    if _section(facts, "python").get("platform") == "win32":
        advice = f"On Windows it is a package of its own: {_interpreter(facts)} -m pip install triton-windows"
    return Check(name, "fail", f"{error}: Inductor has no code for the GPU without it", advice)


# ------------------------------------------------------------------------------------------------------------
# Machine
# ------------------------------------------------------------------------------------------------------------


def _gpu(name: str, found: Facts, facts: Facts) -> Check:
    if found.get("available"):
        return _card(name, found, facts)
    if found.get("card_seen"):
        return _unused_card(name, found, facts)
    others = " and ".join(found.get("others") or ())
    instead = f"; {others} is there, which speedproof does not check" if others else ""
    return _ok(
        name,
        f"no CUDA device{instead}: verdicts hold for this CPU, where there are no CUDA graphs to gain from",
    )


def _card(name: str, found: Facts, facts: Facts) -> Check:
    major, minor = found.get("capability") or (0, 0)
    label = f"{found.get('name')}, capability {major}.{minor}, driver {found.get('driver') or 'unknown'}"
    if found.get("count", 1) > 1:
        label += f", the first of {found['count']}"
    if (major, minor) < OLDEST_CAPABILITY and not _section(facts, "torch").get("hip_build"):
        return Check(
            name,
            "fail",
            f"{label}: Triton needs capability 7.0, so compiling for this card raises GPUTooOldForTriton",
            "Stay with eager on this card, or try backend='cudagraphs', which needs no Triton.",
        )
    return _ok(name, label)


def _unused_card(name: str, found: Facts, facts: Facts) -> Check:
    said = "; ".join(found.get("warnings") or ()) or "torch.cuda.is_available() is False"
    torch = _section(facts, "torch")
    hidden = _section(facts, "environment").get("CUDA_VISIBLE_DEVICES")
    if not torch.get("cuda_build"):
        advice = "Install a CUDA build of torch: https://pytorch.org/get-started"
    elif hidden in ("", "-1"):
        advice = "CUDA_VISIBLE_DEVICES hides every card; unset it."
    else:
        advice = (
            f"Bring the driver up to what CUDA {torch.get('cuda_build')} needs, or install a torch built for "
            "an older CUDA; in a container, pass the card through (--gpus all)."
        )
    return Check(name, "warn", f"there is an NVIDIA driver, but torch ({_build(torch)}) uses no card: {said}", advice)


def _card_load(name: str, found: Facts, facts: Facts) -> Check | None:
    if not found.get("available"):
        return None
    free, total = int(found.get("free_bytes") or 0), int(found.get("total_bytes") or 0)
    label = f"{free / GIB:.1f} of {total / GIB:.1f} GiB free"
    others, busy = list(found.get("processes") or ()), _percent(found.get("busy_percent"))
    if others or busy > 10:
        who = f"processes (pid, MiB): {'; '.join(others)}" if others else "a process that is not visible from here"
        return Check(
            name,
            "warn",
            f"{label}; {busy}% busy; shared with {who}",
            "Times measured beside other work are noise: wait for it, or choose a free card with CUDA_VISIBLE_DEVICES.",
        )
    if free < LOW_CARD_SHARE * total:
        return Check(
            name,
            "warn",
            label,
            "Autotuning and CUDA graphs need room: free the card's memory, or choose another card.",
        )
    return _ok(name, f"{label}, no other process seen")


def _percent(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isdigit() else 0


def _cache(name: str, found: Facts, facts: Facts) -> Check:
    path, free = found.get("path"), int(found.get("free_bytes") or 0)
    move = "Choose another folder: export TORCHINDUCTOR_CACHE_DIR=/path/with/room"
    if found.get("write_error"):
        return Check(name, "fail", f"{path} cannot be written: {found['write_error']}", move)
    if found.get("noexec"):
        return Check(name, "fail", f"{path} is on a noexec mount: compiled libraries cannot be loaded from it", move)
    label = f"{path}, {free / GIB:.1f} GiB free"
    if free < LOW_DISK_BYTES:
        return Check(name, "warn", label, f"Free some space. {move}")
    return _ok(name, label)


def _cpu(name: str, found: Facts, facts: Facts) -> Check:
    threads, usable = int(found.get("threads") or 1), _usable(found)
    label = f"{usable:g} usable of {found.get('count')}, {threads} threads, ATen {found.get('aten')}"
    if threads > usable + 0.5:
        return Check(
            name,
            "warn",
            f"{label}: more threads than CPUs wait for each other",
            f"Set OMP_NUM_THREADS={max(1, int(usable))}, in the runs that you measure and in the real ones.",
        )
    if threads == 1 and usable >= 4:
        return Check(
            name,
            "warn",
            f"{label}: one thread only",
            "Right for workers that share a machine; otherwise unset OMP_NUM_THREADS or set it to the cores.",
        )
    return _ok(name, label)


def _usable(found: Facts) -> float:
    usable = float(found.get("usable") or found.get("count") or 1)
    return min(usable, float(found["quota"])) if found.get("quota") else usable


def _simd(name: str, found: Facts, facts: Facts) -> Check:
    if found.get("bits"):
        return _ok(name, f"{found.get('isa')} ({found['bits']} bits)")
    return Check(
        name,
        "warn",
        "Inductor found no vector instructions that it can build for: CPU code will be scalar",
        "See the C++ compiler above: it must be recent, and build for this machine's architecture.",
    )


# ------------------------------------------------------------------------------------------------------------
# Reference models
# ------------------------------------------------------------------------------------------------------------


def _reference(name: str, found: Facts, facts: Facts) -> Check:
    if not found.get("graphs"):
        return Check(
            name,
            "fail",
            "torch.compile ran, and compiled nothing (0 graphs)",
            "Look for what switches it off: TORCH_COMPILE_DISABLE, TORCHDYNAMO_DISABLE, a debugger.",
        )
    eager, compiled = float(found.get("eager_error") or 0), float(found.get("compiled_error") or 0)
    if not compiled <= ERROR_FACTOR * eager + ERROR_TOLERANCE:  # "not <=", so that nan counts as wrong
        return Check(
            name,
            "fail",
            f"compiled, but wrong: error against float64 {compiled:.2g}, eager's {eager:.2g}",
            "Trust no compiled result here. Update torch and the compiler, empty Inductor's cache, and if it "
            "stays, report it: https://github.com/pytorch/pytorch/issues",
        )
    return _timed(name, found)


def _timed(name: str, found: Facts) -> Check:
    ratio = float(found.get("ratio") or 0)
    label = f"compiled in {float(found.get('compile_s') or 0):.1f} s, agrees with eager, {ratio:.2f}x as fast"
    if ratio >= LEAST_RATIO:
        return _ok(name, label)
    return Check(
        name,
        "warn",
        f"{label}: this model is made to gain",
        "Expect little of compile here until the cause is found: a busy machine, too many threads or scalar "
        "code (see above). On a CPU, try GOMP_SPINCOUNT=0.",
    )


def _cpu_reference_broken(name: str, error: str, facts: Facts) -> Check:
    if not _section(facts, "reference_cuda").get("graphs"):
        return _reference_broken(name, error, facts)
    return Check(
        name,
        "warn",
        error,
        "It compiles for the GPU all the same. Modules that stay on the CPU need what fails above.",
    )


def _reference_broken(name: str, error: str, facts: Facts) -> Check:
    return Check(
        name,
        "fail",
        error,
        "torch.compile cannot work here. Mend what fails above; if all else is ok, search this error at "
        "https://github.com/pytorch/pytorch/issues",
    )


RULES: tuple[Rule, ...] = (
    Rule("python", "python", _python, _unknown),
    Rule("torch", "torch", _torch, _torch_broken),
    Rule("dynamo", "dynamo", _dynamo, _dynamo_broken),
    Rule("C++ compiler", "compiler", _compiler, _compiler_broken),
    Rule("Python.h", "python", _header, lambda name, error, facts: None),
    Rule("cpu", "cpu", _cpu, _unknown),
    Rule("simd", "simd", _simd, _unknown),
    Rule("gpu", "cuda", _gpu, _unknown),
    Rule("gpu load", "cuda", _card_load, lambda name, error, facts: None),
    Rule("C compiler", "cuda", _c_compiler, lambda name, error, facts: None),
    Rule("triton", "triton", _triton, _triton_broken),
    Rule("cache folder", "cache", _cache, _unknown),
    Rule("reference, cpu", "reference_cpu", _reference, _cpu_reference_broken),
    Rule("reference, cuda", "reference_cuda", _reference, _reference_broken),
)

"""What torch.compile needs, as found in one interpreter: ``PYTHON probe.py`` prints one JSON object of facts.

Standard library and torch only, and nothing of speedproof: this file runs in the interpreter under test,
where speedproof need not be installed. A section that raises is recorded as ``{"error": "Type: message"}``
and the rest go on. Facts only; what they mean is for ``checks``.

Private torch API used here (checked on torch 2.11 and 2.14, each one inside a section that may fail alone):
``_dynamo.eval_frame.check_if_dynamo_supported``, ``_dynamo.utils.counters``,
``_inductor.cpp_builder.get_cpp_compiler`` and ``._get_cpp_std_cflag``,
``_inductor.cpu_vec_isa.pick_vec_isa``, ``_inductor.runtime.cache_dir_utils.default_cache_dir``.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import importlib
import json
import os
import platform
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SCHEMA = 1
Facts = dict[str, Any]
Section = tuple[str, Callable[[], Facts]]

# The only environment variables that a report may show: what steers the compile stack, nothing secret.
SHOWN = (
    "CC",
    "CUDA_VISIBLE_DEVICES",
    "CXX",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "TORCHDYNAMO_DISABLE",
    "TORCHDYNAMO_SUPPRESS_ERRORS",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_COMPILE_DISABLE",
)
TOOL_TIMEOUT_S = 60
PAIRS = 12
BLOCK_S = 0.03
PAIRS_S = 6.0
WIDTH = 1024


# ------------------------------------------------------------------------------------------------------------
# Interpreter, torch, compiler
# ------------------------------------------------------------------------------------------------------------


def python_facts() -> Facts:
    """The interpreter, and whether the headers that Triton and Inductor build against are there."""
    include = sysconfig.get_path("include")
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
        "platform": sys.platform,
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "include": include,
        "header": os.path.isfile(os.path.join(include, "Python.h")),
    }


def environment_facts() -> Facts:
    """The variables on the allow-list that are set; no other is passed on."""
    return {name: os.environ[name] for name in SHOWN if name in os.environ}


def torch_facts() -> Facts:
    """The torch build: version, and the CUDA or ROCm it was built for."""
    import torch

    return {
        "version": str(torch.__version__),
        "cuda_build": torch.version.cuda,
        "hip_build": getattr(torch.version, "hip", None),
        "has_compile": hasattr(torch, "compile"),
        "file": torch.__file__,
    }


def dynamo_facts() -> Facts:
    """Whether Dynamo runs on this interpreter. Raises what Dynamo raises where it does not."""
    from torch._dynamo.eval_frame import check_if_dynamo_supported

    check_if_dynamo_supported()
    return {"supported": True}


def compiler_facts() -> Facts:
    """The C++ compiler that Inductor would start (it reads ``CXX``), tried on two small files."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    found = str(get_cpp_compiler())
    words = shlex.split(found) if os.name != "nt" else [found]
    return {
        "command": found,
        "path": shutil.which(words[0]),
        "version": _first_line([*words, "--version"]),
        "plain": _build_error(words, "", ()),
        "openmp": _build_error(words, "#include <omp.h>\n", _openmp_flags()),
        "openmp_flags": list(_openmp_flags()),
    }


def _first_line(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout or done.stderr).strip().partition("\n")[0] or None


def _openmp_flags() -> tuple[str, ...]:
    # Apple's clang has no OpenMP of its own, and Inductor looks for torch's or Homebrew's; leave that to the
    # reference model.
    return {"linux": ("-fopenmp",), "win32": ("/openmp",)}.get(sys.platform, ())


def _build_error(compiler: list[str], head: str, flags: tuple[str, ...]) -> str | None:
    """Build and load a one-function library. ``None`` where that works, else what went wrong."""
    shared = ("/LD",) if os.name == "nt" else ("-shared", "-fPIC", _standard())
    folder = tempfile.mkdtemp(prefix="speedproof-cxx-")
    try:
        source, library = os.path.join(folder, "probe.cpp"), os.path.join(folder, "probe.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(head + 'extern "C" int probe() { return 42; }\n')
        target = [f"/Fe{library}"] if os.name == "nt" else ["-o", library]
        return _tried([*compiler, *shared, *flags, source, *target], folder, library)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _standard() -> str:
    """The language standard that Inductor asks for: an old compiler may work and still not know it."""
    try:
        from torch._inductor.cpp_builder import _get_cpp_std_cflag

        return f"-{_get_cpp_std_cflag()[0]}"
    except (ImportError, TypeError, IndexError):  # private, and not the same in every version
        return "-std=c++17"


def _tried(command: list[str], folder: str, library: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, cwd=folder)
        if done.returncode != 0:
            return (done.stderr or done.stdout).strip()[-600:] or f"exit status {done.returncode}"
        if os.name != "nt":  # a loaded DLL could not be deleted
            ctypes.CDLL(library)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"[-600:]
    return None


# ------------------------------------------------------------------------------------------------------------
# Machine
# ------------------------------------------------------------------------------------------------------------


def cache_facts() -> Facts:
    """Inductor's cache folder, or where it would be made; nothing is left behind there."""
    chosen = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    path = os.path.abspath(chosen or _default_cache_dir())
    standing = path
    while not os.path.exists(standing) and os.path.dirname(standing) != standing:
        standing = os.path.dirname(standing)
    return {
        "path": path,
        "chosen": chosen is not None,
        "exists": standing == path,
        "write_error": _write_error(standing),
        "free_bytes": shutil.disk_usage(standing).free,
        "noexec": _mounted_noexec(standing),
    }


def _default_cache_dir() -> str:
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return str(default_cache_dir())


def _write_error(folder: str) -> str | None:
    # A file is made, since os.access says yes to root even on a read-only mount.
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    return None


def _mounted_noexec(folder: str) -> bool | None:
    flag = getattr(os, "ST_NOEXEC", None)  # Linux only
    return bool(os.statvfs(folder).f_flag & flag) if flag is not None else None


def cpu_facts() -> Facts:
    """Cores that exist, cores we may use, and the instruction set that ATen chose."""
    import torch

    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "count": os.cpu_count(),
        "usable": len(affinity(0)) if affinity is not None else os.cpu_count(),
        "quota": _cgroup_cpus(),
        "threads": int(torch.get_num_threads()),
        "aten": str(torch.backends.cpu.get_cpu_capability()),
    }


def _cgroup_cpus(path: str = "/sys/fs/cgroup/cpu.max") -> float | None:
    """CPUs that a container may use, by cgroup v2; ``None`` where there is no limit or none can be read."""
    try:
        with open(path, encoding="ascii") as file:
            quota, period = file.read().split()
        return float(quota) / float(period)
    except (OSError, ValueError):  # ValueError: "max 100000", or another format
        return None


def cuda_facts() -> Facts:
    """Whether torch sees a GPU, what it warned of while looking, and whether the system has a card at all."""
    import torch

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = bool(torch.cuda.is_available())
    facts: Facts = {
        "available": available,
        "warnings": [str(w.message)[:400] for w in caught],
        "card_seen": _card_seen(),
        "others": [n for n in ("mps", "xpu") if _backend_available(n)],
    }
    return {**facts, **_card_facts()} if available else facts


def _card_seen() -> bool:
    """Is there an NVIDIA card or driver, whatever torch says?"""
    return os.path.exists("/proc/driver/nvidia/version") or _smi("driver_version", "") is not None


def _backend_available(name: str) -> bool:
    import torch

    module = getattr(torch.backends, name, None) or getattr(torch, name, None)
    check = getattr(module, "is_available", None)
    return bool(check()) if check is not None else False


def _card_facts() -> Facts:
    import torch

    properties = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info(0)
    uuid = getattr(properties, "uuid", None)
    card = f"GPU-{uuid}" if uuid is not None else "0"
    return {
        "name": str(properties.name),
        "count": int(torch.cuda.device_count()),
        "capability": [int(properties.major), int(properties.minor)],
        "free_bytes": int(free),
        "total_bytes": int(total),
        "driver": _smi("driver_version", card),
        "busy_percent": _smi("utilization.gpu", card),
        "processes": _other_processes(card),
        "c_compiler": _c_compiler(),
    }


def _smi(field: str, card: str, query: str = "gpu") -> str | None:
    """One ``nvidia-smi`` query; ``None`` where the tool is missing or refuses."""
    which = ["-i", card] if card else []
    command = ["nvidia-smi", f"--query-{query}={field}", "--format=csv,noheader,nounits", *which]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _other_processes(card: str) -> list[str]:
    """``pid, MiB`` of each other process that computes on the card. Containers may hide them."""
    lines = (_smi("pid,used_memory", card, "compute-apps") or "").splitlines()
    return [line for line in lines if line.partition(",")[0].strip() not in ("", str(os.getpid()))]


def _c_compiler() -> str | None:
    # Triton builds its launcher with a C compiler, in this order (triton/runtime/build.py).
    names = (os.environ.get("CC"), "clang", "gcc", "cc") if os.name != "nt" else ("cl",)
    return next((path for name in names if name and (path := shutil.which(name))), None)


def triton_facts() -> Facts:
    """The version of Triton. Raises ``ImportError`` where there is none."""
    return {"version": str(importlib.import_module("triton").__version__)}


# ------------------------------------------------------------------------------------------------------------
# What compiles
# ------------------------------------------------------------------------------------------------------------


def simd_facts() -> Facts:
    """The vector instructions that Inductor would use. It finds them by building files, in seconds."""
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    isa = pick_vec_isa()
    return {"isa": str(isa), "bits": int(isa.bit_width()) if isa else 0}


def reference_on_cpu() -> Facts:
    """A small model, compiled and compared with eager on the CPU."""
    return _reference("cpu")


def reference_on_cuda() -> Facts:
    """The same on the GPU, or why it was left out."""
    import torch

    return _reference("cuda") if torch.cuda.is_available() else {"skipped": "no CUDA device"}


def _reference(device: str) -> Facts:
    """Compile a chain of pointwise operations, forward and backward: fusing them is what Inductor does best.

    Smooth operations only: at a kink a last-digit difference would flip a gradient.
    """
    import torch
    from torch import nn

    torch.manual_seed(0)
    chain = [nn.Softsign(), nn.Softsign(), nn.Softsign(), nn.Softsign(), nn.SiLU()]
    eager = nn.Sequential(nn.LayerNorm(WIDTH), *chain).to(device)
    batch = torch.randn(WIDTH if device == "cpu" else 16 * WIDTH, WIDTH, device=device)
    exact = copy.deepcopy(eager).double()
    compiled = torch.compile(eager)
    before_s = time.perf_counter()
    _step(compiled, batch)
    compile_s = time.perf_counter() - before_s
    errors = _errors(eager, compiled, exact, batch)
    return {"compile_s": compile_s, "graphs": _graphs(), **errors, **_ratio(eager, compiled, batch)}


def _step(model: Any, batch: Any) -> tuple[Any, Any]:
    """One forward and backward; the output and the gradient of the input."""
    import torch

    batch = batch.detach().requires_grad_()
    output = model(batch)
    output.square().mean().backward()
    if batch.is_cuda:
        torch.cuda.synchronize()
    return output.detach(), batch.grad


def _graphs() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def _errors(eager: Any, compiled: Any, exact: Any, batch: Any) -> Facts:
    """Relative error against float64, of the output or the input gradient, whichever is larger."""
    truth = _step(exact, batch.double())
    found = {"eager_error": _step(eager, batch), "compiled_error": _step(compiled, batch)}
    return {name: max(map(_distance, result, truth)) for name, result in found.items()}


def _distance(value: Any, truth: Any) -> float:
    return float((value.double() - truth).norm() / truth.norm())


def _ratio(eager: Any, compiled: Any, batch: Any) -> Facts:
    """Eager time / compiled time, over pairs of short blocks in random order, so that drift hits both."""
    arms = {"eager": eager, "compiled": compiled}
    for model in (eager, compiled):
        _block(model, batch, 1)
    steps = max(1, round(BLOCK_S / _block(eager, batch, 1)))
    order, end_s = random.Random(0), time.perf_counter() + PAIRS_S
    pairs: list[dict[str, float]] = []
    while len(pairs) < PAIRS and (len(pairs) < 3 or time.perf_counter() < end_s):
        sides = order.sample(sorted(arms), 2)
        pairs.append({side: _block(arms[side], batch, steps) for side in sides})
    ratios = [pair["eager"] / pair["compiled"] for pair in pairs]
    return {"ratio": statistics.median(ratios), "ratios": ratios, "steps_per_block": steps}


def _block(model: Any, batch: Any, steps: int) -> float:
    """Seconds a step."""
    begin_s = time.perf_counter()
    for _ in range(steps):
        _step(model, batch)
    return (time.perf_counter() - begin_s) / steps


# ------------------------------------------------------------------------------------------------------------
# Running the sections
# ------------------------------------------------------------------------------------------------------------

NEEDS_TORCH: tuple[Section, ...] = (
    ("dynamo", dynamo_facts),
    ("compiler", compiler_facts),
    ("cpu", cpu_facts),
    ("cuda", cuda_facts),
    ("triton", triton_facts),
    ("simd", simd_facts),
)
REFERENCES: tuple[Section, ...] = (
    ("reference_cpu", reference_on_cpu),
    ("reference_cuda", reference_on_cuda),
)


def collect(reference: bool, progress: str | None) -> Facts:
    """All facts. ``progress`` names a file that holds what is known so far, and the ``running`` section."""
    facts: Facts = {"schema": SCHEMA}
    _record(facts, (("python", python_facts), ("environment", environment_facts)), progress)
    _record(facts, (("torch", torch_facts),), progress)
    if "error" in facts["torch"]:
        return {**facts, **_skipped(NEEDS_TORCH + REFERENCES, "torch cannot be imported")}
    # First of all, since importing Inductor sets TORCHINDUCTOR_CACHE_DIR and makes the folder.
    _record(facts, (("cache", cache_facts),), progress)
    with _empty_cache():
        _record(facts, NEEDS_TORCH + (REFERENCES if reference else ()), progress)
    return {**_skipped(REFERENCES, "not asked for"), **facts}


def _skipped(sections: tuple[Section, ...], why: str) -> Facts:
    return {name: {"skipped": why} for name, _ in sections}


def _record(facts: Facts, sections: tuple[Section, ...], progress: str | None) -> None:
    for name, section in sections:
        _save({**facts, "running": name}, progress)
        try:
            facts[name] = section()
        except Exception as error:  # noqa: BLE001  whatever is broken here is the finding, and the rest goes on
            facts[name] = {"error": f"{type(error).__name__}: {error}"[:2000]}


def _save(facts: Facts, path: str | None) -> None:
    if path is None:
        return
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(facts, file, default=str)
    os.replace(path + ".new", path)


@contextmanager
def _empty_cache() -> Iterator[None]:
    """An empty folder for Inductor's and Triton's caches, on the same file system as the real one."""
    chosen = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    base = chosen if chosen is not None and os.path.isdir(chosen) else None
    try:
        folder = tempfile.mkdtemp(prefix="speedproof-cache-", dir=base)
    except OSError:  # the real one cannot be written, which a check reports; the compilers may still be tried
        folder = tempfile.mkdtemp(prefix="speedproof-cache-")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Print the facts as one line of JSON on stdout."""
    parser = argparse.ArgumentParser(description="Facts about the compile stack of this interpreter, as JSON.")
    parser.add_argument("--no-reference", action="store_true", help="skip the reference models")
    parser.add_argument("--progress", metavar="FILE", help="keep what is known so far in FILE")
    wanted = parser.parse_args()
    # Libraries and compilers may print; stdout is for the facts alone.
    answer = os.dup(1)
    os.dup2(2, 1)
    facts = collect(not wanted.no_reference, wanted.progress)
    with os.fdopen(answer, "w", encoding="utf-8") as out:
        out.write(json.dumps(facts, default=str) + "\n")


if __name__ == "__main__":
    # The folder of this file is no place to import from: its module names are speedproof's own business.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]
    main()

"""The doctor: facts made by hand, interpreters that misbehave, and one real probe."""

from __future__ import annotations

import copy
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from speedproof.doctor import Check, assess, diagnose, render

HEALTHY: dict[str, Any] = {
    "schema": 1,
    "python": {
        "version": "3.11.7",
        "executable": "/env/bin/python",
        "platform": "linux",
        "system": "Linux 6.1",
        "machine": "x86_64",
        "include": "/usr/include/python3.11",
        "header": True,
    },
    "environment": {},
    "torch": {"version": "2.14.1", "cuda_build": "13.0", "hip_build": None, "has_compile": True},
    "dynamo": {"supported": True},
    "compiler": {
        "command": "g++",
        "version": "g++ 12.2.0",
        "plain": None,
        "openmp": None,
        "openmp_flags": ["-fopenmp"],
    },
    "cache": {
        "path": "/tmp/torchinductor_me",
        "write_error": None,
        "free_bytes": 50 * 2**30,
        "noexec": False,
    },
    "cpu": {"count": 8, "usable": 8, "quota": None, "threads": 8, "aten": "AVX2"},
    "cuda": {
        "available": True,
        "warnings": [],
        "card_seen": True,
        "name": "NVIDIA H200",
        "count": 1,
        "capability": [9, 0],
        "free_bytes": 130 * 2**30,
        "total_bytes": 140 * 2**30,
        "driver": "580.1",
        "busy_percent": "0",
        "processes": [],
        "c_compiler": "/usr/bin/gcc",
    },
    "triton": {"version": "3.8.0"},
    "simd": {"isa": "avx2", "bits": 256},
    "reference_cpu": {
        "compile_s": 9.0,
        "graphs": 1,
        "eager_error": 1e-7,
        "compiled_error": 1e-7,
        "ratio": 2.5,
    },
    "reference_cuda": {
        "compile_s": 5.0,
        "graphs": 1,
        "eager_error": 1e-7,
        "compiled_error": 1e-7,
        "ratio": 3.0,
    },
}
NO_CARD = {"available": False, "warnings": [], "card_seen": False, "others": []}
SKIPPED = {"skipped": "no CUDA device"}


def facts_with(**sections: dict[str, Any]) -> dict[str, Any]:
    """The healthy machine with some fields of some sections changed; ``error`` replaces the whole section."""
    facts = copy.deepcopy(HEALTHY)
    for name, fields in sections.items():
        replaced = "error" in fields or "skipped" in fields or fields is NO_CARD
        facts[name] = fields if replaced else {**facts[name], **fields}
    return facts


def on_cpu(**sections: dict[str, Any]) -> dict[str, Any]:
    return facts_with(cuda=NO_CARD, reference_cuda=SKIPPED, **sections)


def the_check(facts: dict[str, Any], name: str) -> Check:
    (check,) = [check for check in assess(facts) if check.name == name]
    return check


def test_a_healthy_gpu_machine_is_ok_throughout() -> None:
    checks = assess(HEALTHY)
    assert {check.status for check in checks} == {"ok"}
    assert len(checks) == 14


def test_a_healthy_cpu_machine_needs_no_triton_and_no_advice() -> None:
    checks = assess(on_cpu(triton={"error": "ModuleNotFoundError: No module named 'triton'"}))
    assert {check.status for check in checks} == {"ok"}
    assert "no CUDA device" in the_check(on_cpu(), "gpu").evidence
    assert not {"triton", "C compiler", "gpu load", "reference, cuda"} & {check.name for check in checks}


MISSING = {"error": "ModuleNotFoundError: No module named 'torch'"}
BROKEN = {"error": "BackendCompilerFailed: boom"}
CXX, GPU, LOAD, CACHE = "C++ compiler", "gpu", "gpu load", "cache folder"
CPU_MODEL, CUDA_MODEL = "reference, cpu", "reference, cuda"


def broken_on_cpu(**sections: dict[str, Any]) -> dict[str, Any]:
    return on_cpu(reference_cpu=BROKEN, **sections)


# The name of the check, its status, a word of its evidence or advice, the facts.
CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("torch", "fail", "--python", facts_with(torch=MISSING)),
    ("torch", "fail", "reinstall", facts_with(torch={"error": "OSError: libtorch.so: not found"})),
    ("torch", "fail", "2.0", facts_with(torch={"has_compile": False})),
    ("dynamo", "fail", "version", facts_with(dynamo={"error": "RuntimeError: Python 3.15+"})),
    ("dynamo", "fail", "unset", facts_with(environment={"TORCH_COMPILE_DISABLE": "1"})),
    ("dynamo", "warn", "unset", facts_with(environment={"TORCHDYNAMO_SUPPRESS_ERRORS": "1"})),
    (CXX, "fail", "apt install g++", broken_on_cpu(compiler=BROKEN)),
    (CXX, "fail", "CXX=g+", broken_on_cpu(compiler=BROKEN, environment={"CXX": "g+"})),
    (CXX, "fail", "xcode-select", broken_on_cpu(compiler=BROKEN, python={"platform": "darwin"})),
    (CXX, "fail", "ld: not found", broken_on_cpu(compiler={"plain": "ld: not found"})),
    (CXX, "fail", "libomp", broken_on_cpu(compiler={"openmp": "omp.h: no such file"})),
    (CXX, "warn", "without it", facts_with(compiler=BROKEN, reference_cpu=BROKEN)),
    ("Python.h", "fail", "python3.11-dev", broken_on_cpu(python={"header": False})),
    ("cpu", "warn", "OMP_NUM_THREADS=8", facts_with(cpu={"threads": 16})),
    ("cpu", "warn", "OMP_NUM_THREADS=1", facts_with(cpu={"quota": 1.5})),
    ("cpu", "warn", "one thread", facts_with(cpu={"threads": 1})),
    ("cpu", "warn", "RuntimeError: x", facts_with(cpu={"error": "RuntimeError: x"})),
    ("simd", "warn", "scalar", facts_with(simd={"bits": 0, "isa": ""})),
    (GPU, "fail", "cudagraphs", facts_with(cuda={"capability": [6, 1]})),
    (GPU, "warn", "too old", facts_with(cuda={"available": False, "warnings": ["driver too old"]})),
    (GPU, "warn", "CUDA build", facts_with(cuda={"available": False}, torch={"cuda_build": None})),
    (GPU, "warn", "unset", facts_with(cuda={"available": False}, environment={"CUDA_VISIBLE_DEVICES": ""})),
    (LOAD, "warn", "4711", facts_with(cuda={"processes": ["4711, 2000"]})),
    (LOAD, "warn", "80%", facts_with(cuda={"busy_percent": "80"})),
    (LOAD, "warn", "room", facts_with(cuda={"free_bytes": 2**30})),
    ("C compiler", "fail", "gcc", facts_with(cuda={"c_compiler": None}, reference_cuda=BROKEN)),
    ("triton", "fail", "wheels", facts_with(triton=MISSING)),
    ("triton", "fail", "triton-windows", facts_with(triton=MISSING, python={"platform": "win32"})),
    (CACHE, "fail", "TORCHINDUCTOR_CACHE_DIR", facts_with(cache={"write_error": "PermissionError: x"})),
    (CACHE, "fail", "TORCHINDUCTOR_CACHE_DIR", facts_with(cache={"noexec": True})),
    (CACHE, "warn", "space", facts_with(cache={"free_bytes": 2**20})),
    (CUDA_MODEL, "fail", "boom", facts_with(reference_cuda=BROKEN)),
    (CPU_MODEL, "warn", "boom", facts_with(reference_cpu=BROKEN)),
    (CPU_MODEL, "fail", "boom", broken_on_cpu()),
    (CPU_MODEL, "fail", "0 graphs", facts_with(reference_cpu={"graphs": 0})),
    (CPU_MODEL, "fail", "wrong", facts_with(reference_cpu={"compiled_error": 0.1})),
    (CPU_MODEL, "fail", "wrong", facts_with(reference_cpu={"compiled_error": float("nan")})),
    (CPU_MODEL, "warn", "0.80x", facts_with(reference_cpu={"ratio": 0.8})),
]


@pytest.mark.parametrize(("name", "status", "word", "facts"), CASES)
def test_what_is_wrong_is_named_with_advice(name: str, status: str, word: str, facts: dict[str, Any]) -> None:
    check = the_check(facts, name)
    assert check.status == status
    assert check.advice
    assert word in f"{check.evidence} {check.advice}"


@pytest.mark.parametrize("name", [name for name in HEALTHY if name != "schema"])
def test_no_section_is_needed_and_each_may_fail(name: str) -> None:
    absent = {key: value for key, value in HEALTHY.items() if key != name}
    for facts in (absent, facts_with(**{name: {"error": "KeyError: 'x'"}}), {**HEALTHY, name: {}}):
        assert all(check.advice for check in assess(facts) if check.status != "ok")


# What a real interpreter may do instead of answering


def fake_python(folder: Path, body: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_garbage_is_a_failing_check(tmp_path: Path) -> None:
    (check,) = diagnose(fake_python(tmp_path, "echo hello there"), 20)
    assert (check.name, check.status) == ("probe", "fail")
    assert "hello there" in check.evidence
    assert check.advice


@pytest.mark.parametrize("answer", ["null", "[1]", '{"half": ', "{}"])
def test_json_that_is_not_the_facts_is_garbage(tmp_path: Path, answer: str) -> None:
    (check,) = diagnose(fake_python(tmp_path, f"echo '{answer}'"), 20)
    assert (check.name, check.status) == ("probe", "fail")


def test_a_hang_is_ended_with_all_it_started_and_keeps_what_was_found(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    facts = '{"schema": 1, "running": "simd", "torch": {"version": "2.14.1", "has_compile": true}}'
    python = fake_python(tmp_path, f"echo '{facts}' > \"$3\"\nsleep 300 & echo $! > {pid}\nwait")
    begin_s = time.monotonic()
    checks = diagnose(python, 1.0)
    assert time.monotonic() - begin_s < 20
    assert [check.name for check in checks] == ["torch", "probe"]
    assert "no answer within 1 s while it looked at 'simd'" in checks[-1].evidence
    assert _gone(int(pid.read_text()))


def _gone(pid: int) -> bool:
    """Ended, or a zombie that nobody has collected yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_a_crash_is_named_by_its_signal(tmp_path: Path) -> None:
    (check,) = diagnose(fake_python(tmp_path, "echo oops >&2; kill -SEGV $$"), 20)
    assert check.status == "fail"
    assert "SIGSEGV" in check.evidence
    assert "oops" in check.evidence


def test_an_interpreter_that_is_too_old_is_told_from_a_crash(tmp_path: Path) -> None:
    (check,) = diagnose(fake_python(tmp_path, "echo 'SyntaxError: invalid syntax' >&2; exit 1"), 20)
    assert "3.10" in check.advice


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    (check,) = diagnose(str(tmp_path / "nowhere"), 20)
    assert (check.name, check.status) == ("interpreter", "fail")
    assert "--python" in check.advice


def test_an_interpreter_without_torch(tmp_path: Path) -> None:
    # -S: no site-packages, so no torch, whatever is installed.
    python = fake_python(tmp_path, f'unset PYTHONPATH; exec {sys.executable} -S "$@"')
    checks = diagnose(python, 60)
    (torch,) = [check for check in checks if check.name == "torch"]
    assert torch.status == "fail"
    assert "not installed" in torch.evidence
    assert "pip install torch" in torch.advice


def test_the_real_probe_answers() -> None:
    pytest.importorskip("torch")
    checks = diagnose(sys.executable, 120, reference=False)
    names = [check.name for check in checks]
    assert names[:3] == ["python", "torch", "dynamo"]
    assert {"C++ compiler", "cpu", "simd", "gpu", "cache folder"} <= set(names)
    assert not {"probe", "reference, cpu"} & set(names)


# Text


def test_lines_are_aligned_and_advice_stands_below() -> None:
    checks = (
        Check("a", "ok", "fine"),
        Check("longer", "fail", "broken", "mend it"),
        Check("b", "warn", "so so", "x"),
    )
    assert render(checks, color=False).splitlines() == [
        "ok    a       fine",
        "FAIL  longer  broken",
        "              -> mend it",
        "warn  b       so so",
        "              -> x",
        "",
        "1 of 3 checks failed: begin with the first.",
    ]


def test_colour_is_there_only_when_asked_for_and_evidence_cannot_bring_its_own() -> None:
    checks = (Check("a", "ok", "\x1b[31mred\x1b[0m\nnext\x07"),)
    assert "\x1b" not in render(checks, color=False)
    assert "red next" in render(checks, color=False)
    assert render(checks, color=True).startswith("\x1b[32mok  \x1b[0m  a")


def test_the_last_line_claims_no_more_than_was_tried() -> None:
    tried = assess(on_cpu())
    untried = tuple(check for check in tried if not check.name.startswith("reference"))
    assert render(tried, color=False).endswith("torch.compile works here.\n")
    assert render(untried, color=False).endswith("checks are ok.\n")
    assert "1 of 14 checks want a look" in render(assess(facts_with(cpu={"threads": 16})), color=False)

"""The command line on real scripts, good ones and bad ones: exit code, verdict file, and what is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import textwrap
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from speedproof.model import ArmReady, ArmStarted, Block, Event, ScriptEnded, SessionStarted
from speedproof.store import load_events

SCRIPTS = Path(__file__).parent / "scripts"
PATIENCE_S = 90.0
Act = Callable[["Driver"], None]


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


@dataclass(frozen=True)
class Outcome:
    """What a run left: ``verdict`` is the verdict file, ``{}`` where there is none."""

    code: int
    stdout: str
    stderr: str
    verdict: dict[str, Any]
    events: list[Event]
    folder: Path
    seconds: float
    left_over: list[str]

    @property
    def kind(self) -> str:
        return str(self.verdict["verdict"]["kind"])

    def variant(self, name: str) -> dict[str, Any]:
        found = {variant["id"]: variant for variant in self.verdict["variants"]}
        assert name in found, self.text
        return found[name]

    @property
    def text(self) -> str:
        return f"exit {self.code}\n{self.stdout}\n{self.stderr}"


class Driver:
    """A running ``speedproof run``, and the means to watch and disturb it."""

    def __init__(self, folder: Path, words: list[str], marker: str) -> None:
        self.run, self.marker = folder / "run", marker
        self.process = subprocess.Popen(
            [sys.executable, "-m", "speedproof", "run", *words, marker],
            cwd=folder,
            stdout=(folder / "stdout").open("w"),
            stderr=(folder / "stderr").open("w"),
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # as from a shell: Ctrl-C at the tests is not for it
        )

    def events(self) -> list[Event]:
        return load_events(self.run) if (self.run / "meta.json").is_file() else []

    def wait_for(self, what: Callable[[list[Event]], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not what(self.events()):
            assert time.monotonic() < deadline and self.process.poll() is None, self.events()
            time.sleep(0.05)

    def worker(self) -> int:
        """Process id of the latest worker."""
        return [event.pid for event in self.events() if isinstance(event, SessionStarted)][-1]


def marked(marker: str) -> list[psutil.Process]:
    """Every living process with the marker in its command line: driver, worker, and what they forked."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if process.info["status"] != psutil.STATUS_ZOMBIE and marker in (process.info["cmdline"] or ()):
            found.append(process)
    return found


def workers_of(folder: Path) -> list[psutil.Process]:
    """Guards and workers name files of their run on their command lines, not the script's arguments."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or ())
        if process.info["status"] != psutil.STATUS_ZOMBIE and str(folder / "run") in line:
            found.append(process)
    return found


def left_over(folder: Path, marker: str, patience_s: float = 5.0) -> list[str]:
    deadline = time.monotonic() + patience_s
    while alive := [*marked(marker), *workers_of(folder)]:
        if time.monotonic() > deadline:
            lines = [" ".join(process.cmdline()) for process in alive if process.is_running()]
            for process in alive:
                process.kill()
            return lines
        time.sleep(0.05)
    return []


def measure(
    script: str,
    *args: str,
    budget: str = "15s",
    variants: Any = "eager",
    options: tuple[str, ...] = (),
    act: Act | None = None,
) -> Callable[[Path], Outcome]:
    """A scenario: ``script`` is the name of one in ``scripts``, or its text. ``variants`` may be a JSON list."""

    def run(folder: Path) -> Outcome:
        path = SCRIPTS / script if script.endswith(".py") else folder / "script.py"
        if not script.endswith(".py"):
            path.write_text(textwrap.dedent(script))
        wanted = variants
        if not isinstance(variants, str):
            (folder / "variants.json").write_text(json.dumps(variants))
            wanted = "variants.json"
        words = ["--budget", budget, "--variants", wanted, "--json", "verdict.json", "--out", "run", *options]
        return drive(folder, [*words, str(path), *args], act)

    return run


def drive(folder: Path, words: list[str], act: Act | None = None) -> Outcome:
    marker, begin = f"marker-{uuid.uuid4()}", time.monotonic()
    driver = Driver(folder, words, marker)
    try:
        if act is not None:
            act(driver)
        driver.process.wait(PATIENCE_S)
    finally:
        seconds = time.monotonic() - begin
        driver.process.kill()
        driver.process.wait()
        left = left_over(folder, marker)
    file = folder / "verdict.json"
    return Outcome(
        code=driver.process.returncode,
        stdout=(folder / "stdout").read_text(),
        stderr=(folder / "stderr").read_text(),
        verdict=json.loads(file.read_text()) if file.is_file() else {},
        events=driver.events(),
        folder=folder,
        seconds=seconds,
        left_over=left,
    )


def backends(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "label": name, "kind": "compile", "config": {"backend": name}} for name in names]


# ----------------------------------------------------------------------------------------------------------
# Disturbances
# ----------------------------------------------------------------------------------------------------------


def seen(kind: type, **fields: Any) -> Callable[[list[Event]], bool]:
    def has(events: list[Event]) -> bool:
        return any(isinstance(e, kind) and all(getattr(e, k) == v for k, v in fields.items()) for e in events)

    return has


def at(moment: Callable[[list[Event]], bool], number: int, whom: str = "driver") -> Act:
    """Send signal ``number`` to the driver or the worker as soon as ``moment`` has come."""

    def act(driver: Driver) -> None:
        driver.wait_for(moment)
        os.kill(driver.process.pid if whom == "driver" else driver.worker(), number)

    return act


LOOP = """
import os, sys, time, torch
from torch import nn
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
while {so_long}:
    step += 1
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {and_then}
"""


def loop(and_then: str = "pass", so_long: str = "True") -> str:
    return LOOP.format(and_then=and_then, so_long=so_long)


DAEMON = """
if step == 100 and os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(3600)
        os._exit(0)
"""

HANGING_LOADER = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

class Hanging(IterableDataset):
    def __iter__(self):
        for i in range(4000):
            yield torch.randn(16)
        time.sleep(3600)

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs in DataLoader(Hanging(), batch_size=8):
    model(inputs).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def other_interpreter(folder: Path) -> Outcome:
    """A virtual environment that sees torch and its like through links, and no speedproof."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "venv"], cwd=folder, check=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "speedproof" not in entry.name and entry.suffix != ".pth" and not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry)
    python = folder / "venv" / "bin" / "python"
    has = subprocess.run([python, "-c", "import torch, speedproof"], cwd=folder, capture_output=True, text=True)
    if "No module named 'speedproof'" not in has.stderr:
        pytest.skip(f"no interpreter with torch and without speedproof could be made: {has.stderr[-200:]}")
    return measure("backends.py", budget="60s", variants=backends("boom"), options=("--python", str(python)))(folder)


FLOOD_AND_DAEMON = "if step <= 1000: print('x' * 100_000)\n    " + DAEMON.strip().replace("\n", "\n    ")
IN_AA, ENDLESS = seen(Block, arm="aa"), ("plain_loop.py", "10000000")


def kill_the_worker_twice(driver: Driver) -> None:
    """In eager mode, and then under a variant."""
    at(IN_AA, signal.SIGKILL, "worker")(driver)
    at(seen(Block, arm="aot_eager"), signal.SIGKILL, "worker")(driver)


# A budget is what a run may take: those that are over sooner have a large one, so that a busy machine changes nothing.
SCENARIOS: dict[str, Callable[[Path], Outcome]] = {
    "normal": measure(*ENDLESS, budget="30s", variants="eager,aot_eager"),
    "raises at once": measure("import torch\ndef start():\n    raise ValueError('no data')\nstart()\n", budget="60s"),
    "syntax error": measure("import torch\nprint('never'\n", budget="60s"),
    "missing import": measure("import nothing_of_this_name\n", budget="60s"),
    "no torch": measure("print('hello')\n", budget="60s"),
    "exits early": measure("import sys, torch\nsys.exit(0)\n", budget="60s"),
    "raises after step 5": measure(loop("if step == 5: raise ValueError('epoch of five')"), budget="20s"),
    "raises late": measure(loop("if step == 4000: raise ValueError('bad sample')"), budget="25s"),
    "hangs": measure(HANGING_LOADER, budget="25s"),
    "floods and forks": measure(loop(FLOOD_AND_DAEMON), budget="90s", variants=backends("absent")),
    "driver killed": measure(*ENDLESS, budget="60s", act=at(IN_AA, signal.SIGKILL)),
    "worker killed": measure(*ENDLESS, budget="75s", variants="aot_eager,eager", act=kill_the_worker_twice),
    "Ctrl-C at the start": measure(*ENDLESS, budget="60s", act=at(seen(SessionStarted), signal.SIGINT)),
    "Ctrl-C in A/A": measure(*ENDLESS, budget="60s", act=at(IN_AA, signal.SIGINT)),
    "Ctrl-C in compile": measure(
        "backends.py",
        budget="60s",
        variants=backends("sleeper"),
        act=at(seen(ArmStarted, arm="sleeper"), signal.SIGINT),
    ),
    "backends that raise": measure(
        "backends.py", budget="60s", variants=backends("boom", "no_device_memory", "no_memory", "fails_late")
    ),
    "backends that never return": measure("backends.py", budget="80s", variants=backends("killed", "sleeper", "eager")),
    "no time": measure("backends.py", budget="25s", variants=backends("sleeper", "eager", "boom")),
    "captures nothing": measure("breaks_in_a_loop.py", budget="60s"),
    "twenty steps": measure("plain_loop.py", "20", budget="60s"),
    "other interpreter": other_interpreter,
    "too few steps": measure("redundant.py", "10000000", variants="aot_eager", options=("--steps", "3"), budget="40s"),
    "inductor": measure("pointwise.py", variants="default", budget="90s"),
}

scenario = pytest.mark.scenario

# ----------------------------------------------------------------------------------------------------------
# A run to its verdict
# ----------------------------------------------------------------------------------------------------------

FIELDS = {
    "verdict": {"kind", "summary", "best", "reasons", "advice"},
    "baseline": {"step_ms", "steps", "phases", "peak_bytes"},
    "ceiling": {"max_speedup", "why"},
    "noise": {"aa", "smallest_effect"},
}
VARIANT_FIELDS = {
    *("id", "label", "config", "kind", "outcome", "why", "speedup", "compile_s", "break_even_steps", "peak_bytes"),
    *("graphs", "graph_breaks", "recompiles", "numerics"),
}
TOP_FIELDS = {
    *FIELDS,
    "schema_version",
    "variants",
    "findings",
    "claims",
    "environment",
    "command",
    "started",
    "elapsed_s",
}


@scenario("normal")
def test_a_normal_run_reaches_a_verdict(outcome: Outcome) -> None:
    assert outcome.code in (0, 5), outcome.text
    assert outcome.kind in ("worth_it", "not_worth_it", "inconclusive"), outcome.text
    assert (outcome.code == 5) == (outcome.kind == "inconclusive")
    assert outcome.left_over == []


@scenario("normal")
def test_the_verdict_file_has_the_fields_of_the_contract(outcome: Outcome) -> None:
    verdict = outcome.verdict
    assert set(verdict) >= TOP_FIELDS and verdict["schema_version"] == 1
    assert {name: set(verdict[name]) >= fields for name, fields in FIELDS.items()} == dict.fromkeys(FIELDS, True)
    for variant in verdict["variants"]:
        assert set(variant) >= VARIANT_FIELDS
        assert set(variant["config"]) >= {"scope", "mode", "dynamic", "backend"}
    assert verdict["command"][0].endswith("plain_loop.py") and verdict["command"][1] == "10000000"
    assert verdict["environment"]["torch"]


@scenario("normal")
def test_the_figures_hang_together(outcome: Outcome) -> None:
    baseline, noise = outcome.verdict["baseline"], outcome.verdict["noise"]
    assert sum(baseline["phases"].values()) == pytest.approx(1)
    assert set(baseline["phases"]) == {"data", "transfer", "forward", "loss", "backward", "optimizer", "other"}
    assert 0 < baseline["step_ms"]["low"] <= baseline["step_ms"]["mean"] <= baseline["step_ms"]["high"]
    assert baseline["steps"] > 0 and noise["aa"]["low"] <= noise["aa"]["ratio"] <= noise["aa"]["high"]
    for name in ("eager", "aot_eager"):
        variant = outcome.variant(name)
        assert variant["outcome"] == "completed", variant
        assert variant["graphs"] == 1 and variant["graph_breaks"] == 0
        assert variant["speedup"]["ratio"] > 0 and variant["compile_s"]["cold"] > 0


@scenario("normal")
def test_a_stored_run_is_rendered_again(outcome: Outcome) -> None:
    for form in ("terminal", "markdown", "html", "json"):
        shown = report(outcome, form)
        assert shown.returncode == 0 and len(shown.stdout) > 200, shown.stderr
    assert json.loads(report(outcome, "json").stdout)["verdict"] == outcome.verdict["verdict"]


def report(outcome: Outcome, form: str = "terminal") -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "speedproof", "report", "run", "--format", form]
    return subprocess.run(words, cwd=outcome.folder, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
@scenario("too few steps")
def test_a_gain_does_not_pay_in_three_steps(outcome: Outcome) -> None:
    assert (outcome.code, outcome.kind) == (0, "not_worth_it"), outcome.text
    assert outcome.verdict["verdict"]["reasons"][0] == "too_few_steps"
    assert outcome.variant("aot_eager")["speedup"]["low"] > 1.05


@pytest.mark.slow
@scenario("inductor")
def test_inductor_on_pointwise_operations(outcome: Outcome) -> None:
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("Inductor needs a C++ compiler on a CPU")
    variant = outcome.variant("default")
    assert variant["outcome"] == "completed", outcome.text
    assert variant["compile_s"]["cold"] > 0 and variant["graphs"] >= 1
    assert outcome.code in (0, 5)


@scenario("other interpreter")
def test_the_projects_interpreter_needs_no_speedproof(outcome: Outcome) -> None:
    assert outcome.code == 0, outcome.text
    assert "cannot lower this" in outcome.variant("boom")["why"]
    (started, *_) = [event for event in outcome.events if isinstance(event, SessionStarted)]
    assert Path(started.python).is_relative_to(outcome.folder / "venv")


@pytest.mark.slow
@scenario("twenty steps")
def test_a_short_script_is_started_again(outcome: Outcome) -> None:
    assert outcome.verdict["sessions"] >= 3, outcome.text
    assert outcome.verdict["planned_steps"] == 20
    assert outcome.code in (0, 5) and outcome.variant("eager")["graphs"] == 1, outcome.text


# ----------------------------------------------------------------------------------------------------------
# Scripts that fail by themselves
# ----------------------------------------------------------------------------------------------------------

FAILING = {
    "raises at once": ("ValueError: no data", "in start"),
    "syntax error": ("SyntaxError",),
    "missing import": ("ModuleNotFoundError: No module named 'nothing_of_this_name'",),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=scenario(name)) for name in FAILING])
def test_a_script_that_fails_by_itself(outcome: Outcome, name: str) -> None:
    assert (outcome.code, outcome.kind) == (3, "failed"), outcome.text
    for words in FAILING[name]:
        assert words in outcome.stdout + outcome.stderr, "its own traceback is to be shown"
    assert "speedproof/worker" not in outcome.stdout
    assert outcome.verdict["variants"] == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=scenario(name)) for name in ("no torch", "exits early")])
def test_a_script_without_steps(outcome: Outcome, name: str) -> None:
    assert (outcome.code, outcome.kind) == (4, "failed"), outcome.text
    assert outcome.verdict["verdict"]["reasons"] == ["no_steps"]
    assert ("torch was never imported" in outcome.verdict["verdict"]["summary"]) == (name == "no torch")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("raises after step 5", marks=scenario("raises after step 5")),
        pytest.param("raises late", marks=[pytest.mark.slow, scenario("raises late")]),
    ],
)
def test_the_scripts_own_crash_is_not_blamed_on_compile(outcome: Outcome, name: str) -> None:
    assert outcome.verdict["variants"] == [] or outcome.variant("eager")["outcome"] != "crashed", outcome.text
    assert not any("crash" in reason for reason in outcome.verdict["verdict"]["reasons"]), outcome.text


@scenario("raises after step 5")
def test_a_script_that_always_fails_after_five_steps_is_a_failing_script(outcome: Outcome) -> None:
    assert (outcome.code, outcome.kind) == (3, "failed"), outcome.text
    assert "epoch of five" in outcome.stdout + outcome.stderr


@scenario("hangs")
def test_a_script_that_hangs_is_ended_within_the_budget(outcome: Outcome) -> None:
    assert outcome.seconds < 60, "the budget is 25 s; the rest is room for a busy machine"
    assert outcome.code in (0, 5), outcome.text
    assert outcome.variant("eager")["outcome"] in ("completed", "timed_out", "crashed", "cancelled")
    assert outcome.verdict["elapsed_s"] < 35
    assert outcome.left_over == []


@scenario("floods and forks")
def test_a_flood_of_output_is_bounded(outcome: Outcome) -> None:
    assert outcome.variant("absent")["outcome"] == "crashed", outcome.text
    logs = list((outcome.folder / "run").rglob("output.log"))
    assert logs and all(log.stat().st_size < 2 << 20 for log in logs)
    assert sum(file.stat().st_size for file in (outcome.folder / "run").rglob("*") if file.is_file()) < 20 << 20
    assert "xxxxxxxxxx" not in outcome.stdout


# ----------------------------------------------------------------------------------------------------------
# Nothing is left behind
# ----------------------------------------------------------------------------------------------------------


@linux_only
@scenario("floods and forks")
def test_a_daemon_of_the_script_does_not_outlive_the_run(outcome: Outcome) -> None:
    assert outcome.code in (0, 5), outcome.text
    assert outcome.left_over == []


@linux_only
@scenario("driver killed")
def test_nothing_outlives_a_driver_that_is_killed(outcome: Outcome) -> None:
    assert outcome.code == -signal.SIGKILL and outcome.verdict == {}
    assert outcome.left_over == []
    shown = report(outcome)
    assert shown.returncode == 0 and "interrupted" in shown.stdout.lower(), shown.stdout + shown.stderr


@pytest.mark.slow
@scenario("worker killed")
def test_a_run_goes_on_when_its_worker_is_killed(outcome: Outcome) -> None:
    assert outcome.code in (0, 5), outcome.text
    assert outcome.verdict["sessions"] >= 3
    assert outcome.variant("eager")["outcome"] == "completed", outcome.text
    assert outcome.left_over == []


@pytest.mark.slow
@scenario("worker killed")
def test_a_worker_killed_under_a_variant_is_its_outcome(outcome: Outcome) -> None:
    variant = outcome.variant("aot_eager")
    assert variant["outcome"] in ("out_of_memory", "crashed") and "signal 9" in variant["why"], outcome.text


@linux_only
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("Ctrl-C at the start", marks=scenario("Ctrl-C at the start")),
        pytest.param("Ctrl-C in A/A", marks=scenario("Ctrl-C in A/A")),
        pytest.param("Ctrl-C in compile", marks=scenario("Ctrl-C in compile")),
    ],
)
def test_ctrl_c_keeps_what_was_measured(outcome: Outcome, name: str) -> None:
    assert outcome.code == 130, outcome.text
    assert (outcome.folder / "run" / "verdict.json").is_file() and outcome.verdict
    assert outcome.kind != "failed" and "interrupted" in outcome.verdict["verdict"]["reasons"], outcome.text
    assert "Traceback" not in outcome.stderr
    assert outcome.left_over == []


# ----------------------------------------------------------------------------------------------------------
# Compilers that fail
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["boom", "no_device_memory", "no_memory", "fails_late"])
@scenario("backends that raise")
def test_a_backend_that_raises(outcome: Outcome, name: str) -> None:
    variant = outcome.variant(name)
    assert variant["outcome"] == ("out_of_memory" if "memory" in name else "crashed"), outcome.text
    told = {
        "boom": "cannot lower this",
        "no_device_memory": "CUDA out of memory",
        "fails_late": "illegal memory access",
    }
    assert told.get(name, "MemoryError") in variant["why"]
    assert variant["speedup"] is None


@pytest.mark.slow
@scenario("backends that never return")
def test_the_next_variant_is_still_measured(outcome: Outcome) -> None:
    assert outcome.variant("eager")["outcome"] == "completed", outcome.text
    assert outcome.variant("eager")["speedup"]["ratio"] > 0
    assert outcome.code in (0, 5) and outcome.left_over == []


@scenario("backends that raise")
def test_compiled_calls_that_raise_cost_no_session(outcome: Outcome) -> None:
    assert not any(isinstance(event, ScriptEnded) for event in outcome.events)


@pytest.mark.slow
@scenario("backends that never return")
def test_a_backend_that_sleeps_is_timed_out(outcome: Outcome) -> None:
    assert outcome.variant("sleeper")["outcome"] == "timed_out", outcome.text
    assert not any(isinstance(event, ArmReady) and event.arm == "sleeper" for event in outcome.events)


@pytest.mark.slow
@scenario("backends that never return")
def test_a_backend_that_is_killed(outcome: Outcome) -> None:
    variant = outcome.variant("killed")
    assert variant["outcome"] == "out_of_memory" and "signal 9" in variant["why"], outcome.text


@pytest.mark.slow
@scenario("no time")
def test_a_variant_that_was_never_reached_is_in_the_verdict(outcome: Outcome) -> None:
    """Three to a budget that the first one eats up: the others must not be missing without a word."""
    assert {variant["id"] for variant in outcome.verdict["variants"]} == {"sleeper", "eager", "boom"}, outcome.text


@scenario("captures nothing")
def test_a_model_that_captures_nothing_is_unsupported(outcome: Outcome) -> None:
    variant = outcome.variant("eager")
    assert (variant["outcome"], variant["graphs"]) == ("unsupported", 0), outcome.text
    assert (outcome.code, outcome.kind) == (0, "not_worth_it") and variant["speedup"] is None


@scenario("captures nothing")
def test_the_line_that_kept_everything_from_being_captured_is_named(outcome: Outcome) -> None:
    why = outcome.variant("eager")["why"]
    source = (SCRIPTS / "breaks_in_a_loop.py").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if ".item()" in text)
    assert f"breaks_in_a_loop.py:{line}" in why, why

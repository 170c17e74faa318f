"""The worker, started directly: the script runs as ``python`` would run it, its loop is understood, its files stay."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_trials import LIMIT_S, SCRIPTS, Told, plain, spec_of, under_worker

from speedproof.execute.local import LocalExecutor
from speedproof.model import (
    AnatomyFound,
    Arm,
    ArmClosed,
    ArmReady,
    Block,
    Command,
    Event,
    FileTouched,
    PhasesMeasured,
    Schedule,
    ScriptEnded,
    SessionDone,
)
from speedproof.plan.arms import AA, AS_WRITTEN, backend_arm

Scenario = Callable[[Path], Any]


EAGER_GRAPHS = backend_arm("eager")  # Dynamo without a compiler behind it

# ----------------------------------------------------------------------------------------------------------
# As python would: both ways of running, side by side. Nothing here imports torch.
# ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def both(tmp_path: Path) -> Callable[..., tuple[Told, Told]]:
    def run(*words: str, module: str | None = None, cwd: Path = tmp_path) -> tuple[Told, Told]:
        expected = plain(cwd, *(() if module is None else ("-m", module)), *words)
        command = Command(None, module, words) if module is not None else Command(words[0], None, words[1:])
        return expected, under_worker(tmp_path / "trial", command, cwd=cwd)

    return run


def program(folder: Path, text: str) -> str:
    (folder / "program.py").write_text(text)
    return "program.py"


def project(folder: Path) -> None:
    """A package, scripts in folders, and symbolic links to them."""
    package = folder / "package"
    (package / "sub").mkdir(parents=True)
    (package / "__init__.py").write_text("VALUE = 1\n")
    (package / "names.py").write_text("NAME = 'relative'\n")
    (package / "__main__.py").write_text(
        "from .names import NAME\nimport sys\nprint(NAME, sys.argv[1:], __package__)\n"
    )
    (package / "sub" / "__init__.py").touch()
    probe = (SCRIPTS / "probe.py").read_text()
    relative = "from .. import VALUE\nfrom ..names import NAME\nassert (VALUE, NAME) == (1, 'relative')\n"
    (package / "sub" / "tool.py").write_text(relative + probe)
    (folder / "folder").mkdir()
    for copy in ("probe.py", "folder/probe.py"):
        (folder / copy).write_text(probe)
    (folder / "linked_folder").symlink_to(folder / "folder")
    (folder / "link.py").symlink_to(folder / "folder" / "probe.py")


WAYS = {
    "arguments": (("probe.py", "a", "--b", "-m", ""), None),
    "whole path": (("{here}/probe.py",), None),
    "in a folder": (("folder/probe.py",), None),
    "in a linked folder": (("linked_folder/probe.py",), None),
    "a link": (("link.py",), None),
    "module": (("x",), "probe"),
    "module of a package": (("x", "-y"), "package.sub.tool"),
}


def seen_by_probe(both: Any, here: Path, words: tuple[str, ...], module: str | None) -> tuple[Any, Any]:
    project(here)
    expected, told = both(*(word.format(here=here) for word in words), module=module)
    assert (expected.code, told.code, told.stderr) == (0, 0, "")
    return json.loads(expected.stdout), json.loads(told.stdout)


@pytest.mark.parametrize("way", WAYS)
def test_a_script_sees_what_it_would_see_under_python(both: Any, tmp_path: Path, way: str) -> None:
    expected, seen = seen_by_probe(both, tmp_path, *WAYS[way])
    assert seen == expected


def test_the_globals_of_main_have_the_same_names(both: Any, tmp_path: Path) -> None:
    expected, seen = seen_by_probe(both, tmp_path, ("probe.py",), None)
    assert seen["globals"] == expected["globals"]


def test_builtins_of_main_is_the_module(both: Any, tmp_path: Path) -> None:
    expected, told = both(program(tmp_path, "__builtins__.shout = print\nshout('heard')\n"))
    assert (told.code, told.stdout, told.stderr) == (expected.code, expected.stdout, expected.stderr)


@pytest.mark.parametrize("word", ["./probe.py", "folder/../probe.py"])
def test_the_file_name_is_not_normalised(both: Any, tmp_path: Path, word: str) -> None:
    expected, seen = seen_by_probe(both, tmp_path, (word,), None)
    assert seen["file"] == expected["file"]


def test_a_package_is_run_through_its_main_module(both: Any, tmp_path: Path) -> None:
    project(tmp_path)
    expected, told = both("x", "-y", module="package")
    assert expected.stdout == "relative ['x', '-y'] package\n"
    assert (told.code, told.stdout, told.stderr) == (expected.code, expected.stdout, expected.stderr)


ENDINGS = {
    "status 3": "import sys\nprint('hi')\nsys.exit(3)\n",
    "status None": "import sys\nsys.exit()\n",
    "a message": "import sys\nsys.exit('no good')\n",
    "no status at all": "import os\nos._exit(7)\n",
    "an exception": "def divide():\n    return 1 / 0\n\n\ndivide()\n",
    "a chain of them": "try:\n    {}['a']\nexcept KeyError as error:\n    raise RuntimeError('chained') from error\n",
    "a missing import": "import nothing_of_this_name\n",
    "a syntax error": "x = 1\nprint('never'\n",
    "at exit": "import atexit\natexit.register(print, 'bye')\n",
    "a thread's error": "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()\n",
    "warnings": "import warnings\nwarnings.warn('a')\ndef old():\n    warnings.warn('b', DeprecationWarning)\nold()\n",
    "annotations": "class A:\n    x: int = 3\n\n\nprint(A.__annotations__)\n",  # our own __future__ must not leak in
    "another encoding": "# -*- coding: latin-1 -*-\nprint(len('é'))\n",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script_ends_as_it_would_under_python(both: Any, tmp_path: Path, ending: str) -> None:
    expected, told = both(program(tmp_path, ENDINGS[ending]))
    assert (told.code, told.stdout, told.stderr) == (expected.code, expected.stdout, expected.stderr)
    if ending not in ("no status at all",):
        ended = told.one(ScriptEnded)
        assert ended.code == told.code
        assert "speedproof" not in ended.traceback


def test_a_module_fails_as_it_would_under_python(both: Any, tmp_path: Path) -> None:
    program(tmp_path, ENDINGS["an exception"])
    expected, told = both(module="program")
    assert "runpy" in expected.stderr, "python shows how it got to the module"
    assert (told.code, told.stdout, told.stderr) == (expected.code, expected.stdout, expected.stderr)


def test_where_the_script_failed_is_told(both: Any, tmp_path: Path) -> None:
    _, told = both(program(tmp_path, ENDINGS["an exception"]))
    ended = told.one(ScriptEnded)
    assert ended.error == "ZeroDivisionError" and ended.where is not None
    assert (Path(ended.where.file).name, ended.where.line, ended.where.function) == ("program.py", 2, "divide")


def test_the_hook_for_exceptions_is_the_scripts_own(both: Any, tmp_path: Path) -> None:
    hook = "import sys\nsys.excepthook = lambda kind, *_: print('my hook', kind.__name__)\nraise ValueError('x')\n"
    expected, told = both(program(tmp_path, hook))
    assert (told.code, told.stdout, told.stderr) == (expected.code, expected.stdout, expected.stderr)


def test_ctrl_c_ends_a_script_with_the_signal(both: Any, tmp_path: Path) -> None:
    expected, told = both(program(tmp_path, "raise KeyboardInterrupt\n"))
    assert told.code == expected.code


def test_what_depends_on_being_main(both: Any, tmp_path: Path) -> None:
    """Pickles, dataclasses, getsource, line numbers, pools by fork, spawn and forkserver, a change of folder."""
    shutil.copy(SCRIPTS / "mainmodule.py", tmp_path)
    expected, told = both("mainmodule.py", "argument")
    assert expected.code == 0, expected.stderr
    assert (told.code, told.stdout, told.stderr) == (expected.code, expected.stdout, expected.stderr)


# ----------------------------------------------------------------------------------------------------------
# The anatomy of loops
# ----------------------------------------------------------------------------------------------------------


def session(script: str, *args: str, arms: tuple[Arm, ...] = (), **schedule: Any) -> Scenario:
    plan = Schedule(**{"max_pairs": 2, "block_s": 0.002, **schedule})
    command = Command(str(SCRIPTS / script), None, args)
    return functools.partial(under_worker, command=command, arms=arms, schedule=plan)


def beside_python(script: str, *args: str) -> Scenario:
    """The whole script under an eager-only session, and under python."""

    def run(folder: Path) -> tuple[Told, Told]:
        return plain(folder, str(SCRIPTS / script), *args), session(script, *args, arms=(AA,), max_pairs=10**6)(folder)

    return run


def guarded(text: str, *args: str) -> Scenario:
    """A script among files of the user's, under driver and guard. Returns exit, events and the folder."""

    def run(folder: Path) -> tuple[int, str, list[Event], Path]:
        home = folder / "home"
        home.mkdir()
        (folder / "temporary").mkdir()
        for name in ("checkpoint.pt", "history.txt", "removed.txt"):
            (home / name).write_text("precious")
        (home / "script.py").write_text(text)
        time.sleep(0.05)  # the files are older than the session
        # what lies in the folder for temporary files is no one's; pytest's own folders must not count as that
        environment = {**os.environ, "TMPDIR": str(folder / "temporary")}
        executor = LocalExecutor(folder / "run", sys.executable, str(home), environment)
        spec = spec_of(folder / "run", Command("script.py", None, args), (AA,), Schedule(max_pairs=2, block_s=0.002))
        started, events, deadline = executor.start(spec), [], time.monotonic() + LIMIT_S
        while started.exit is None and time.monotonic() < deadline:
            events += started.poll(0.5)
        assert started.exit is not None, events
        return started.exit.code, started.exit.output_tail, events, home

    return run


AFTER_SAVING = {
    "copied": "shutil.copyfile('new.pt', 'best.pt'); assert torch.load('best.pt') == {'a': 1}",
    "looked at": "assert os.path.getsize('new.pt') > 0 and glob.glob('*.pt')",
    "opened": "assert torch.load(open('new.pt', 'rb')) == {'a': 1}",
    "put in place": "os.replace('new.pt', 'final.pt'); assert torch.load('final.pt') == {'a': 1}",
}
SAVE = f"""
import glob, os, shutil, torch
for name, use in {AFTER_SAVING}.items():
    torch.save({{'a': 1}}, 'new.pt')
    try:
        exec(use)
    except Exception as error:
        print(name, 'failed:', error)
    else:
        print(name, 'works')
"""

SCENARIOS: dict[str, Scenario] = {
    "dropout": beside_python("plain_loop.py", "300"),
    "loader fork": beside_python("loader.py", "2", "fork", "2"),
    "loader spawn": beside_python("loader.py", "1", "spawn", "1"),
    "saves": guarded((SCRIPTS / "saves.py").read_text(), "400"),
    "saved, then used": guarded(SAVE),
    **{how: session("compiles_itself.py", how, arms=(AS_WRITTEN,)) for how in ("call", "method", "decorated")},
    "step": session("compiles_itself.py", "step", arms=(AS_WRITTEN,)),
    "methods only": session("methods_only.py", arms=(EAGER_GRAPHS,)),
    "keyword only": session("keyword_only.py", arms=(EAGER_GRAPHS,)),
    "policy": session("policy.py", arms=(EAGER_GRAPHS,)),
    "gan": session("gan.py", arms=(EAGER_GRAPHS,), max_pairs=10**6),
    "inference without loader": session("inference_plain.py", arms=(AA,), max_pairs=10**6),
    "inference with loader": session("inference_loader.py", arms=(EAGER_GRAPHS,)),
    "one call": session("pointwise.py", arms=(AA,)),
    "plain": session("plain_loop.py"),
    "loader": session("loader.py"),
    "accumulation": session("accumulation.py"),
    "manual": session("manual_sgd.py"),
    "lbfgs": session("lbfgs.py"),
    "scaler": session("scaler.py"),
    "evaluating": session("evaluating.py", "200", arms=(AA,), max_pairs=150),
    "roles": session("roles.py"),
    "spawned": session("spawned.py", arms=(EAGER_GRAPHS,)),
    "forked": session("forked.py", arms=(EAGER_GRAPHS,)),
    "new loader": session("new_loader.py", arms=(AA,)),
    "strict warnings": lambda folder: strict_about_warnings(folder),
}


def strict_about_warnings(folder: Path) -> Told:
    (folder / "strict.py").write_text(
        "import warnings\nwarnings.simplefilter('error')\n" + (SCRIPTS / "manual_sgd.py").read_text()
    )
    return under_worker(folder, Command("strict.py", None))


scenario = pytest.mark.scenario


def ready(told: Told) -> ArmReady:
    return told.one(ArmReady)


def boundary(told: Told) -> tuple[str, int, int]:
    found = told.anatomy.boundary
    return found.kind, found.index, found.every


@scenario("plain")
def test_plain_loop(outcome: Told) -> None:
    assert outcome.code == 0
    assert outcome.anatomy.kind == "training" and boundary(outcome) == ("optimizer", 0, 1)
    (root,) = outcome.anatomy.roots
    assert (root.name, root.role, root.target, root.calls_per_step) == ("Sequential", "network", True, 1.0)
    assert root.parameters == 16 * 32 + 32 + 32 * 4 + 4
    assert [(mode.training, mode.grad) for mode in root.modes] == [(True, True)]
    assert root.where is not None and Path(root.where.file).name == "plain_loop.py"
    source = (SCRIPTS / "plain_loop.py").read_text().splitlines()
    assert "model(inputs)" in source[root.where.line - 1]
    (optimizer,) = outcome.anatomy.optimizers
    assert (optimizer.name, optimizer.parameters) == ("AdamW", root.parameters)
    assert outcome.one(SessionDone).why == "queue"
    assert outcome.stderr == ""


@scenario("loader")
def test_loop_over_a_loader(outcome: Told) -> None:
    assert boundary(outcome) == ("optimizer", 0, 1)
    (loader,) = outcome.anatomy.loaders
    assert (loader.dataset, loader.batch_size, loader.workers, loader.batches) == ("Noise", 32, 0, 8)


@scenario("accumulation")
def test_gradient_accumulation_is_one_step(outcome: Told) -> None:
    assert boundary(outcome) == ("optimizer", 0, 1)
    assert outcome.anatomy.backwards_per_step == 4.0
    assert outcome.anatomy.roots[0].calls_per_step == 4.0


@scenario("gan")
def test_two_networks_with_two_optimizers(outcome: Told) -> None:
    kind, _, every = boundary(outcome)
    assert (kind, every, outcome.anatomy.backwards_per_step) == ("optimizer", 1, 3.0)
    assert sorted((root.calls_per_step, root.target) for root in outcome.roots("Sequential")) == [
        (1.0, True),
        (3.0, True),
    ]
    (loss,) = outcome.roots("BCEWithLogitsLoss")
    assert (loss.role, loss.target) == ("loss", False)
    assert ready(outcome).log.graphs >= 2


@scenario("gan")
def test_steps_of_a_whole_script_with_two_optimizers(outcome: Told) -> None:
    assert outcome.one(ScriptEnded).steps == 400


@scenario("manual")
def test_without_an_optimizer_the_backward_pass_ends_a_step(outcome: Told) -> None:
    assert outcome.anatomy.kind == "training" and boundary(outcome) == ("backward", 0, 1)
    assert outcome.targets == ["Sequential"] and outcome.anatomy.optimizers == ()


@scenario("manual")
def test_looking_for_an_optimizer_warns_of_nothing(outcome: Told) -> None:
    assert outcome.stderr == ""


@scenario("strict warnings")
def test_a_script_that_makes_warnings_errors_goes_on(outcome: Told) -> None:
    assert outcome.all(ScriptEnded) == [] and outcome.targets == ["Sequential"], outcome.stderr


@scenario("lbfgs")
def test_evaluations_of_a_long_closure_are_the_steps(outcome: Told) -> None:
    assert boundary(outcome) == ("backward", 0, 1)
    assert outcome.targets == ["Sequential"]
    assert [optimizer.name for optimizer in outcome.anatomy.optimizers] == ["LBFGS"]


@scenario("inference with loader")
def test_inference_over_a_loader(outcome: Told) -> None:
    assert outcome.anatomy.kind == "inference" and boundary(outcome) == ("loader", 0, 1)
    assert [(mode.training, mode.grad) for mode in outcome.anatomy.roots[0].modes] == [(False, False)]
    assert ready(outcome).log.graphs == 1


@scenario("inference without loader")
def test_inference_without_a_loader(outcome: Told) -> None:
    assert outcome.anatomy.kind == "inference" and boundary(outcome) == ("call", 0, 1)
    assert outcome.targets == ["Linear", "Linear"]
    assert all(block.calls == 2 * block.steps for block in outcome.all(Block))


@scenario("one call")
def test_inference_spends_its_step_in_forward(outcome: Told) -> None:
    phases = outcome.one(PhasesMeasured).phases_ns
    assert phases["forward"] > phases["other"], phases


@scenario("inference without loader")
def test_steps_of_a_whole_script_that_ends_with_calls(outcome: Told) -> None:
    assert 598 <= outcome.one(ScriptEnded).steps <= 600


@scenario("policy")
def test_a_policy_called_many_times_a_step(outcome: Told) -> None:
    assert boundary(outcome) == ("optimizer", 0, 1)
    (root,) = outcome.anatomy.roots
    assert root.calls_per_step == 41.0 and root.target
    assert {(mode.training, mode.grad) for mode in root.modes} == {(True, True), (True, False)}
    assert ready(outcome).log.graphs >= 2
    assert all(block.calls == 41 * block.steps for block in outcome.all(Block))


@scenario("scaler")
def test_gradient_scaler(outcome: Told) -> None:
    assert boundary(outcome) == ("optimizer", 0, 1)
    assert outcome.targets == ["Sequential"]


@scenario("evaluating")
def test_evaluation_before_and_between_is_no_step(outcome: Told) -> None:
    assert outcome.anatomy.kind == "training" and boundary(outcome) == ("optimizer", 0, 1)
    assert outcome.anatomy.evaluation_calls == 50
    assert [(mode.training, mode.grad) for mode in outcome.anatomy.roots[0].modes] == [(True, True)]
    blocks = outcome.all(Block)
    assert len(blocks) == 300, "an evaluation must not end the session"
    assert all(block.calls == block.steps and block.elements == block.steps * 8 * 16 for block in blocks)


@scenario("keyword only")
def test_keyword_only_calls(outcome: Told) -> None:
    assert boundary(outcome) == ("optimizer", 0, 1) and outcome.targets == ["Model"]
    assert ready(outcome).log.graphs == 1
    assert all(block.elements == block.steps * 2 * 32 for block in outcome.all(Block))


@scenario("roles")
def test_losses_and_transforms_are_no_networks(outcome: Told) -> None:
    assert {(root.name, root.role, root.target) for root in outcome.anatomy.roots} == {
        ("Normalize", "transform", False),
        ("Net", "network", True),
        ("CrossEntropyLoss", "loss", False),
    }


@pytest.mark.parametrize(
    "name", [pytest.param("spawned", marks=scenario("spawned")), pytest.param("forked", marks=scenario("forked"))]
)
def test_training_in_a_child(outcome: Told, name: str) -> None:
    assert boundary(outcome) == ("optimizer", 0, 1) and outcome.targets == ["Sequential"]
    assert ready(outcome).log.graphs == 1
    assert outcome.one(ArmClosed).outcome == "completed"
    assert outcome.one(SessionDone).why == "queue"
    assert "the script's own end" not in outcome.stdout, "the parent must not go on to the script's end"


@scenario("new loader")
def test_a_new_dataset_each_epoch_is_still_the_same_loop(outcome: Told) -> None:
    assert len(outcome.all(Block)) == 4


@scenario("methods only")
def test_a_model_whose_forward_is_never_called(outcome: Told) -> None:
    assert outcome.targets == ["Linear"] * 3, "its submodules are what the loop calls"
    assert ready(outcome).log.graphs >= 3
    assert all(block.calls == 3 * block.steps for block in outcome.all(Block))


HOWS = {"call": "call", "method": "method", "decorated": "decorator", "step": "decorator"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=scenario(name)) for name in HOWS])
def test_a_script_that_compiles_itself_is_measured_against_eager(outcome: Told, name: str) -> None:
    used = [site for site in outcome.anatomy.sites if site.calls]
    (site,) = used
    assert site.how == HOWS[name] and site.options == {"backend": "eager"}
    source = (SCRIPTS / "compiles_itself.py").read_text().splitlines()
    assert site.where is not None and "compile(" in source[site.where.line - 1]
    assert ready(outcome).log.graphs > 0 and ready(outcome).log.ops > 0
    assert outcome.one(ArmClosed).outcome == "completed"
    assert [block.side for block in sorted(outcome.all(Block), key=lambda b: (b.pair, b.side))] == ["arm", "base"] * 2
    assert all(block.compiles == 0 and block.calls >= block.steps for block in outcome.all(Block))


@scenario("step")
def test_breaks_inside_a_compiled_step_point_at_the_script(outcome: Told) -> None:
    stacks = [found.stack for found in ready(outcome).log.breaks]
    source = (SCRIPTS / "compiles_itself.py").read_text().splitlines()
    own = [[source[p.line - 1].strip() for p in stack if Path(p.file).name == "compiles_itself.py"] for stack in stacks]
    # torch breaks inside optimizer.step by itself; the script's line is then the innermost of the script
    assert {"loss.backward()", "optimizer.step()"} <= {lines[-1] for lines in own}
    assert {lines[0] for lines in own} == {"whole_step(inputs)"}
    assert not any("/torch/_dynamo/" in place.file for stack in stacks for place in stack)


# ----------------------------------------------------------------------------------------------------------
# Eager stays eager, bit for bit
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=scenario(n)) for n in ("dropout", "loader fork", "loader spawn")]
)
def test_losses_of_an_eager_session_are_those_of_python(outcome: tuple[Told, Told], name: str) -> None:
    expected, told = outcome
    assert expected.code == 0, expected.stderr
    assert told.stdout == expected.stdout and len(told.stdout.splitlines()) >= 8
    assert (told.code, told.stderr) == (expected.code, expected.stderr)
    assert told.one(ScriptEnded).steps == len(told.stdout.splitlines())


# ----------------------------------------------------------------------------------------------------------
# The user's files
# ----------------------------------------------------------------------------------------------------------


@scenario("saves")
def test_the_users_files_stand_as_before(outcome: tuple[int, str, list[Event], Path]) -> None:
    code, output, _, home = outcome
    assert code == 0, output
    kept = {name: (home / name).read_text() for name in ("checkpoint.pt", "history.txt", "removed.txt")}
    assert set(kept.values()) == {"precious"}, kept


@scenario("saves")
def test_files_touched_are_listed(outcome: tuple[int, str, list[Event], Path]) -> None:
    touched = {Path(event.path).name: event for event in outcome[2] if isinstance(event, FileTouched)}
    assert {name: event.how for name, event in touched.items() if name != "renamed.txt"} == {
        "checkpoint.pt": "diverted",
        "history.txt": "changed",
        "removed.txt": "removed",
        "created.txt": "created",
    }
    assert touched["history.txt"].kept is not None and touched["created.txt"].kept is None


@scenario("saves")
def test_trackers_are_switched_off(outcome: tuple[int, str, list[Event], Path]) -> None:
    assert re.search(r"'WANDB_MODE': 'disabled'", outcome[1]), outcome[1]


@pytest.mark.parametrize("name", AFTER_SAVING)
@scenario("saved, then used")
def test_a_script_may_use_the_file_that_it_saved(outcome: tuple[int, str, list[Event], Path], name: str) -> None:
    assert f"{name} works" in outcome[1], outcome[1]


@scenario("saved, then used")
def test_a_checkpoint_of_the_users_is_not_harmed_by_copies(outcome: tuple[int, str, list[Event], Path]) -> None:
    assert (outcome[3] / "checkpoint.pt").read_text() == "precious"


def test_no_anatomy_without_a_loop(tmp_path: Path) -> None:
    told = under_worker(tmp_path, Command(program(tmp_path, "print('no torch here')\n"), None), cwd=tmp_path)
    assert told.all(AnatomyFound) == [] and told.one(ScriptEnded).code == 0


def test_a_function_that_the_script_compiles_is_what_may_be_compiled(tmp_path: Path) -> None:
    script = tmp_path / "loss_only.py"
    script.write_text(
        "import torch\n"
        "@torch.compile\n"
        "def loss(a, b):\n"
        "    return (torch.sigmoid(a) * b).square().mean()\n"
        "a, b = torch.randn(400, 400), torch.randn(400, 400)\n"
        "for _ in range(4000):\n"
        "    loss(a, b)\n"
    )
    told = under_worker(tmp_path, Command(str(script), None), (AA,))
    phases = told.all(PhasesMeasured)[0]
    assert phases.phases_ns["forward"] > 0.5 * phases.total_ns

"""The command line: whose option is whose, what a run directory prints, what each mistake is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from recordings import (
    COMPUTE_PHASES,
    anatomy,
    ended,
    meta,
    pair_of_blocks,
    ready,
)

from speedproof import __version__, cli, codec
from speedproof.analyse.conclude import conclude
from speedproof.analyse.ledger import Ledger
from speedproof.cli.board import Lines, clock, left
from speedproof.cli.demo import main as demo
from speedproof.cli.run import command_of, parser, split
from speedproof.errors import Exit, SpeedproofError
from speedproof.model import (
    AnatomyFound,
    ArmClosed,
    ArmStarted,
    Command,
    Event,
    PhasesMeasured,
    Result,
    SessionExit,
    SessionStarted,
    TorchLoaded,
)
from speedproof.plan.arms import mode_arm
from speedproof.store import RunStore, append_line

# -------------------------------------------------------------------------------------------------------------------
# Whose words are whose
# -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "ours", "theirs"),
    [
        ("train.py", "", "train.py"),
        ("train.py --budget 5m --lr 3", "", "train.py --budget 5m --lr 3"),
        ("--budget 5m train.py --budget 9m", "--budget 5m", "train.py --budget 9m"),
        ("--budget=5m --quiet train.py -m x", "--budget=5m --quiet", "train.py -m x"),
        ("--quiet -m package.train --lr 3 -m", "--quiet -m package.train", "--lr 3 -m"),
        ("--steps 9 -- train.py --steps 3", "--steps 9", "train.py --steps 3"),
        ("-- -odd.py", "", "-odd.py"),
        ("train.py -- rest", "", "train.py -- rest"),
        ("-m", "-m", ""),
        ("", "", ""),
    ],
)
def test_options_end_at_the_script_and_what_follows_is_its_own(words: str, ours: str, theirs: str) -> None:
    assert split(words.split()) == (ours.split(), theirs.split())


def test_every_option_with_a_value_is_known_to_take_one() -> None:
    for action in parser()._actions:
        for flag in action.option_strings:
            if flag.startswith("--") and action.nargs is None:
                assert split([flag, "value", "train.py"]) == ([flag, "value"], ["train.py"]), flag


def test_a_script_and_a_module_become_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    assert command_of(None, ["train.py", "--lr", "3"]) == Command("train.py", None, ("--lr", "3"))
    assert command_of("package.train", ["-x"]) == Command(None, "package.train", ("-x",))
    assert command_of("package.train", ["-x"]).words() == ("-m", "package.train", "-x")


# -------------------------------------------------------------------------------------------------------------------
# Mistakes
# -------------------------------------------------------------------------------------------------------------------


def answer(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, output and error output of the program, in this process."""
    vars(cli).pop("list", None)  # the module of that name, see test_the_program_may_be_called_twice_in_a_process
    try:
        code = cli.main(list(words))
    except SystemExit as end:  # argparse
        code = end.code if isinstance(end.code, int) else 1
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, without options from anywhere."""
    monkeypatch.chdir(tmp_path)
    for name in ("BUDGET", "STEPS", "THRESHOLD", "VARIANTS", "PYTHON", "OUT", "JSON", "HTML", "SEED", "QUIET"):
        monkeypatch.delenv(f"SPEEDPROOF_{name}", raising=False)
    return tmp_path


def test_help_lists_the_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(["--help"], capsys)
    assert code == 0 and all(name in out for name in cli.COMMANDS) and "speedproof run train.py" in out


def test_every_command_of_the_list_exists_and_has_help(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli.COMMANDS:
        code, out, _ = answer([name, "--help"], capsys)
        assert code == 0 and f"speedproof {name}" in out


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["--version"], capsys)[:2] == (0, f"speedproof {__version__}\n")


@pytest.mark.parametrize("words", [[], ["fly"], ["run"], ["run", "none.py"], ["run", "--fly", "x.py"], ["run", "-m"]])
def test_a_wrong_command_line_is_exit_2(folder: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answer(words, capsys)
    assert code == Exit.USAGE and (out or err)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        ("--budget soon", "bad-budget"),
        ("--threshold 200%", "bad-threshold"),
        ("--steps few", "bad-number"),
        ("--python nowhere/python", "no-python"),
        ("--variants turbo", "unknown-variant"),
        ("--json none/v.json", "no-such-folder"),
        ("--html none/r.html", "no-such-folder"),
    ],
)
def test_a_wrong_value_is_told_before_anything_is_written(
    folder: Path, options: str, slug: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("train.py").touch()
    code, out, err = answer(["run", *options.split(), "train.py"], capsys)
    assert (code, out) == (Exit.USAGE, "") and err.startswith("speedproof: ") and f"[{slug}]" in err
    assert [f.name for f in folder.iterdir()] == ["train.py"]


def test_the_script_named_last_by_mistake_is_explained(folder: Path) -> None:
    with pytest.raises(SpeedproofError, match="no such file") as caught:
        command_of(None, ["5m", "train.py"])
    assert "options of speedproof stand before it" in caught.value.hint


def test_the_demo_takes_no_wrong_value_either(folder: Path) -> None:
    with pytest.raises(SpeedproofError):
        demo(["--budget", "soon"])


def test_the_program_may_be_called_twice_in_a_process(folder: Path) -> None:
    words = [sys.executable, "-c", "from speedproof.cli import main; main(['list']); main(['list'])"]
    assert subprocess.run(words, capture_output=True, timeout=60, cwd=folder).returncode == 0


def test_python_m_speedproof_is_the_same_program(folder: Path) -> None:
    words = [sys.executable, "-m", "speedproof", "list"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=folder)
    assert done.returncode == 0 and "no runs under .speedproof" in done.stdout


# -------------------------------------------------------------------------------------------------------------------
# Stored runs
# -------------------------------------------------------------------------------------------------------------------


def events(gain: float) -> list[Event]:
    """A session with eager against eager and the default mode, a second between events."""
    said: list[Event] = [
        SessionStarted(0.0, 0, 4711, "python"),
        TorchLoaded(0.0, {"torch": "2.14.1", "device": "cpu"}),
        AnatomyFound(0.0, anatomy()),
        PhasesMeasured(0.0, 12, sum(COMPUTE_PHASES.values()), COMPUTE_PHASES),
        ArmStarted(0.0, "aa", 0, True),
    ]
    for n in range(14):
        said += pair_of_blocks("aa", n, 20.0 + 0.05 * (n % 2), 20.0 + 0.05 * (n // 2 % 2))
    said += [ArmClosed(0.0, "aa", "completed", ""), ArmStarted(0.0, "default", 0, True), ready("default")]
    for n in range(12):
        said += pair_of_blocks("default", n, 20.0 + 0.05 * (n % 2), (20.0 + 0.05 * (n // 2 % 2)) / gain)
    return [replace(event, at_s=1_000.0 + i) for i, event in enumerate(said)]


def stored(base: Path, gain: float = 1.5, finished: bool = True) -> Path:
    """A run directory as a run leaves it, or as one leaves it that was killed."""
    asked = meta([mode_arm("default")])
    store = RunStore.create(base, asked)
    said = events(gain)
    if finished:
        said += [ArmClosed(2_000.0, "default", "completed", ""), SessionExit(2_000.0, 0, 0, None)]
    for event in said:
        append_line(store.session_dir(0) / "events.jsonl", codec.encode_line(event))
    if finished:
        store.write_result(conclude(asked, said, 123.0))
    return store.path


def test_a_run_is_reported_on_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answer(["report", str(stored(folder / "runs"))], capsys)
    assert (code, err) == (0, "") and "1.50x" in out and "torch.compile" in out


def test_a_run_is_reported_as_json_of_the_contract(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(["report", str(stored(folder / "runs")), "--format", "json"], capsys)
    plain = json.loads(out)
    assert code == 0 and plain["schema_version"] == 1 and plain["verdict"]["kind"] == "worth_it"
    assert plain["command"] == ["train.py", "--epochs", "3"] and plain["elapsed_s"] == 123.0
    assert sum(plain["baseline"]["phases"].values()) == pytest.approx(1.0)
    assert plain["variants"][0]["speedup"]["ratio"] == pytest.approx(1.5, rel=0.01)
    assert codec.from_plain(Result, plain).verdict.best == "default"


def test_the_newest_run_is_reported_where_a_folder_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stored(folder / ".speedproof")
    for word in (".speedproof", "latest", str(run)):
        code, out, err = answer(["report", word], capsys)
        assert (code, err) == (0, "") and "1.50x" in out
    assert "[no-run-directory]" in answer(["report", "nowhere"], capsys)[2]


@pytest.mark.parametrize(("form", "start"), [("html", "<!doctype html>"), ("markdown", "#")])
def test_a_run_is_reported_as_a_page(folder: Path, form: str, start: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(stored(folder / "runs"))
    code, out, _ = answer(["report", run, "--format", form], capsys)
    assert code == 0 and "1.50" in out and start in out[:200].lower()
    code, printed, _ = answer(["report", run, "--format", form, "--output", "page"], capsys)
    assert (code, printed) == (0, "") and Path("page").read_text() == out


def test_a_run_that_was_killed_before_its_verdict_is_reported_from_its_events(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stored(folder / "runs", finished=False)
    with (run / "sessions" / "000" / "events.jsonl").open("a") as file:
        file.write('{"type":"Block","at_s":')
    code, out, _ = answer(["report", str(run), "--format", "json"], capsys)
    plain = json.loads(out)
    assert code == 0 and plain["exit_code"] == Exit.INTERRUPTED
    assert plain["elapsed_s"] == pytest.approx(len(events(1.5)) - 1)
    assert plain["noise"]["aa"]["pairs"] == 14 and plain["baseline"]["steps"] > 0
    assert not (run / "verdict.json").exists()


def test_a_run_that_was_killed_at_once_is_reported_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunStore.create(folder / "runs", meta()).path
    for form in ("terminal", "json", "html", "markdown"):
        code, out, _ = answer(["report", str(run), "--format", form], capsys)
        assert code == 0 and out


@pytest.mark.parametrize("words", [["report", "none"], ["report", "."]])
def test_what_is_no_run_is_told_so(folder: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = answer(words, capsys)
    assert code == Exit.USAGE and "[no-run-directory]" in err and "speedproof list" in err


def test_an_unknown_format_is_exit_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["report", "x", "--format", "poem"], capsys)[0] == Exit.USAGE


def test_a_folder_without_runs_says_how_to_make_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(["list"], capsys)
    assert code == 0 and "no runs under .speedproof" in out and "speedproof run SCRIPT.py" in out


def test_the_list_shows_finished_killed_and_damaged_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, killed = stored(folder / ".speedproof"), stored(folder / ".speedproof", finished=False)
    damaged = stored(folder / ".speedproof")
    (damaged / "verdict.json").write_text("{")
    code, out, _ = answer(["list"], capsys)
    assert code == 0 and all(run.name in out for run in (good, killed, damaged))
    assert "train.py --epochs 3" in out and "worth it" in out and "cannot be read" in out


def test_the_list_is_one_json_object_a_line_where_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(folder / "runs"), stored(folder / "runs", gain=0.8)
    code, out, _ = answer(["list", "runs", "--json"], capsys)
    kinds = sorted(json.loads(line)["verdict"] for line in out.splitlines())
    assert code == 0 and kinds == ["not_worth_it", "worth_it"]


# -------------------------------------------------------------------------------------------------------------------
# Progress
# -------------------------------------------------------------------------------------------------------------------


def test_plain_lines_tell_what_happens_and_a_sign_of_life_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    lines, ledger = Lines(budget_s=600.0), Ledger()
    for second, event in enumerate([*events(1.5), ArmClosed(1_100.0, "default", "completed", ""), ended(0)]):
        ledger.add(event)
        lines.event(event, ledger, float(second))
    told = capsys.readouterr().err
    for words in ("torch 2.14.1 on cpu", "ResNet", "35% forward", "aa: timing", "default: compiling", "1 graphs"):
        assert words in told
    assert "default: 1.50" in told and "by itself after 50 steps" in told
    lines.pulse(ledger, 65.0)
    assert capsys.readouterr().err == ""
    lines.pulse(ledger, 125.0)
    assert "at most 7:55 left" in capsys.readouterr().err


def test_times_are_minutes_and_seconds() -> None:
    assert (clock(0.0), clock(65.9), clock(3_600.0)) == ("0:00", "1:05", "60:00")
    assert left(600.0, 700.0) == "at most 0:00 left"

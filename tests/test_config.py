"""Options: where each may come from, which of them wins, and what a wrong one is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedproof.config import NAMES, Options, fraction, options_of, seconds
from speedproof.errors import Exit, SpeedproofError


def file_with(folder: Path, table: str, head: str = "[tool.speedproof]\n") -> None:
    (folder / "pyproject.toml").write_text(f'[project]\nname = "mine"\n\n{head}{table}\n')


# -------------------------------------------------------------------------------------------------------------------
# Layers
# -------------------------------------------------------------------------------------------------------------------


def test_without_any_layer_there_are_defaults(tmp_path: Path) -> None:
    assert options_of({}, {}, tmp_path) == Options(600.0, None, 0.05, None, sys.executable, None, None, None, 0, False)


def test_the_command_line_beats_the_environment_beats_the_file_beats_the_default(tmp_path: Path) -> None:
    file_with(tmp_path, 'budget = "2m"\nseed = 2\nthreshold = "2%"')
    environ = {"SPEEDPROOF_BUDGET": "3m", "SPEEDPROOF_SEED": "3"}
    found = options_of({"budget": "4m", "seed": None}, environ, tmp_path)
    assert (found.budget_s, found.seed, found.threshold, found.planned_steps) == (240.0, 3, 0.02, None)


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("budget", "90s", "budget_s", 90.0),
        ("steps", "10_000", "planned_steps", 10_000),
        ("threshold", "0.1", "threshold", 0.1),
        ("variants", "default,eager", "variants", "default,eager"),
        ("out", "here", "out", "here"),
        ("json", "v.json", "json", "v.json"),
        ("html", "r.html", "html", "r.html"),
        ("seed", "7", "seed", 7),
        ("quiet", "1", "quiet", True),
    ],
)
def test_each_option_may_come_from_each_layer(tmp_path: Path, name: str, text: str, field: str, value: object) -> None:
    assert name in NAMES
    assert getattr(options_of({name: text}, {}, tmp_path), field) == value
    assert getattr(options_of({}, {f"SPEEDPROOF_{name.upper()}": text}, tmp_path), field) == value
    file_with(tmp_path, f'{name} = "{text}"')
    assert getattr(options_of({}, {}, tmp_path), field) == value


def test_numbers_and_truth_values_of_the_file_need_no_quotes(tmp_path: Path) -> None:
    file_with(tmp_path, "budget = 120\nsteps = 5000\nthreshold = 0.1\nquiet = true")
    found = options_of({}, {}, tmp_path)
    assert (found.budget_s, found.planned_steps, found.threshold, found.quiet) == (120.0, 5000, 0.1, True)


def test_the_nearest_pyproject_upwards_counts_and_no_other(tmp_path: Path) -> None:
    inner = tmp_path / "package" / "deep"
    inner.mkdir(parents=True)
    file_with(tmp_path, "seed = 5")
    assert options_of({}, {}, inner).seed == 5
    file_with(tmp_path / "package", "seed = 6")
    assert options_of({}, {}, inner).seed == 6
    (inner / "pyproject.toml").write_text("[project]\n")
    assert options_of({}, {}, inner).seed == 0


def test_foreign_variables_and_foreign_tables_are_left_alone(tmp_path: Path) -> None:
    file_with(tmp_path, "seed = 5", head="[tool.other]\n")
    assert options_of({}, {"SPEEDPROOF_COLOR": "1", "BUDGET": "3m"}, tmp_path) == options_of({}, {}, tmp_path)


def test_a_broken_file_of_a_project_that_does_not_mention_us_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project\n")
    assert options_of({}, {}, tmp_path).seed == 0


@pytest.mark.parametrize(("table", "word"), [("budgets = 3", "budgets"), ("= 3", "pyproject.toml")])
def test_a_wrong_table_is_an_error_that_names_the_file(tmp_path: Path, table: str, word: str) -> None:
    file_with(tmp_path, table)
    with pytest.raises(SpeedproofError) as caught:
        options_of({}, {}, tmp_path)
    assert caught.value.slug == "bad-config" and word in caught.value.message
    assert str(tmp_path / "pyproject.toml") in caught.value.message


def test_an_inline_table_is_not_ignored_without_a_word(tmp_path: Path) -> None:
    file_with(tmp_path, "speedproof = {seed = 5}", head="[tool]\n")
    assert options_of({}, {}, tmp_path).seed == 5


# -------------------------------------------------------------------------------------------------------------------
# Values
# -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90s", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("600", 600.0), (" 1h 5s ", 3605.0), ("1.5M", 90.0)],
)
def test_lengths_of_time_are_read_as_people_write_them(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "10 minutes", "-5m", "1e9", "5m!", "9s", "0"])
def test_what_is_no_length_of_time_is_an_error(text: str) -> None:
    with pytest.raises(SpeedproofError) as caught:
        seconds(text)
    assert caught.value.slug == "bad-budget" and caught.value.code == Exit.USAGE and "10" in caught.value.hint


@pytest.mark.parametrize("text", ["1.2.3m", "...", "."])
def test_a_number_with_several_dots_is_an_error_of_the_user(text: str) -> None:
    with pytest.raises(SpeedproofError):
        seconds(text)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.integers(0, 20), st.integers(0, 59), st.integers(10, 59))
def test_hours_minutes_and_seconds_add_up(hours: int, minutes: int, rest: int) -> None:
    assert seconds(f"{hours}h{minutes}m{rest}s") == 3600 * hours + 60 * minutes + rest


@pytest.mark.parametrize(
    ("text", "expected"), [("5%", 0.05), ("0.05", 0.05), ("7.5 %", 0.075), ("0", 0.0), ("99%", 0.99)]
)
def test_shares_are_percent_or_fractions(text: str, expected: float) -> None:
    assert fraction(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "%", "5", "100%", "-1%", "nan", "inf", "a lot", "1.0"])
def test_what_is_no_share_is_an_error(text: str) -> None:
    with pytest.raises(SpeedproofError) as caught:
        fraction(text)
    assert caught.value.slug == "bad-threshold" and "5%" in caught.value.hint


@pytest.mark.parametrize("name", ["steps", "seed"])
@pytest.mark.parametrize("text", ["", "-1", "1.5", "1e6", "many", "True"])
def test_what_is_no_whole_number_is_an_error(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(SpeedproofError) as caught:
        options_of({name: text}, {}, tmp_path)
    assert caught.value.slug == "bad-number" and f"--{name}" in caught.value.message


@pytest.mark.parametrize("text", ["10000", "10_000", "10,000"])
def test_numbers_may_be_grouped(tmp_path: Path, text: str) -> None:
    assert options_of({"steps": text}, {}, tmp_path).planned_steps == 10_000


def test_the_interpreter_is_looked_up_and_made_absolute(tmp_path: Path) -> None:
    program = tmp_path / "python9"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert options_of({"python": str(program)}, {}, tmp_path).python == str(program)
    relative = os.path.relpath(program)
    assert options_of({"python": relative}, {}, tmp_path).python == str(program)
    with pytest.raises(SpeedproofError) as caught:
        options_of({"python": str(tmp_path / "none")}, {}, tmp_path)
    assert caught.value.slug == "no-python"


@pytest.mark.parametrize(("text", "quiet"), [("1", True), ("true", True), ("YES", True), ("0", False), ("", False)])
def test_quiet_is_a_truth_value(tmp_path: Path, text: str, quiet: bool) -> None:
    assert options_of({}, {"SPEEDPROOF_QUIET": text}, tmp_path).quiet is quiet

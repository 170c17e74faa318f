"""What goes through JSON comes back the same, and nothing but ``DecodeError`` comes from junk."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedproof import codec
from speedproof.model import (
    Arm,
    ArmConfig,
    ArmReady,
    Block,
    Command,
    Control,
    Event,
    Result,
    RunMeta,
    Schedule,
    ScriptEnded,
    SessionExit,
    SessionSpec,
    TorchLoaded,
)


@pytest.fixture(autouse=True, scope="module")
def finite() -> None:
    """JSON has no NaN and no infinity; no field has a use for them. Here, since the registry is one for all tests."""
    st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)

# by way of the kinds, since from_type looks up what a float is when it is called
EVENTS = st.sampled_from([Block, ScriptEnded, SessionExit, TorchLoaded, Control, ArmReady]).flatmap(st.from_type)


@given(EVENTS)
def test_lines_round_trip(event: object) -> None:
    line = codec.encode_line(event)
    assert "\n" not in line
    assert codec.decode_line(Event | Control, line) == event


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([SessionSpec, RunMeta, Result]).flatmap(st.from_type))
def test_files_round_trip(value: object) -> None:
    assert codec.loads(type(value), codec.dumps(value)) == value


@given(st.text() | JSON.map(json.dumps))
def test_junk_raises_decode_errors_only(line: str) -> None:
    with pytest.raises(codec.DecodeError):
        codec.decode_line(Event, line)


@pytest.mark.parametrize(
    "line",
    [
        '{"type": "TorchLoaded", "at_s": 1, "facts": 3}',
        '{"type": "TorchLoaded", "facts": {}, "at_s": 1' + "0" * 400 + "}",
        "[" * 100_000,
    ],
    ids=["dict", "overflow", "depth"],
)
def test_known_leaks_raise_decode_errors_only(line: str) -> None:
    with pytest.raises(codec.DecodeError):
        codec.decode_line(Event, line)


@given(st.data())
def test_fields_of_the_wrong_kind_raise_decode_errors_only(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(get_args(Event)))
    fields = {field.name: data.draw(JSON) for field in dataclasses.fields(kind)}
    with contextlib.suppress(codec.DecodeError):
        codec.decode_line(Event, json.dumps({"type": kind.__name__, **fields}))


@given(EVENTS, st.data())
def test_half_lines_raise_decode_errors(event: object, data: st.DataObject) -> None:
    line = codec.encode_line(event)
    half = line[: data.draw(st.integers(0, len(line) - 1))]
    with pytest.raises(codec.DecodeError):
        codec.decode_line(Event | Control, half)


def test_a_file_of_an_older_version_takes_defaults_and_of_a_newer_one_is_cut() -> None:
    assert codec.loads(Schedule, '{"seed": 3, "of_the_future": [1]}') == Schedule(seed=3)


@pytest.mark.parametrize(
    "text",
    [
        '{"script": 3, "module": null}',
        '{"script": null}',
        '{"script": "a", "module": null, "args": "bc"}',
        "7",
    ],
)
def test_what_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(codec.DecodeError):
        codec.loads(Command, text)


def test_options_keep_their_kinds() -> None:
    arm = Arm("a", "A", "compile", ArmConfig(options={"flag": True, "count": 3, "share": 0.5, "name": "x"}))
    back = codec.loads(Arm, codec.dumps(arm))
    assert back == arm
    assert [type(value) for value in back.config.options.values()] == [bool, int, float, str]

"""What differs on an accelerator, checked without one: a stand-in for ``torch.cuda`` records what it was told."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from speedproof.model import Arm, Block, Command, Memory, Schedule, SessionSpec
from speedproof.worker.device import Device, card_facts, environment_facts
from speedproof.worker.session import QUEUE_STEPS, Session
from speedproof.worker.steps import Step


class FakeEvent:
    """A timing event that remembers when it was recorded, in milliseconds."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.at_ms = 0.0

    def record(self) -> None:
        self.at_ms = time.perf_counter() * 1e3

    def elapsed_time(self, other: FakeEvent) -> float:
        return other.at_ms - self.at_ms


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """``torch.cuda`` as far as speedproof uses it; yields the calls in order."""
    calls: list[str] = []

    def note(name: str, result: Any = None) -> Any:
        return lambda *_: calls.append(name) or result

    for name, result in (
        ("synchronize", None),
        ("reset_peak_memory_stats", None),
        ("max_memory_allocated", 123),
        ("empty_cache", None),
    ):
        monkeypatch.setattr(torch.cuda, name, note(name, result))
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    yield calls


class Said:
    """A channel that keeps what was said."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def say(self, event: Any) -> None:
        self.events.append(event)

    def wishes(self) -> list[Any]:
        return []


def session_on_a_card() -> tuple[Session, Said]:
    board = SimpleNamespace(on=False, failure=None, load=lambda arm: None, unload=lambda: None)
    said = Said()
    spec = SessionSpec(0, Command("x.py", None), (), Schedule(block_s=0.0, max_pairs=4), "e", "c", "s", "k")
    session = Session(spec, said, SimpleNamespace(active=True), board)  # type: ignore[arg-type]
    session.device = Device("cuda")
    session._recent.append(50_000_000)
    return session, said


def drive(session: Session, arm: Arm, irregular: frozenset[int] = frozenset()) -> None:
    """Send finished steps of 50 ms until the arm is done."""
    routine = session._pairs(arm)
    next(routine)
    for n in range(10_000):
        step = Step(n * 50_000_000, (n + 1) * 50_000_000, 1, 10, 0, n not in irregular)
        try:
            routine.send(step)
        except StopIteration:
            return
    raise AssertionError("the arm did not end")


ARM = Arm("default", "torch.compile", "compile")


def test_the_device_is_synchronised_at_block_edges_only(card: list[str]) -> None:
    session, said = session_on_a_card()
    drive(session, ARM)
    blocks = [e for e in said.events if isinstance(e, Block)]
    assert len(blocks) == 8
    assert card.count("synchronize") == 2 * len(blocks)


def test_a_block_on_a_card_is_long_and_has_device_time(card: list[str]) -> None:
    session, said = session_on_a_card()
    drive(session, ARM)
    for block in (e for e in said.events if isinstance(e, Block)):
        assert block.steps >= QUEUE_STEPS
        assert block.step_ns == ()  # single steps of an asynchronous queue mean nothing
        assert block.device_ns is not None and block.device_ns >= 0


def test_a_block_with_an_irregular_step_begins_anew_on_a_card(card: list[str]) -> None:
    session, said = session_on_a_card()
    drive(session, ARM, irregular=frozenset({3}))
    first = next(e for e in said.events if isinstance(e, Block))
    assert first.steps == QUEUE_STEPS
    assert card.count("synchronize") == 2 * 8 + 1


def test_peak_memory_is_the_card_s_own(card: list[str]) -> None:
    session, said = session_on_a_card()
    drive(session, ARM)
    assert {(m.side, m.peak_bytes) for m in said.events if isinstance(m, Memory)} == {("base", 123), ("arm", 123)}
    assert "reset_peak_memory_stats" in card


def test_cached_memory_is_given_back(card: list[str]) -> None:
    Device("cuda").release_cached()
    assert card == ["empty_cache"]


def test_a_cpu_has_nothing_to_wait_for(card: list[str]) -> None:
    device = Device("cpu")
    device.synchronize()
    assert device.mark() is None and Device.between_ns(None, None) is None
    assert card == [] and not device.asynchronous


def test_the_peak_of_a_process_is_known_and_can_begin_anew() -> None:
    device = Device("cpu")
    device.forget_peak()
    before = device.peak_bytes()
    held = torch.ones(20_000_000)
    after = device.peak_bytes()
    assert before is not None and after is not None and after > before + held.numel()


def test_facts_about_a_card_are_an_allow_list(card: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(name="Card X", major=9, minor=0, total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    facts = environment_facts()
    assert facts["device"] == "cuda: Card X" and facts["capability"] == "9.0" and facts["devices"] == "2"
    assert facts["device_memory"] == "80.0 GiB"


def test_a_card_that_others_use_or_that_is_held_down_is_told() -> None:
    answers = {
        "compute-apps": f"17\n{os.getpid()}\n18\n",
        "gpu": "Not Active, Active, Not Active, Active, Not Active",
    }
    facts = card_facts(lambda query: answers[query.split("=")[0]])
    assert facts == {"device_processes": "2", "device_throttled": "hw_slowdown, sw_thermal_slowdown"}


def test_a_card_that_cannot_be_asked_is_not_spoken_for() -> None:
    assert card_facts(lambda query: "") == {}
    assert card_facts(lambda query: "[N/A]") == {}

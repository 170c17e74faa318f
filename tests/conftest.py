"""Trials take seconds each and mostly wait: those that the collected tests need run side by side, started ahead.

A test asks for the fixture ``outcome`` and names its scenario with ``@pytest.mark.scenario("name")``, or is
parametrised over it. The module has the scenarios in ``SCENARIOS``: name to a function of a fresh folder. Each runs
once, however many tests look at what it returned.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

AT_A_TIME = 3
SHORTEST_LIMIT_S = 280.0  # a test that is first to ask waits for its scenario's turn

Outcomes = Callable[[str], Any]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "scenario(name): the scenario of the module that this test looks at")
    config.addinivalue_line("markers", "slow: takes more than ten seconds; run like all others unless deselected")
    # several trials share the cores, and no assertion is about speed
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    """What a scenario returned; waits for it, and raises what it raised."""
    wanted: dict[str, Callable[[Path], Any]] = {}
    for item in request.session.items:
        name = scenario_of(item)
        if name is not None:
            wanted[name] = item.module.SCENARIOS[name]  # type: ignore[attr-defined]
    pool = ThreadPoolExecutor(AT_A_TIME)
    folders = {name: tmp_path_factory.mktemp(re.sub(r"\W+", "_", name)) for name in wanted}
    running: dict[str, Future[Any]] = {name: pool.submit(wanted[name], folders[name]) for name in wanted}
    yield lambda name: running[name].result(SHORTEST_LIMIT_S)
    pool.shutdown(cancel_futures=True)


@pytest.fixture
def outcome(request: pytest.FixtureRequest, outcomes: Outcomes) -> Any:
    name = scenario_of(request.node)
    assert name is not None, "the test names no scenario"
    return outcomes(name)


def scenario_of(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker("scenario")
    return None if marker is None else str(marker.args[0])

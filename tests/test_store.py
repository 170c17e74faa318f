"""The run directory: new ones never cost an old one, and what was cut off can still be read."""

from __future__ import annotations

import dataclasses
import os
import random
from datetime import datetime
from pathlib import Path

import pytest

from speedproof import codec, store
from speedproof.errors import SpeedproofError
from speedproof.model import (
    ArmVoided,
    Baseline,
    Ceiling,
    Command,
    Event,
    Noise,
    Result,
    RunMeta,
    StepsSeen,
    Verdict,
)
from speedproof.store import RunStore

AT_S = datetime(2026, 12, 1, 15, 30, 12).timestamp()
META = RunMeta(
    schema_version=1,
    version="0.1",
    command=Command("examples/train.py", None, ("--epochs", "3")),
    cwd="/home/me",
    python="python3",
    started="2026-12-01T15:30:12",
    started_s=AT_S,
    budget_s=600.0,
    threshold=0.05,
    planned_steps=None,
    seed=0,
    arms=(),
)
RESULT = Result(
    schema_version=1,
    verdict=Verdict("not_worth_it", "No gain.", None, ("no_gain",), ()),
    baseline=Baseline(None, 0, None, None),
    ceiling=Ceiling(None, "not known"),
    noise=Noise(None, None),
    variants=(),
    findings=(),
    claims=(),
    environment={},
    command=("train.py",),
    started="2026-12-01T15:30:12",
    elapsed_s=1.0,
)


def seen(at_s: float, steps: int) -> StepsSeen:
    return StepsSeen(at_s, steps, None)


def write_events(file: Path, *events: Event) -> None:
    file.write_text("".join(codec.encode_line(event) + "\n" for event in events))


def test_a_new_run_has_a_name_that_tells_when_and_what(tmp_path: Path) -> None:
    base = tmp_path / "project" / ".speedproof"
    run = RunStore.create(base, META)
    assert run.path == base / "20261201-153012-train"
    assert (base / ".gitignore").read_text() == "*\n"
    assert store.load_meta(run.path) == META
    assert RunStore.create(base, META).path.name == "20261201-153012-train-2"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (Command(None, "pkg.tools.fit"), "fit"),
        (Command("my train (v2).py", None), "my_train_v2_"),
        (Command(".", None), "run"),
    ],
)
def test_names_are_fit_for_a_shell(tmp_path: Path, command: Command, name: str) -> None:
    run = RunStore.create(tmp_path, dataclasses.replace(META, command=command))
    assert run.path.name == f"20261201-153012-{name}"
    assert not (tmp_path / ".gitignore").exists(), "a folder that was there already is not ours to set up"


def test_an_exact_directory_may_be_absent_or_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for exact in (tmp_path / "deep" / "new", tmp_path / "empty"):
        assert RunStore.create(tmp_path, META, exact).path == exact
        assert store.load_meta(exact) == META


def test_a_former_run_is_moved_aside(tmp_path: Path) -> None:
    exact = tmp_path / "out"
    for seed in (1, 2, 3):
        RunStore.create(tmp_path, dataclasses.replace(META, seed=seed), exact)
    seeds = {path.name: store.load_meta(path).seed for path in tmp_path.iterdir()}
    assert seeds == {"out": 3, "out.1": 1, "out.2": 2}


def test_what_is_not_ours_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("...")
    (tmp_path / "file").write_text("...")
    for name, slug in (("thesis", "out-not-empty"), ("file", "out-not-a-directory")):
        with pytest.raises(SpeedproofError) as caught:
            RunStore.create(tmp_path, META, tmp_path / name)
        assert caught.value.slug == slug and caught.value.hint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "thesis"]


def test_events_of_all_processes_come_by_time(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path, META)
    write_events(run.session_dir(0) / "events.jsonl", seen(1.0, 1), seen(3.0, 3))
    write_events(run.session_dir(1) / "events.jsonl", seen(2.0, 2), seen(3.0, 4))
    voided = ArmVoided(3.0, "default", "timed_out", "no time left")
    run.append(voided)
    assert store.load_events(run.path) == [seen(1.0, 1), seen(2.0, 2), voided, seen(3.0, 3), seen(3.0, 4)]
    assert run.session_dir(12) == run.path / "sessions" / "012"


def test_a_clock_set_back_does_not_reorder_one_process(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path, META)
    events = [seen(5.0, 1), seen(2.0, 2), seen(2.5, 3)]
    write_events(run.session_dir(0) / "events.jsonl", *events)
    write_events(run.session_dir(1) / "events.jsonl", seen(1.0, 0))
    assert store.load_events(run.path) == [seen(1.0, 0), *events]


def test_half_lines_and_junk_are_left_out(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path, META)
    file = run.session_dir(0) / "events.jsonl"
    write_events(file, seen(1.0, 1))
    with file.open("ab") as events:
        events.write(random.Random(0).randbytes(5000) + b"\n\0\0\0\n")
        events.write(codec.encode_line(seen(2.0, 2)).encode() + b"\n")
        events.write(codec.encode_line(seen(3.0, 3)).encode()[:-5])
    run.session_dir(1)
    assert store.load_events(run.path) == [seen(1.0, 1), seen(2.0, 2)]
    assert store.load_events(tmp_path / "nowhere") == []


def test_a_torn_line_does_not_swallow_the_next(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path, META)
    run.append(seen(1.0, 1))
    with (run.path / "driver.jsonl").open("a") as driver:
        driver.write('{"type": "StepsSeen", "at')
    RunStore.open(run.path).append(seen(2.0, 2))
    assert store.load_events(run.path) == [seen(1.0, 1), seen(2.0, 2)]


def test_the_verdict_round_trip(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path, META)
    with pytest.raises(SpeedproofError) as caught:
        store.load_result(run.path)
    assert caught.value.slug == "no-verdict"
    run.write_result(RESULT)
    run.write_result(dataclasses.replace(RESULT, elapsed_s=2.0))
    assert store.load_result(run.path) == dataclasses.replace(RESULT, elapsed_s=2.0)
    assert sorted(path.name for path in run.path.iterdir()) == ["meta.json", "verdict.json"]


def test_a_failed_write_leaves_the_former_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunStore.create(tmp_path, META)
    run.write_result(RESULT)

    def full(_: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        run.write_result(dataclasses.replace(RESULT, elapsed_s=2.0))
    assert store.load_result(run.path) == RESULT
    assert sorted(path.name for path in run.path.iterdir()) == ["meta.json", "verdict.json"]


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        (None, "no-run-directory"),
        ("{", "damaged-run"),
        ("[]", "damaged-run"),
        ('{"schema_version": 1}', "damaged-run"),
        (codec.dumps(dataclasses.replace(META, schema_version=99)), "newer-run"),
    ],
)
def test_what_is_no_run_is_refused_with_advice(tmp_path: Path, text: str | None, slug: str) -> None:
    if text is not None:
        (tmp_path / "meta.json").write_text(text)
    with pytest.raises(SpeedproofError) as caught:
        RunStore.open(tmp_path)
    assert caught.value.slug == slug and caught.value.hint
    assert str(tmp_path) in caught.value.message


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    base = tmp_path / ".speedproof"
    assert store.list_runs(base) == []
    later = dataclasses.replace(META, started_s=AT_S + 60)
    first, last = RunStore.create(base, META), RunStore.create(base, later)
    (base / "notes").mkdir()
    (base / "broken").mkdir()
    (base / "broken" / "meta.json").write_text("?")
    assert store.list_runs(base) == [last.path, first.path]


# -------------------------------------------------------------------------------------------------------------------
# The user's sources
# -------------------------------------------------------------------------------------------------------------------


def test_sources_are_kept_as_they_were(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path / "runs", META)
    train, model = tmp_path / "train.py", tmp_path / "model.py"
    train.write_text("import model\n")
    model.write_bytes(b"# -*- coding: latin-1 -*-\r\nname = 'Andr\xe9'\r\n")
    kept = run.keep_sources([str(train), str(model)])
    train.write_text("changed\n")
    model.unlink()
    assert kept == store.load_sources(run.path)
    assert kept == {str(train): "import model\n", str(model): "# -*- coding: latin-1 -*-\nname = 'André'\n"}


def test_a_run_that_has_moved_still_has_its_sources(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path / "runs", META)
    (tmp_path / "train.py").write_text("pass\n")
    run.keep_sources([str(tmp_path / "train.py")])
    moved = run.path.rename(tmp_path / "elsewhere")
    assert store.load_sources(moved) == {str(tmp_path / "train.py"): "pass\n"}


def test_what_is_no_source_is_not_kept(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path / "runs", META)
    (tmp_path / "large.py").write_text("#" * (store.LARGEST_SOURCE_BYTES + 1))
    (tmp_path / "weights").write_bytes(b"\x80\x02}q\x00.")
    (tmp_path / "zero.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "odd.py").write_bytes(b"# coding: klingon\n")
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for ever
    names = ["large.py", "weights", "zero.py", "odd.py", "pipe", "gone.py", ".", "nul\0.py"]
    assert run.keep_sources([str(tmp_path / name) for name in names]) == {}
    assert store.load_sources(run.path) == {}
    assert sorted(path.name for path in run.path.iterdir()) == ["meta.json"]


def test_sources_are_few_and_the_first_named_are_kept(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path / "runs", META)
    files = [tmp_path / f"part{n}" / "model (2).py" for n in range(store.MOST_SOURCES + 5)]
    for number, file in enumerate(files):
        file.parent.mkdir()
        file.write_text(f"n = {number}\n")
    run.keep_sources(map(str, files))
    loaded = store.load_sources(run.path)
    assert loaded == {str(f): f"n = {n}\n" for n, f in enumerate(files[: store.MOST_SOURCES])}


def test_sources_that_cannot_be_written_are_no_reason_to_lose_the_run(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path / "runs", META)
    (run.path / "sources").write_text("a file where the folder should be")
    (tmp_path / "train.py").write_text("pass\n")
    assert run.keep_sources([str(tmp_path / "train.py")]) == {str(tmp_path / "train.py"): "pass\n"}
    assert store.load_sources(run.path) == {}


@pytest.mark.parametrize("index", ["", "[1]", "{", '{"a.py": 3}', '{"a.py": "../../secret"}', '{"a.py": "link"}'])
def test_an_index_cannot_make_us_read_elsewhere(tmp_path: Path, index: str) -> None:
    run = RunStore.create(tmp_path / "runs", META)
    (tmp_path / "secret").write_text("secret")
    (run.path / "sources").mkdir()
    (run.path / "sources" / "link").symlink_to(tmp_path / "secret")
    (run.path / "sources" / "index.json").write_text(index)
    assert store.load_sources(run.path) == {}


# -------------------------------------------------------------------------------------------------------------------
# Which run is meant
# -------------------------------------------------------------------------------------------------------------------


def test_a_run_its_folder_and_latest_name_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old = RunStore.create(store.BASE, META)
    new = RunStore.create(store.BASE, dataclasses.replace(META, started_s=AT_S + 60))
    assert store.resolve_run(old.path) == old.path
    for word in (Path("latest"), Path(".speedproof")):
        assert store.resolve_run(word).absolute() == new.path
    assert store.resolve_run(tmp_path / "nowhere") == tmp_path / "nowhere"  # load_meta says what is wrong


def test_latest_without_a_run_says_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpeedproofError) as caught:
        store.resolve_run(Path("latest"))
    assert caught.value.slug == "no-runs" and "speedproof run" in caught.value.hint

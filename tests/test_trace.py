"""Torch's structured trace: what is read out of recorded ones, and that nothing in a trace can hurt the reader."""

from __future__ import annotations

import itertools
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speedproof import codec
from speedproof.model import CompileLog, GraphBreak, Place
from speedproof.trace import TraceFold, parse_break, read_file, read_folder, read_ranks, read_stream
from speedproof.trace.file import MOST_LINE_BYTES, MOST_PROCESSES
from speedproof.trace.fold import KINDS, MOST_GRAPH_PAYLOAD, MOST_KEPT
from speedproof.trace.graphs import operations_by_line

RECORDED = Path(__file__).parent / "data" / "trace"
VERSIONS = ("torch-2.6", "torch-2.9", "torch-2.13", "torch-2.14")
SCRIPT = "/project/toy.py"
quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.log").read_bytes()


def header(record: object, pid: int = 4711) -> bytes:
    return f"V1203 12:00:00.123456 {pid} torch/_dynamo/utils.py:2022] ".encode() + json.dumps(record).encode() + b"\n"


def indented(payload: str) -> bytes:
    return b"".join(b"\t" + line.encode() + b"\n" for line in payload.split("\n"))


def ids(frame: int = 0, attempt: int = 0) -> dict[str, int]:
    return {"frame_id": frame, "frame_compile_id": attempt, "attempt": 0}


def artifact(name: str, frame: int = 0, attempt: int = 0) -> dict[str, Any]:
    return {"artifact": {"name": name, "encoding": "string"}, **ids(frame, attempt)}


def metrics(frame: int = 0, attempt: int = 0, kind: str = "compilation_metrics", **fields: object) -> dict[str, Any]:
    return {kind: fields, **ids(frame, attempt)}


def started(*stack: tuple[int, int, str], frame: int = 0, attempt: int = 0) -> dict[str, Any]:
    frames = [{"filename": file, "line": line, "name": name} for file, line, name in stack]
    return {"dynamo_start": {"stack": frames}, **ids(frame, attempt)}


def break_text(reason: str = "Some break", line: int = 3) -> str:
    return (
        f"Graph break in user code at {SCRIPT}:{line}\nGraph Break Reason: {reason}\n  Explanation: Because.\n"
        "  Hint: Do not.\n\n  Developer debug context: x\n\nUser code traceback:\n"
        f'  File "{SCRIPT}", line 9, in <module>\n    f(x)\n  File "{SCRIPT}", line {line}, in f\n    g(x)\n\n'
        'Traceback (most recent call last):\n  File "/venv/torch/exc.py", line 1, in unimplemented\n    raise\n'
        "torch._dynamo.exc.Unsupported: Some break\n"
    )


def lines_of(found: GraphBreak) -> list[tuple[int, str | None]]:
    return [(p.line, p.function) for p in found.stack]


def is_sound(log: CompileLog) -> bool:
    """It can be stored, and nothing in it grows without bound."""
    text = codec.dumps(log).encode("utf-8")
    kept = (log.breaks, log.recompiles, log.captured, log.cudagraph_skips, log.fallbacks)
    return len(text) < 50_000_000 and all(len(entries) <= MOST_KEPT for entries in kept)


# -------------------------------------------------------------------------------------------------------------------
# What real traces say
# -------------------------------------------------------------------------------------------------------------------


def by_id(log: CompileLog) -> dict[str | None, GraphBreak]:
    return {found.compile_id: found for found in log.breaks}


def test_a_break_is_told_by_its_type_with_explanation_and_hints() -> None:
    found = by_id(read_file(RECORDED / "torch-2.14.log"))["3/0"]
    assert found.reason == "Data-dependent branching"
    assert found.explanation == (
        "Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). "
        "Dynamo does not support tracing dynamic control flow."
    )
    assert len(found.hints) == 3 and found.hints[-1] == "Use `torch.cond` to express dynamic control flow."
    assert lines_of(found)[0] == (32, "<module>") and lines_of(found)[-1] == (13, "forward")


def test_the_preamble_of_a_break_is_no_reason() -> None:
    found = by_id(read_file(RECORDED / "torch-2.14.log"))["6/0"]
    assert found.reason == "Call to `torch._dynamo.graph_break()`"
    assert found.stack[-1].file.endswith("torch/optim/optimizer.py")
    assert (27, "train_step") in lines_of(found)


@pytest.mark.parametrize("version", ["torch-2.13", "torch-2.14"])
def test_a_break_that_cost_the_whole_frame_keeps_its_own_reason(version: str) -> None:
    log = read_file(RECORDED / f"{version}.log")
    found = by_id(log)["13/0"]
    assert found.reason == "Failed to trace builtin operator"
    assert "Dynamo does not know how to trace builtin operator `print`" in found.explanation
    assert "graph break in a for/while loop" in found.explanation
    assert lines_of(found) == [(54, "<module>"), (50, "loop")]
    assert any("toy.py:46 loop: runs uncompiled" in w for w in log.warnings)


def test_a_backend_that_fails_is_one_break_though_torch_tells_it_twice() -> None:
    found = [b for b in read_file(RECORDED / "torch-2.14.log").breaks if b.compile_id == "14/0"]
    assert [b.reason for b in found] == ["Backend compiler exception"]
    assert lines_of(found[0]) == [(72, "<module>"), (66, "unsure")]
    older = by_id(read_file(RECORDED / "torch-2.6.log"))["14/0"]
    assert older.reason == "UnsupportedOperatorException: aten.sin.default"
    assert lines_of(older) == [(72, "<module>"), (66, "unsure")]


def test_reasons_of_torch_2_6_are_free_of_decoration_and_have_the_callers() -> None:
    found = by_id(read_file(RECORDED / "torch-2.6.log"))
    assert found["0/0"].reason.startswith("inline in skipfiles: Optimizer.zero_grad")
    assert found["2/0"].reason.startswith("builtin: print")
    assert lines_of(found["2/0"])[0] == (32, "<module>") and lines_of(found["2/0"])[-1] == (12, "forward")


@pytest.mark.parametrize("version", VERSIONS)
def test_breaks_of_any_version_have_a_reason_and_lead_from_the_script_to_the_line(version: str) -> None:
    breaks = read_file(RECORDED / f"{version}.log").breaks
    assert breaks
    for found in breaks:
        assert found.reason not in ("", "graph break") and "Encountered" not in found.reason
        assert found.stack[0].file == SCRIPT and found.stack[0].function == "<module>"
        assert not any("torch_dynamo_resume" in (p.function or "") for p in found.stack)
        assert not any("eval_frame" in p.file for p in found.stack)
        assert not any("graph-break-site" in hint for hint in found.hints)


@pytest.mark.parametrize("version", ["torch-2.6", "torch-2.14"])
def test_a_recompile_has_the_newest_guard_first_a_stack_and_its_cost(version: str) -> None:
    log = read_file(RECORDED / f"{version}.log")
    first, second, last = [r for r in log.recompiles if r.compile_id and r.compile_id.startswith("12/")]
    assert "rank mismatch. expected 1, actual 2" in first.reason and first.others == ()
    assert second.reason.startswith("12/1: ") and second.others[0].startswith("12/0: ")
    assert [r.stack[-1].function for r in (first, second, last)] == ["scale"] * 3
    assert first.cost_s is not None and 0.1 < first.cost_s < 1
    assert log.limit_hit and len(last.others) == 2


def test_no_limit_is_hit_where_none_was() -> None:
    assert not read_file(RECORDED / "torch-2.14-inductor.log").limit_hit


def test_a_graph_knows_its_function_its_lines_and_where_the_seconds_went() -> None:
    log = read_file(RECORDED / "torch-2.14-inductor.log")
    assert (log.graphs, log.ops, log.frames) == (2, 4, 2)  # compiled twice, and one backward of its own
    graph, again = log.captured
    assert graph.where == Place(SCRIPT, 11, "forward")
    assert graph.lines == {f"{SCRIPT}:12": 1, f"{SCRIPT}:13": 1}
    assert set(graph.stages_s) == {"frame", "backend", "inductor", "codegen", "lazy_backward"}
    assert graph.stages_s["frame"] > graph.stages_s["backend"]
    assert "lazy_backward" not in again.stages_s
    assert log.stages_s["frame"] == pytest.approx(graph.stages_s["frame"] + again.stages_s["frame"], abs=1e-3)


def test_an_error_that_was_suppressed_is_a_fallback_and_a_break_is_none() -> None:
    (told,) = read_file(RECORDED / "torch-2.14.log").fallbacks
    assert told == f"{SCRIPT}:79 wave: BackendCompilerFailed: backend='broken' raised: RuntimeError: backend is broken"


# -------------------------------------------------------------------------------------------------------------------
# The fold
# -------------------------------------------------------------------------------------------------------------------


def test_live_records_are_taken_as_they_are() -> None:
    fold = TraceFold(name_of={7: SCRIPT}.get, step=lambda: 12)
    fold.record({"str": ("/project/net.py", 1)}, "")
    fold.record(artifact("recompile_reasons", 2, 1), "2/0: size mismatch")
    fold.record(started((7, 1, "<module>"), (1, 5, "forward"), frame=2, attempt=1), "")
    fold.record(metrics(2, 1, entire_frame_compile_time_s=1.5, graph_op_count=4, co_filename="/project/net.py"), "")
    (recompile,) = fold.recompiles
    assert recompile.stack == (Place(SCRIPT, 1, "<module>"), Place("/project/net.py", 5, "forward"))
    assert (recompile.step, recompile.cost_s, recompile.others) == (12, 1.5, ())
    assert fold.captured[0].ops == 4


def test_a_file_name_that_nobody_knows_is_a_question_mark() -> None:
    fold = TraceFold()
    fold.record(started((99, 1, "f")))
    fold.record(artifact("dynamo_graph_break_reason"))
    assert fold.breaks == [GraphBreak("graph break", "", (), (Place("?", 1, "f"),), "0/0")]


def test_the_same_break_counts_once_for_a_compile_and_again_for_the_next() -> None:
    fold = TraceFold()
    for _ in range(2):
        fold.record(artifact("dynamo_graph_break_reason"), break_text())
    assert len(fold.breaks) == 1
    fold.record(artifact("dynamo_graph_break_reason"), break_text(line=4))
    fold.record(artifact("dynamo_graph_break_reason", 0, 1), break_text())
    assert len(fold.breaks) == 3
    fold.record(started())  # after a reset, torch counts from 0/0 again
    fold.record(artifact("dynamo_graph_break_reason"), break_text())
    assert len(fold.breaks) == 4


def test_a_recompile_that_was_never_begun_has_the_stack_of_its_frame() -> None:
    fold = TraceFold(name_of={1: SCRIPT}.get)
    fold.record(started((1, 5, "f"), frame=1, attempt=2))
    fold.record(started((1, 9, "other"), frame=11, attempt=0))
    fold.record(artifact("recompile_reasons", 1, 3), '["1/2: a", "1/1: b"]')
    (recompile,) = fold.recompiles
    assert (recompile.reason, recompile.others) == ("1/2: a", ("1/1: b",))
    assert recompile.stack == (Place(SCRIPT, 5, "f"),)


def test_a_list_of_reasons_that_was_cut_off_is_read_as_far_as_it_goes() -> None:
    fold = TraceFold()
    fold.record(artifact("recompile_reasons"), '[\n"1/2: a",\n"1/1: b",\n"1/0: half')
    assert (fold.recompiles[0].reason, fold.recompiles[0].others) == ("1/2: a", ("1/1: b",))


def test_compile_ids_are_written_as_torch_writes_them() -> None:
    fold = TraceFold()
    fold.record({**artifact("recompile_reasons", 3, 1), "compiled_autograd_id": 2}, "x")
    fold.record({"artifact": {"name": "recompile_reasons"}}, "y")
    assert [r.compile_id for r in fold.recompiles] == ["!2/3/1", None]


def test_skipped_cuda_graphs_are_told_once_each() -> None:
    fold = TraceFold()
    for kind in ("compilation_metrics", "bwd_compilation_metrics", "compilation_metrics_runtime"):
        fold.record(metrics(kind=kind, cudagraph_skip_reason="skipping cudagraphs due to mutated inputs"))
    assert fold.log().cudagraph_skips == ("skipping cudagraphs due to mutated inputs",)
    assert fold.frames == 1


@pytest.mark.parametrize(
    ("error", "why", "limit"),
    [
        ("RecompileLimitExceeded", "cache_size_limit reached", True),
        ("CacheLimitExceeded", "accumulated_cache_size_limit reached", True),
        ("FailOnRecompileLimitHit", "Hard failure due to fullgraph=True", True),
        ("Unsupported", "Dynamo recompile limit exceeded\n  Explanation: ...", True),
        ("Unsupported", "Data-dependent branching", False),
        (None, None, False),
    ],
)
def test_the_recompile_limit_by_all_its_names(error: str | None, why: str | None, limit: bool) -> None:
    fold = TraceFold()
    fold.record(metrics(fail_type=error, fail_reason=why))
    assert fold.log().limit_hit is limit


def test_an_error_that_reached_the_user_is_no_fallback() -> None:
    fold = TraceFold()
    fold.record(metrics(fail_type="BackendCompilerFailed", fail_reason="no", config_suppress_errors=False))
    assert fold.log().fallbacks == () and "compile failed: BackendCompilerFailed: no" in fold.log().warnings[0]


def test_what_is_too_much_is_counted() -> None:
    fold = TraceFold()
    for i in range(MOST_KEPT + 30):
        fold.record(artifact("dynamo_graph_break_reason", i), break_text())
        fold.record(artifact("recompile_reasons", i, 1), "x")
        fold.record(metrics(i, graph_op_count=2, entire_frame_compile_time_s=0.5))
    log = fold.log()
    assert len(log.breaks) == len(log.recompiles) == len(log.captured) == MOST_KEPT
    assert (log.graphs, log.ops, log.stages_s) == (MOST_KEPT + 30, 2 * (MOST_KEPT + 30), {"frame": 115.0})
    assert log.warnings == tuple(f"30 more {kind}, not listed" for kind in ("graph breaks", "graphs", "recompiles"))
    assert is_sound(log)


def test_a_frame_that_torch_cannot_resume_is_told_by_its_last_exception() -> None:
    text = (
        "Graph break: torch.compile cannot properly resume from this graph break, which results in a skip.\n"
        "torch.compile will skip tracing the frame f (/project/toy.py line 3) and fall back to eager.\n"
        'The graph break occurred in the following user code:\n  File "/project/toy.py", line 5, in f\n    y()\n\n'
        'Traceback (most recent call last):\n  File "/venv/x.py", line 1, in y\n    raise\n'
        "torch._dynamo.exc.Unsupported: Some break\n  Explanation: Because.\n  Hint: Do not.\n"
    )
    assert parse_break(text) == GraphBreak("Some break", "Because.", ("Do not.",), (Place(SCRIPT, 5, "f"),), None)
    older = text.partition("The graph break")[2].replace(" occurred in the following user code:", "Graph break: skip:")
    assert parse_break("Graph break: skip: from user code at:" + older.partition(":")[2]).reason == "Some break"


def test_a_hint_over_several_lines_is_one_and_a_page_of_the_registry_none() -> None:
    page = "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0001.html"
    found = parse_break(
        f"Graph Break Reason: R\n  Explanation: A\n    b.\n  Hint: c\n    d.\n  Hint: {page}\n  Hint: c\n    d."
    )
    assert (found.reason, found.explanation, found.hints) == ("R", "A b.", ("c d.",))


def test_operations_are_counted_by_line_and_aliases_are_none() -> None:
    source = (
        'class GraphModule(torch.nn.Module):\n    def forward(self, L_x_: "f32[4]"):\n        l_x_ = L_x_\n\n'
        "         # File: /project/toy.py:11 in forward, code: h = self.a(x)\n"
        '        w: "f32[4]" = self.weight\n        y: "f32[4]" = torch.relu(l_x_);  l_x_ = None\n'
        "        gt = y > 0;  y = None\n        return (gt,)\n"
    )
    assert operations_by_line(source) == {"/project/toy.py:11": 2}


def test_a_graph_that_was_cut_off_has_no_lines_rather_than_too_few() -> None:
    fold = TraceFold()
    source = "# File: /project/toy.py:1 in f, code: x\n" + "y = f(x)\n" * (MOST_GRAPH_PAYLOAD // 9)
    fold.record({"dynamo_output_graph": {}, **ids()}, source + "y = f(x)\n" * 10)
    fold.record(metrics(graph_op_count=3))
    assert fold.captured[0].lines == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from([*sorted(KINDS), "frame_id", "frame_compile_id", "compiled_autograd_id", "rank"])
FIELDS = st.sampled_from([
    "name", "stack", "filename", "line", "co_filename", "co_name", "co_firstlineno", "graph_op_count", "fail_type",
    "fail_reason", "duration_us", "entire_frame_compile_time_s", "cudagraph_skip_reason", "config_suppress_errors",
    "compile_id",
])  # fmt: skip
NAMES = st.sampled_from(["dynamo_graph_break_reason", "recompile_reasons", "eager_compile_backwards_failure"])
VALUES = JSON | NAMES | st.dictionaries(FIELDS, JSON | NAMES | st.lists(st.dictionaries(FIELDS, JSON), max_size=3))


@quick
@given(st.lists(st.tuples(st.dictionaries(KEYS, VALUES, max_size=4), st.text(max_size=200)), max_size=12))
def test_no_record_makes_the_fold_raise(records: list[tuple[dict[str, Any], str]]) -> None:
    fold = TraceFold(name_of=lambda i: None)
    for metadata, payload in records:
        fold.record(metadata, payload)
    assert is_sound(fold.log())


@pytest.mark.parametrize(
    "metadata", [None, 3, "str", [], {}, {1: 2}, {"str": None}, {"str": [[], {}]}, {"str": ("a",)}]
)
@pytest.mark.parametrize("payload", [None, b"bytes", 7, "\ud800"])
def test_not_even_the_wrong_types_make_the_fold_raise(metadata: Any, payload: Any) -> None:
    fold = TraceFold()
    fold.record(metadata, payload)
    fold.record(artifact("dynamo_graph_break_reason"), payload)
    assert is_sound(fold.log())


@quick
@given(st.text(max_size=300), st.integers(0, 400), st.integers(0, 400))
def test_no_text_of_a_break_makes_the_parser_raise(junk: str, at: int, to: int) -> None:
    text = break_text()
    for mixed in (junk, text[:at] + junk + text[to:], "WON'T CONVERT " + junk, "Graph Break Reason: " + junk):
        assert parse_break(mixed).reason


# -------------------------------------------------------------------------------------------------------------------
# Files
# -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 100, 4096])
def test_it_does_not_matter_where_the_pieces_are_cut(size: int) -> None:
    data = recorded("torch-2.13")
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    assert read_stream(pieces) == read_stream([data])


def teed(rank: int, data: bytes) -> list[bytes]:
    return [b"[rank%d]:" % rank + line for line in data.splitlines(keepends=True)]


@quick
@given(st.lists(st.integers(0, 2), max_size=400))
def test_interleaved_ranks_are_told_apart(order: list[int]) -> None:
    alone = {0: recorded("torch-2.13"), 1: recorded("torch-2.9"), 2: recorded("torch-2.14-inductor")}
    queues = {rank: teed(rank, data) for rank, data in alone.items()}
    mixed = [queues[rank].pop(0) for rank in order if queues[rank]]
    mixed += itertools.chain.from_iterable(queues.values())
    expected = {f"rank{rank}": read_stream([data])["trace"] for rank, data in alone.items()}
    assert read_stream([b"".join(mixed)]) == expected


def test_the_mark_of_a_launcher_may_stand_before_the_one_of_torch() -> None:
    marked = b"".join(b"[default0]:[rank3]: " + line for line in recorded("torch-2.13").splitlines(keepends=True))
    assert list(read_stream([marked])) == ["rank3"]


def test_processes_in_one_file_are_told_apart_by_their_id() -> None:
    one, two = recorded("torch-2.13"), recorded("torch-2.9").replace(b" 4711 ", b" 4712 ")
    logs = read_stream([one + two], "both.log")
    assert logs == {
        "both.log": read_stream([one])["trace"],
        "both.log pid 4712": read_stream([two])["trace"],
    } or logs == {
        "both.log": read_stream([two])["trace"],
        "both.log pid 4711": read_stream([one])["trace"],
    }


def test_a_folder_is_keyed_by_rank_and_other_files_are_let_be(tmp_path: Path) -> None:
    (tmp_path / "dedicated_log_torch_trace_rank_1_ab12.log").write_bytes(recorded("torch-2.9"))
    (tmp_path / "dedicated_log_torch_trace_rank_0_cd34.log").write_bytes(recorded("torch-2.13"))
    (tmp_path / "dedicated_log_torch_trace_rank_0_ef56.log").write_bytes(recorded("torch-2.14"))
    (tmp_path / "early.log").write_bytes(header({"compilation_metrics": {"graph_op_count": 1}, "rank": 7}))
    (tmp_path / "empty.log").write_bytes(b"")
    (tmp_path / "index.html").write_bytes(recorded("torch-2.9"))
    (tmp_path / "folder.log").mkdir()
    second = "rank0 of dedicated_log_torch_trace_rank_0_ef56.log"
    logs = read_folder(tmp_path)
    assert set(logs) == {"rank0", second, "rank1", "rank7"}
    assert logs["rank1"] == read_file(RECORDED / "torch-2.9.log")


def test_the_log_of_a_file_is_the_one_of_its_lowest_rank(tmp_path: Path) -> None:
    file = tmp_path / "tee.log"
    file.write_bytes(b"".join(teed(5, recorded("torch-2.9")) + teed(2, recorded("torch-2.13"))))
    assert list(read_ranks(file)) == ["rank2", "rank5"]
    assert read_file(file) == read_file(RECORDED / "torch-2.13.log")


def test_files_that_cannot_be_read_are_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none.log")
    with pytest.raises(OSError):
        read_file(tmp_path)
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(OSError, match="not a regular file"):
        read_file(tmp_path / "pipe.log")
    assert read_folder(tmp_path) == {}


def test_a_payload_that_is_missing_or_of_another_line_end_is_no_obstacle() -> None:
    bare = header(artifact("dynamo_graph_break_reason")) + header(metrics(1, graph_op_count=2))
    log = read_stream([bare])["trace"]
    assert len(log.breaks) == 1 and log.graphs == 1
    windows = recorded("torch-2.14").replace(b"\n", b"\r\n")
    assert read_stream([windows]) == read_stream([recorded("torch-2.14")])


def test_lines_of_other_programs_do_not_disturb_a_payload() -> None:
    lines = recorded("torch-2.14").splitlines(keepends=True)
    noise = [
        b"step 3: loss 0.25\n",
        b"W1203 12:00:00.000000 4711 torch/x.py:1] [0/0] a warning\n",
        b"\xff\x00\n",
        b"\n",
    ]
    noisy = [part for i, line in enumerate(lines) for part in (line, noise[i % len(noise)])]
    assert read_stream(noisy) == read_stream([b"".join(lines)])


def test_lines_of_any_length_are_survived() -> None:
    good = header(artifact("recompile_reasons", 3, 1)) + indented("3/0: x")
    endless = b"V1203 12:00:00.123456 4711 a.py:1] {" + b"x" * (2 * MOST_LINE_BYTES) + b"\n"
    wide = header(artifact("recompile_reasons", 4, 1)) + b"\t" + b"y" * (2 * MOST_LINE_BYTES) + b"\n"
    log = read_stream([good, endless, wide, good])["trace"]
    assert [r.compile_id for r in log.recompiles] == ["3/1", "4/1", "3/1"]
    assert is_sound(log)


def test_there_is_a_most_of_processes() -> None:
    data = b"".join(header(metrics(graph_op_count=1), pid=pid) for pid in range(1, MOST_PROCESSES + 50))
    assert len(read_stream([data])) == MOST_PROCESSES


def test_json_nested_beyond_reason_is_passed_over() -> None:
    deep = b'V1203 12:00:00.123456 4711 a.py:1] {"artifact": ' + b'{"a":' * 50_000 + b"\n"
    lists = b'V1203 12:00:00.123456 4711 a.py:1] {"compilation_metrics": ' + b"[" * 50_000 + b"]" * 50_000 + b"}\n"
    reasons = header(artifact("recompile_reasons")) + b"\t" + b"[" * 50_000 + b"\n"
    assert is_sound(read_stream([deep, lists, reasons])["trace"])


def test_a_trace_cut_anywhere_is_read_as_far_as_it_goes() -> None:
    data = recorded("torch-2.13")
    whole = read_stream([data])["trace"]
    for cut in range(len(data)):
        for log in read_stream([data[:cut]]).values():
            assert len(log.breaks) <= len(whole.breaks) and log.frames <= whole.frames


@quick
@given(st.binary(max_size=2000), st.integers(0, 25_000))
def test_arbitrary_bytes_are_survived(junk: bytes, at: int) -> None:
    data = recorded("torch-2.14")
    for mixed in (junk, data[:at] + junk + data[at:], data[:at] + junk + data[at + len(junk) :]):
        assert all(is_sound(log) for log in read_stream([mixed]).values())


@quick
@given(st.data())
def test_records_with_other_values_in_them_are_survived(data: st.DataObject) -> None:
    lines = recorded("torch-2.14").splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 6))):
        i = data.draw(st.sampled_from([i for i, line in enumerate(lines) if line[:1] == b"V" and b"] {" in line]))
        head, _, record = lines[i].partition(b"] ")
        known = json.loads(record)
        inner = known[data.draw(st.sampled_from(sorted(known)))]
        target = inner if isinstance(inner, dict) and inner and data.draw(st.booleans()) else known
        target[data.draw(st.sampled_from(sorted(target)))] = data.draw(VALUES)
        lines[i] = head + b"] " + json.dumps(known).encode() + b"\n"
    assert all(is_sound(log) for log in read_stream([b"".join(lines)]).values())


def storm(size: int) -> Iterator[bytes]:
    """A trace of at least ``size`` bytes, in which every kind of record never ends."""
    dump = indented("\n".join(f"    buf{i} = torch.ops.aten.add.Tensor(arg{i}, {i})" for i in range(2000)))
    sent = 0
    for i in itertools.count():
        piece = b"".join([
            header({"str": [f"/project/file{i}.py", i]}),
            header(artifact("recompile_reasons", i, 1)) + indented(json.dumps([f"{i}/0: " + "guard " * 2000] * 3)),
            header(started((i, i, "f" * 500), frame=i, attempt=1)),
            header(artifact("dynamo_graph_break_reason", i, 1)) + indented(break_text(f"break {i}", i)),
            header({"dynamo_output_graph": {}, **ids(i, 1)}) + dump,
            header({"inductor_output_code": {}, **ids(i, 1)}) + dump,
            header(metrics(i, 1, graph_op_count=5, co_filename=f"/project/file{i}.py", fail_reason="x" * 5000)),
            header(metrics(i, 2, fail_type="Unsupported", fail_reason=f"{i}" * 5000)),
        ])  # fmt: skip
        yield piece
        sent += len(piece)
        if sent >= size:
            return


def test_memory_does_not_grow_with_the_trace() -> None:
    tracemalloc.start()
    log = read_stream(storm(20_000_000))["trace"]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert is_sound(log) and log.graphs > 50
    assert peak < 10_000_000

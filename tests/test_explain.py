"""``speedproof explain``: findings with their source, from stored runs that have moved, and what each word shows."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from recordings import Script, Stage, anatomy, ended, log, meta, network, ready, site, timed

from speedproof import cli, codec
from speedproof.analyse import findings as findings_of
from speedproof.analyse.conclude import conclude
from speedproof.analyse.evidence import Evidence
from speedproof.analyse.ledger import Ledger, fold
from speedproof.analyse.places import user_files
from speedproof.analyse.source import Sources
from speedproof.cli.board import Silence
from speedproof.cli.report import result_of
from speedproof.engine import Engine, Surroundings
from speedproof.errors import Exit
from speedproof.model import (
    AnatomyFound,
    Baseline,
    CapturedGraph,
    Event,
    Finding,
    GraphBreak,
    Mean,
    Observed,
    Place,
    Recompile,
    Sighted,
    TorchLoaded,
)
from speedproof.plan.arms import mode_arm
from speedproof.report.explain import Subject, render, render_json
from speedproof.store import RunStore, append_line, load_sources

SOURCE = """def forward(x, mask):
    if x.dim() == 3:
\t\tx = x.flatten(1)
    if mask.sum().item() > 0:
        x = x * mask
    return x
"""
BREAK = Finding(
    slug="graph-break-item",
    severity="warning",
    where=Place("/project/model.py", 4, "forward"),
    count=12,
    cost_ms=0.5,
    why="Tensor.item() ends the graph.",
    hints=("Keep the value on the device.", "Use torch.where in place of the branch."),
    label="user_code",
    fix="-    if mask.sum().item() > 0:\n+    if True:\n",
)
NOTE = Finding("loader-workers", "info", None, None, None, "The loader is fast enough.", (), "benign")
PAGE = """A tensor's value decides a branch.

## What it means

`Tensor.item()` ends the graph.
"""


def quoting(evidence: Evidence) -> Iterator[Finding]:
    """A finding at each network, that quotes the source where it is known."""
    for root in evidence.anatomy.roots if evidence.anatomy is not None else ():
        yield replace(BREAK, where=root.where, why=f"it says {evidence.sources.line(root.where)!r}")


@pytest.fixture(autouse=True)
def one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages that there are: one, for two slugs."""
    page = types.ModuleType("speedproof.analyse.findings.graph_break_item", PAGE)
    page.SLUGS = ("graph-break-item", "graph-break-bool")  # type: ignore[attr-defined]
    page.find = quoting  # type: ignore[attr-defined]
    monkeypatch.setattr(findings_of, "pages", lambda: (page,))
    monkeypatch.setattr("speedproof.cli.explain.pages", lambda: (page,))


def subject(*findings: Finding) -> Subject:
    return Subject("runs/1", findings, Sources({"/project/model.py": SOURCE}), step_ms=10.0)


# -------------------------------------------------------------------------------------------------------------------
# What is said
# -------------------------------------------------------------------------------------------------------------------


def test_a_finding_is_told_with_source_cost_cause_and_cure() -> None:
    assert render([subject(BREAK, NOTE)]).splitlines() == [
        "runs/1: 2 findings (1 warning, 1 note)",
        "",
        "warning graph-break-item  0.50 ms a step (5% of it), seen 12 times",
        "  /project/model.py:4 in forward",
        "        2 | if x.dim() == 3:",
        "        3 |     x = x.flatten(1)",
        "  >     4 | if mask.sum().item() > 0:",
        "        5 |     x = x * mask",
        "        6 | return x",
        "  why: Tensor.item() ends the graph.",
        "  1. Keep the value on the device.",
        "  2. Use torch.where in place of the branch.",
        "  fix:",
        "    -    if mask.sum().item() > 0:",
        "    +    if True:",
        "  your code; more: docs/findings/graph-break-item.md",
        "",
        "info    loader-workers  cost not known",
        "  no place in your code",
        "  why: The loader is fast enough.",
        "  harmless",
        "",
        "with a slug behind it, this command shows the page of that finding as well",
    ]


def test_a_slug_shows_its_findings_and_its_page() -> None:
    text = render([subject(BREAK, NOTE)], "graph-break-item")
    assert "loader-workers" not in text and "1 finding (1 warning)" in text
    assert text.endswith("A tensor's value decides a branch\n\nWhat it means\n\n`Tensor.item()` ends the graph.\n")


def test_a_slug_that_was_not_found_shows_its_page_all_the_same() -> None:
    text = render([subject(BREAK)], "graph-break-bool")
    assert text.startswith("runs/1: no graph-break-bool in this run\n") and "What it means" in text


def test_a_run_without_findings_says_so() -> None:
    assert render([subject()]) == "runs/1: no findings in this run\n"


@pytest.mark.parametrize("slug", [None, "graph-break-item"])
def test_colour_changes_no_text(slug: str | None) -> None:
    subjects = [subject(BREAK, NOTE), subject()]
    coloured = render(subjects, slug, color=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render(subjects, slug)


def test_foreign_text_cannot_repaint_the_terminal() -> None:
    evil = "\x1b[2J\x1b]0;x\x07\u202e\u2028[bold]"
    bad = replace(BREAK, slug=evil, why=evil, hints=(evil,), fix=evil, where=Place("/project/\x1b.py", 1, evil))
    sources = Sources({"/project/\x1b.py": "x = '\x1b[31m\u202e'\n"})
    text = render([Subject(evil, (bad,), sources)])
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", text)
    assert "x = '\\x1b[31m\\u202e'" in text and "[bold]" in text


def test_as_json_each_finding_is_a_line() -> None:
    odd = replace(NOTE, cost_ms=float("nan"))
    first, second = map(json.loads, render_json([subject(BREAK, odd)]).splitlines())
    assert first["slug"] == "graph-break-item" and first["where"] == {
        "file": "/project/model.py",
        "line": 4,
        "function": "forward",
    }
    assert first["share"] == pytest.approx(0.05) and first["page"] == "docs/findings/graph-break-item.md"
    assert first["excerpt"] == {"first": 2, "lines": SOURCE.splitlines()[1:]}
    assert second["excerpt"] is second["page"] is second["share"] is second["cost_ms"] is None
    assert render_json([subject(BREAK, odd)], "graph-break-bool") == ""


# -------------------------------------------------------------------------------------------------------------------
# From which files
# -------------------------------------------------------------------------------------------------------------------


def known(*more: Event) -> Ledger:
    return fold([TorchLoaded(0.0, {}, ("/opt/vendor/",)), *more])


def test_files_are_the_users_own_and_the_loop_comes_first() -> None:
    stack = (Place("/p/train.py", 3), Place("/p/model.py", 9), Place("/v/lib/python3.12/site-packages/t.py", 1))
    said = replace(
        log(),
        breaks=(GraphBreak("item", "", (), stack, "0/0"),),
        recompiles=(Recompile("size", (Place("/p/layers.py", 2),), "0/1"),),
        captured=(CapturedGraph(Place("/p/block.py", 5), 9, "0/0", {}, {"/p/ops.py:7": 3, "<eval>:1": 1}),),
    )
    root = replace(network(), where=Place("/p/net.py", 1))
    loop = replace(anatomy(sites=(site(),), roots=(root,)), optimizers=())
    end = replace(ended(code=1), where=Place("/p/end.py", 2))
    seen = [Sighted(0.0, "read", Place(f, 1), 1) for f in ("/p/seen.py", "/opt/vendor/x.py")]
    ledger = known(Observed(0.0, 4, said), AnatomyFound(0.0, loop), *seen, end)
    names = ["train.py", "/p/net.py", "/p/end.py", "/p/seen.py"]
    assert list(user_files(ledger)) == [
        *names,
        "/p/model.py",
        "/p/train.py",
        "/p/layers.py",
        "/p/block.py",
        "/p/ops.py",
    ]


def test_nothing_known_names_no_files() -> None:
    assert user_files(Ledger()) == ()
    assert user_files(known(AnatomyFound(0.0, anatomy(roots=(replace(network(), where=None),))))) == ()


def test_logs_of_arms_count_as_well() -> None:
    noted = replace(log(), breaks=(GraphBreak("item", "", (), (Place("/p/a.py", 1),), None),))
    assert user_files(known(replace(ready("default"), log=noted))) == ("/p/a.py",)


def test_a_run_keeps_the_files_it_points_at_and_findings_read_them(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(SOURCE)
    loop = anatomy(roots=(replace(network(), where=Place(str(model), 4, "forward")),))
    script = Script(loop, {"aa": timed("aa", 1.0), "default": timed("default", 1.5)}, ("aa", "default"))
    asked = meta([mode_arm("default")])
    run = RunStore.create(tmp_path / "runs", asked)
    stage = Stage([script.session] * 9)
    world = Surroundings(stage, stage.clock, lambda timeout_s, terminal: 0, Silence())
    result = Engine(asked, run, world).run()
    assert load_sources(run.path) == {str(model): SOURCE}
    told = "it says 'if mask.sum().item() > 0:'"
    assert [f.why for f in result.findings] == [told]
    # its verdict and its script gone, it is concluded again from what it kept
    (run.path / "verdict.json").unlink()
    model.unlink()
    assert [f.why for f in result_of(run.path).findings] == [told]


# -------------------------------------------------------------------------------------------------------------------
# The command
# -------------------------------------------------------------------------------------------------------------------


def answer(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main(list(words))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def stored(base: Path, *findings: Finding) -> Path:
    """A run directory with these findings, and with the source of the model, which is gone by now."""
    run = RunStore.create(base, meta())
    model = base / "model.py"
    model.write_text(SOURCE)
    run.keep_sources([str(model)])
    model.unlink()
    placed = tuple(replace(f, where=f.where and replace(f.where, file=str(model))) for f in findings)
    said = [AnatomyFound(1_000.0, anatomy())]
    append_line(run.session_dir(0) / "events.jsonl", codec.encode_line(said[0]))
    baseline = Baseline(Mean(10.0, None, None), 5, None, None)
    run.write_result(replace(conclude(meta(), said, 1.0), findings=placed, baseline=baseline))
    return run.path


def test_a_run_is_explained_elsewhere_and_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = stored(tmp_path / ".speedproof", BREAK, NOTE)
    for word in (str(run), ".speedproof", "latest"):
        code, out, err = answer(["explain", word], capsys)
        assert (code, err) == (0, "") and "\x1b" not in out
        assert "  >     4 | if mask.sum().item() > 0:\n" in out and "(5% of it)" in out
    moved = run.rename(tmp_path / "elsewhere")
    code, out, _ = answer(["explain", str(moved), "graph-break-item", "--json"], capsys)
    (line,) = out.splitlines()
    assert code == 0 and json.loads(line)["excerpt"]["lines"][2] == "    if mask.sum().item() > 0:"


def test_the_report_quotes_the_source_and_names_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(stored(tmp_path, BREAK, NOTE))
    _, out, _ = answer(["report", run], capsys)
    assert "          > if mask.sum().item() > 0:\n          Keep the value on the device.\n" in out
    assert f"speedproof explain {run}\n" in out
    for form in ("html", "markdown"):
        _, out, _ = answer(["report", run, "--format", form], capsys)
        assert "if mask.sum().item() &gt; 0:" in out


def test_a_wrong_slug_is_told_which_look_like_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(stored(tmp_path, BREAK, NOTE))
    code, out, err = answer(["explain", run, "graph-brake-item"], capsys)
    assert (code, out) == (Exit.USAGE, "")
    assert "'graph-brake-item'" in err and "Did you mean: graph-break-item" in err and "[unknown-finding]" in err
    assert "graph-break-bool" in answer(["explain", run, "bool"], capsys)[2]
    assert "all findings" in answer(["explain", run, "zzz"], capsys)[2]


def test_a_finding_of_another_version_needs_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(["explain", str(stored(tmp_path, NOTE)), "loader-workers"], capsys)
    assert code == 0 and "1 finding (1 note)" in out and "docs/findings" not in out


def record(kind: str, body: object, payload: str = "", mark: str = "") -> str:
    """A record of a trace file, as torch writes it."""
    metadata = json.dumps({kind: body, "frame_id": 0, "frame_compile_id": 0, "attempt": 0})
    lines = [f"V1203 12:00:00.000000 4711 torch/_dynamo/x.py:1] {metadata}", *(f"\t{x}" for x in payload.splitlines())]
    return "".join(f"{mark}{line}\n" for line in lines)


def trace_of(model: Path, mark: str = "") -> str:
    """The trace of a process with one graph break, on line 4 of the model."""
    stack = [{"line": 4, "name": "forward", "filename": 7, "loc": ""}]
    reason = (
        f"Graph break in user code at {model}:4\nGraph Break Reason: Unsupported Tensor.item() call\n"
        f'User code traceback:\n  File "{model}", line 4, in forward\n    if mask.sum().item() > 0:\n'
    )
    return (
        record("str", [str(model), 7], mark=mark)
        + record("dynamo_start", {"stack": stack}, mark=mark)
        + record("artifact", {"name": "dynamo_graph_break_reason", "encoding": "string"}, reason, mark)
    )


def breaking(evidence: Evidence) -> Iterator[Finding]:
    """A finding at each graph break."""
    for _, said in evidence.logs:
        for cut in said.breaks:
            yield replace(BREAK, where=evidence.innermost(cut.stack), why=cut.reason, cost_ms=None)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, a page whose finding is at its breaks, and an empty folder for traces."""
    (page,) = findings_of.pages()
    monkeypatch.setattr(page, "find", breaking)
    (tmp_path / "model.py").write_text(SOURCE)
    (tmp_path / "traces").mkdir()
    return tmp_path


def test_traces_of_torch_are_explained_rank_by_rank(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in (0, 1):
        name = f"dedicated_log_torch_trace_rank_{rank}_ab12.log"
        (project / "traces" / name).write_text(trace_of(project / "model.py"))
    code, out, err = answer(["explain", str(project / "traces")], capsys)
    assert (code, err) == (0, "")
    assert [x for x in out.splitlines() if "1 finding (1 warning)" in x] == [
        f"{project / 'traces'}, rank{rank}: 1 finding (1 warning)" for rank in (0, 1)
    ]
    assert out.count("  >     4 | if mask.sum().item() > 0:\n") == 2 and "Tensor.item()" in out
    _, out, _ = answer(["explain", str(project / "traces"), "graph-break-item", "--json"], capsys)
    assert [json.loads(x)["run"][-5:] for x in out.splitlines()] == ["rank0", "rank1"]


def test_a_file_with_two_ranks_is_two_traces_and_needs_no_source(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = Path("/somewhere/else/model.py")
    text = trace_of(gone, "[rank1]:") + trace_of(gone, "[rank0]:")
    (project / "both.txt").write_text(text)
    code, out, _ = answer(["explain", str(project / "both.txt")], capsys)
    assert code == 0 and out.count("/somewhere/else/model.py:4 in forward") == 2
    assert out.index("rank0") < out.index("rank1") and "   4 |" not in out


def test_a_folder_of_other_logs_is_no_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "traces" / "server.log").write_text("GET / 200\n")
    code, out, err = answer(["explain", str(project / "traces")], capsys)
    assert (code, out) == (Exit.USAGE, "") and "[no-run-directory]" in err


def test_a_folder_without_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answer(["explain", str(tmp_path)], capsys)
    assert (code, out) == (Exit.USAGE, "") and "[no-run-directory]" in err

"""Reports from results built by hand: what they say, that nothing foreign gets through, that none raises."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import re
import subprocess
import sys
import typing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speedproof import codec, report
from speedproof.analyse.source import Sources
from speedproof.errors import SpeedproofError
from speedproof.model import (
    PHASES,
    Anatomy,
    ArmConfig,
    Baseline,
    Boundary,
    CallMode,
    Ceiling,
    Claim,
    CompileCost,
    FileTouched,
    Finding,
    KernelRow,
    KernelTable,
    LoaderFact,
    Mean,
    Noise,
    Numerics,
    OptimizerFact,
    Place,
    Ratio,
    Result,
    Root,
    ScriptEnded,
    SiteFact,
    Variant,
    Verdict,
)
from speedproof.report import html as html_report
from speedproof.report import markdown, tables, terminal, words

# ------------------------------------------------------------------------------------------------------------
# Results built by hand
# ------------------------------------------------------------------------------------------------------------

ANATOMY = Anatomy(
    kind="training",
    boundary=Boundary("optimizer", 0, 4, "AdamW.step"),
    roots=(
        Root(
            0,
            "GPT",
            "network",
            124_475_904,
            4.0,
            (CallMode(True, True),),
            "cuda:0",
            Place("train.py", 88),
            True,
        ),
        Root(1, "CrossEntropyLoss", "loss", 0, 4.0, (CallMode(True, True),), "cuda:0", None, False),
    ),
    optimizers=(OptimizerFact("AdamW", 40, 148, True),),
    loaders=(LoaderFact("OpenWebText", 8, 4, True, True, 12_000),),
    sites=(SiteFact(0, "model", "call", Place("train.py", 41, "main"), {"mode": "default"}, 12),),
    backwards_per_step=4.0,
    evaluation_calls=0,
    device="cuda:0",
    steps_seen=12,
    step_s=0.214,
)

DEFAULT = Variant(
    id="networks-default",
    label="networks, default",
    config=ArmConfig(),
    kind="compile",
    outcome="completed",
    why="",
    speedup=Ratio(1.42, 1.38, 1.46, 24),
    compile_s=CompileCost(62.4, 8.1),
    break_even_steps=986,
    peak_bytes=9_812_000_000,
    graphs=1,
    graph_breaks=0,
    recompiles=1,
    numerics=Numerics("pass", "0.9x of eager's own error against float64"),
)
OVERHEAD = dataclasses.replace(
    DEFAULT,
    id="networks-reduce-overhead",
    label="networks, reduce-overhead",
    config=ArmConfig(mode="reduce-overhead"),
    speedup=Ratio(1.31, 1.22, 1.40, 20),
    compile_s=CompileCost(74.0, 11.9),
    break_even_steps=1462,
    peak_bytes=14_100_000_000,
)
TUNED = dataclasses.replace(
    DEFAULT,
    id="networks-max-autotune",
    label="networks, max-autotune",
    speedup=Ratio(1.44, 1.39, 1.49, 22),
    compile_s=CompileCost(412.0, 21.0),
    break_even_steps=6302,
)
DYNAMIC = dataclasses.replace(
    DEFAULT,
    id="networks-dynamic",
    label="networks, dynamic",
    speedup=Ratio(0.97, 0.95, 0.99, 20),
    break_even_steps=None,
    numerics=Numerics("fail", "grad of blocks.3.attn.bias: 41x eager's error"),
)
CRASHED = Variant(
    id="step-function",
    label="whole train step",
    config=ArmConfig(scope="step"),
    kind="compile",
    outcome="crashed",
    why="InternalTorchDynamoError in optimizer.step (torch/optim/adam.py:812)",
    compile_s=CompileCost(None, None),
)
CAPTURED_NOTHING = Variant(
    id="networks-default",
    label="networks, default",
    config=ArmConfig(),
    kind="compile",
    outcome="unsupported",
    why="Dynamo gave the whole frame up: a break inside a loop at model.py:40; nothing was compiled.",
    graphs=0,
    graph_breaks=3,
    recompiles=0,
)
RIVAL = dataclasses.replace(
    DEFAULT,
    id="amp",
    label="bfloat16 autocast",
    kind="rival",
    speedup=Ratio(1.88, 1.81, 1.95, 18),
    compile_s=CompileCost(None, None),
    break_even_steps=None,
    graphs=None,
    graph_breaks=None,
    recompiles=None,
    numerics=Numerics(),
    peak_bytes=6_900_000_000,
)
BREAK = Finding(
    slug="graph-break-item",
    severity="warning",
    where=Place("/home/ana/project/src/model/attention.py", 131, "forward"),
    count=12,
    cost_ms=3.4,
    why="Tensor.item() ends the graph: its value decides a Python branch.",
    hints=("Keep the value on the device.", "Use torch.where in place of the branch."),
    label="user_code",
    fix="-    if mask.sum().item() > 0:\n+    mask = torch.where(mask.sum() > 0, mask, ones)\n",
)

WORTH_IT = Result(
    schema_version=1,
    verdict=Verdict(
        "worth_it",
        "networks, default makes a step 1.42x faster (95%: 1.38x to 1.46x) and pays off after 986 steps.",
        "networks-default",
        ("faster_than_threshold", "break_even_within_plan"),
        ("Add model.compile() after line 40 of train.py, or run: speedproof exec train.py",),
    ),
    baseline=Baseline(
        Mean(214.0, 212.6, 215.4),
        480,
        dict(zip(PHASES, (0.04, 0.012, 0.31, 0.028, 0.49, 0.09, 0.03), strict=True)),
        11_000_000_000,
    ),
    ceiling=Ceiling(5.21, "81% of the step is inside what may be compiled"),
    noise=Noise(Ratio(1.002, 0.991, 1.013, 12), 0.018),
    variants=(DEFAULT, OVERHEAD, TUNED, DYNAMIC, CRASHED, RIVAL),
    findings=(
        BREAK,
        dataclasses.replace(BREAK, slug="optimizer-break", severity="info", label="benign", fix=None),
    ),
    claims=(
        Claim("C01", "no_difference", "The step waits 4% of its time for data."),
        Claim("C06", "helps", "default 1.42x, reduce-overhead 1.31x, max-autotune 1.44x."),
        Claim("C14", "not_applicable", "No branch depends on a tensor."),
    ),
    environment={"torch": "2.14.1", "python": "3.11.9", "device": "NVIDIA H200", "os": "Linux 6.1"},
    command=("train.py", "config/gpt2 small.py", "--batch-size=8"),
    started="2026-03-02T10:14:05Z",
    elapsed_s=548.0,
    anatomy=ANATOMY,
    files=(
        FileTouched(1.0, "out/log.txt", "changed", "/kept/1"),
        FileTouched(1.0, "out/ckpt.pt", "diverted", None),
        *(FileTouched(1.0, f"out/sample_{i}.png", "created", None) for i in range(8)),
    ),
    planned_steps=20_000,
    sessions=4,
)
DATA_BOUND = dataclasses.replace(
    WORTH_IT,
    verdict=Verdict(
        "not_worth_it",
        "71% of a step is spent waiting for data; nothing can gain more than 1.19x, the best gained 1.01x.",
        None,
        ("waits_for_data",),
        ("Raise num_workers of the loader at train.py:30.",),
    ),
    baseline=Baseline(
        Mean(55.0, 54.0, 56.0), 900, {"data": 0.71, "forward": 0.1, "backward": 0.12, "other": 0.07}, None
    ),
    ceiling=Ceiling(1.19, "only 16% of the step may be compiled"),
    variants=(dataclasses.replace(DEFAULT, speedup=Ratio(1.01, 0.99, 1.02, 30), break_even_steps=50_000),),
    findings=(),
    planned_steps=None,
)
EMPTY = Result(
    schema_version=1,
    verdict=Verdict("inconclusive", "", None, (), ()),
    baseline=Baseline(None, 0, None, None),
    ceiling=Ceiling(None, ""),
    noise=Noise(None, None),
    variants=(),
    findings=(),
    claims=(),
    environment={},
    command=(),
    started="",
    elapsed_s=0.0,
)
FAILED = dataclasses.replace(
    EMPTY,
    verdict=Verdict("failed", "train.py fails without torch.compile too.", None, ("script_failed",), ("Fix it.",)),
    command=("train.py",),
    failure=ScriptEnded(
        9.0,
        1,
        "FileNotFoundError",
        "[Errno 2] No such file or directory: 'data.bin'",
        'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n'
        '    data = open("data.bin")\n'
        "FileNotFoundError: [Errno 2] No such file or directory: 'data.bin'\n",
        Place("train.py", 12),
        0,
        None,
    ),
    exit_code=3,
)
INCONCLUSIVE = dataclasses.replace(
    WORTH_IT,
    verdict=Verdict("inconclusive", "The machine is too noisy.", None, ("noise",), ("Run again with --budget 40m.",)),
    noise=Noise(Ratio(1.01, 0.9, 1.12, 8), 0.14),
    variants=(dataclasses.replace(DEFAULT, speedup=Ratio(1.06, 0.93, 1.19, 9), break_even_steps=None),),
)
CRASH_ONLY = dataclasses.replace(
    DATA_BOUND, verdict=dataclasses.replace(DATA_BOUND.verdict, reasons=("crashed",)), variants=(CRASHED,)
)
NO_GRAPHS = dataclasses.replace(CRASH_ONLY, variants=(CAPTURED_NOTHING,))
KERNELS = KernelTable(
    arm="networks-default",
    rows=(
        KernelRow("copy", 4.1, 0.9, 210.0, 14.0),
        KernelRow("matmul", 96.2, 96.9, 144.0, 144.0),
        KernelRow("pointwise", 71.3, 12.4, 1212.0, 48.5),
        KernelRow("fused", 0.0, 9.7, 0.0, 61.0),
    ),
    eager_step_ms=214.0,
    compiled_step_ms=150.7,
    eager_gap_ms=42.4,
    compiled_gap_ms=30.8,
    largest={"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn": 61.2, "triton_poi_fused_add_gelu_3": 8.4},
)
DIAGNOSED = dataclasses.replace(
    WORTH_IT,
    variants=(
        dataclasses.replace(OVERHEAD, stages_s={"frame": 71.9, "backend": 60.1, "codegen": 0.4}),
        dataclasses.replace(DEFAULT, stages_s={"frame": 60.2, "backend": 51.0, "inductor_compile": 33.3}),
    ),
    findings=(BREAK, dataclasses.replace(BREAK, slug="no-place", where=None, cost_ms=None, fix=None, count=None)),
    kernels=KERNELS,
)
NOTHING_COMPILED = dataclasses.replace(
    NO_GRAPHS,
    findings=(
        dataclasses.replace(BREAK, slug="nothing-compiled", severity="error", why="All of the loop is skipped: eval."),
    ),
)
SOURCES = Sources(
    {
        "/home/ana/project/src/model/attention.py": "\n" * 128
        + "    def forward(self, x, mask):\n"
        + "        x = self.norm(x)\n"
        + "        if mask.sum().item() > 0:  # <b>padded</b>\n"
        + "            x = x.masked_fill(mask, -1e9)\n"
    }
)
UNKNOWN_FIGURES = dataclasses.replace(
    EMPTY,
    variants=(Variant("a", "", ArmConfig(), "compile", "completed", "", Ratio(1.2, None, None)),),
    findings=(Finding("slug", "info", None, None, None, "", (), "benign"),),
)

SAMPLES = {
    "worth_it": WORTH_IT,
    "data_bound": DATA_BOUND,
    "empty": EMPTY,
    "failed": FAILED,
    "inconclusive": INCONCLUSIVE,
    "crash_only": CRASH_ONLY,
    "no_graphs": NO_GRAPHS,
    "unknown_figures": UNKNOWN_FIGURES,
    "diagnosed": DIAGNOSED,
    "nothing_compiled": NOTHING_COMPILED,
}
samples = pytest.mark.parametrize("result", SAMPLES.values(), ids=SAMPLES.keys())


# ------------------------------------------------------------------------------------------------------------
# Words
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (words.milliseconds(12.34), "12.3 ms"),
        (words.milliseconds(0.0123), "12.3 µs"),
        (words.milliseconds(1234.0), "1.23 s"),
        (words.milliseconds(125_000.0), "2m 05s"),
        (words.times(1.42), "1.42x"),
        (words.times(12.0), "12.0x"),
        (words.interval(Ratio(1.42, 1.38, 1.46)), "1.38x to 1.46x"),
        (words.interval(Ratio(1.42, None, 1.46)), "not known"),
        (words.size(512), "512 B"),
        (words.size(9_812_000_000), "9.1 GiB"),
        (words.size(1024 * 1024 * 812), "812 MiB"),
        (words.duration(8.13), "8.1 s"),
        (words.duration(59.7), "1m 00s"),
        (words.duration(125.0), "2m 05s"),
        (words.duration(3_725.0), "1h 02m"),
        (words.duration(277_200.0), "3d 5h"),
        (words.share(0.634), "63%"),
        (words.share(0.001), "<1%"),
        (words.effect(0.018), "1.8%"),
        (words.effect(0.05), "5%"),
        (words.scaled(124_475_904), "124M"),
        (words.count(12_400), "12,400"),
        (words.duration(float("nan")), "not known"),
        (words.size(10**400), "not known"),
    ],
)
def test_figures(text: str, wanted: str) -> None:
    assert text == wanted


def test_unknown_is_never_zero() -> None:
    told = (
        words.milliseconds,
        words.times,
        words.interval,
        words.size,
        words.duration,
        words.share,
        words.count,
    )
    assert {tell(None) for tell in told} == {"not known"}


def test_clean_shows_what_cannot_be_seen() -> None:
    assert words.clean("a\x1b[31mb\u202ec\u200bd\ud800\x9b") == "a\\x1b[31mb\\u202ec\\u200bd\\ud800\\x9b"
    assert words.clean(" two\r\n lines\t") == "two lines"
    assert words.clean("two\r\n\tlines", lines=True) == "two\n    lines"


def test_never_pays_off_only_where_that_is_known() -> None:
    assert words.break_even(DYNAMIC) == "never"
    assert words.break_even(CRASHED) == words.DASH
    assert words.break_even(DEFAULT) == "986"


def test_files_tell_what_became_of_them() -> None:
    put_back, diverted, created = words.file_facts(WORTH_IT.files)
    assert put_back == "put back as before: out/log.txt"
    assert diverted.endswith("out/ckpt.pt")
    assert created.count("sample_") == 5 and created.endswith("and 3 more")
    lost = FileTouched(0.0, "a", "removed", None)
    assert words.file_facts([lost]) == ("changed or removed, no copy was kept: a",)


# ------------------------------------------------------------------------------------------------------------
# Terminal
# ------------------------------------------------------------------------------------------------------------


@samples
def test_terminal_ends_with_verdict_why_next(result: Result) -> None:
    lines = terminal.render(result).splitlines()
    assert [line.split(" ")[0] for line in lines[-3:]] == ["verdict:", "why:", "next:"]
    assert len(lines) <= 48


def test_terminal_of_a_good_run() -> None:
    text = terminal.render(WORTH_IT)
    assert "> networks, default " in text
    assert "1.38x to 1.46x" in text and "1m 02s / 8.1 s" in text and "986" in text and "1/0/1" in text
    assert "GPT (124M parameters)" in text and "call at train.py:41 in main" in text
    assert "bfloat16 autocast (rival)" in text
    assert "wrong numbers" in text and "numbers differ: grad of blocks" in text
    assert "attention.py:131 in forward" in text and "3.40 ms a step (1.6% of it), seen 12 times" in text


def test_terminal_of_a_failed_script_shows_its_traceback() -> None:
    text = terminal.render(FAILED)
    assert 'File "train.py", line 12' in text
    assert text.splitlines()[-2].startswith("why: script failed; FileNotFoundError: [Errno 2]")


def test_terminal_of_a_variant_that_captured_nothing() -> None:
    text = terminal.render(NO_GRAPHS)
    assert "0/3/0" in text and "nothing was compiled" in text


@samples
def test_colour_changes_no_text(result: Result) -> None:
    coloured = terminal.render(result, color=True, sources=SOURCES)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == terminal.render(result, sources=SOURCES)


def test_terminal_quotes_the_source_and_the_first_hint() -> None:
    lines = terminal.render(DIAGNOSED, sources=SOURCES, run="runs/my run").splitlines()
    at = lines.index("findings")
    assert lines[at + 2] == "          > if mask.sum().item() > 0: # <b>padded</b>"
    assert lines[at + 3] == "          Keep the value on the device."
    assert lines[at + 4 : at + 6] == [
        "  warning no-place  no place in your code  cost not known",
        "          Keep the value on the device.",
    ]
    assert lines[at + 6].endswith("speedproof explain 'runs/my run'")


def test_terminal_shows_five_findings_and_counts_the_rest() -> None:
    text = terminal.render(dataclasses.replace(WORTH_IT, findings=(BREAK,) * 8))
    assert text.count("graph-break-item") == 5
    assert "  and 3 more; with source, cause and cure: speedproof explain RUN\n" in text


def test_terminal_says_at_once_that_nothing_was_compiled() -> None:
    lines = terminal.render(NOTHING_COMPILED).splitlines()
    assert lines[1] == "nothing was compiled: All of the loop is skipped: eval."


# ------------------------------------------------------------------------------------------------------------
# JSON
# ------------------------------------------------------------------------------------------------------------

CONTRACT = {
    "": "verdict baseline ceiling noise variants findings claims environment command started elapsed_s schema_version",
    "verdict": "kind summary best reasons advice",
    "baseline": "step_ms steps phases peak_bytes",
    "baseline.step_ms": "mean low high",
    "baseline.phases": "data transfer forward loss backward optimizer other",
    "ceiling": "max_speedup why",
    "noise": "aa smallest_effect",
    "noise.aa": "ratio low high",
    "variants.0": "id label config kind outcome why speedup compile_s break_even_steps peak_bytes graphs"
    " graph_breaks recompiles numerics",
    "variants.0.config": "scope mode dynamic backend",
    "variants.0.speedup": "ratio low high",
    "variants.0.compile_s": "cold warm",
    "variants.0.numerics": "status worst",
    "findings.0": "slug severity where count cost_ms why hints label fix",
    "findings.0.where": "file line function",
    "claims.0": "id answer evidence",
}


@pytest.mark.parametrize(("path", "fields"), CONTRACT.items())
def test_json_has_the_fields_of_the_contract(path: str, fields: str) -> None:
    plain = json.loads(report.render(WORTH_IT, "json"))
    for step in filter(None, path.split(".")):
        plain = plain[int(step)] if step.isdigit() else plain[step]
    assert set(fields.split()) <= set(plain)


@samples
def test_json_is_the_result(result: Result) -> None:
    text = report.render(result, "json")
    again = codec.loads(Result, text)
    same = dataclasses.replace(again, baseline=result.baseline)
    assert same == result
    assert again.baseline.phases is None or sum(again.baseline.phases.values()) == pytest.approx(1.0)


def test_json_has_no_nan() -> None:
    text = report.render(dataclasses.replace(WORTH_IT, ceiling=Ceiling(float("inf"), "")), "json")
    assert json.loads(text, parse_constant=pytest.fail)["ceiling"]["max_speedup"] is None


def test_json_phases_sum_to_one_whatever_they_were() -> None:
    odd = dataclasses.replace(WORTH_IT.baseline, phases={"data": 2.0, "forward": 1.0, "unheard_of": 1.0})
    phases = json.loads(report.render(dataclasses.replace(WORTH_IT, baseline=odd), "json"))["baseline"]["phases"]
    assert list(phases) == list(PHASES)
    assert (phases["data"], phases["forward"], phases["other"]) == (0.5, 0.25, 0.25)


# ------------------------------------------------------------------------------------------------------------
# HTML
# ------------------------------------------------------------------------------------------------------------

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(html.parser.HTMLParser):
    """Checks that tags are balanced and collects what a test wants to know."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute twice: {tag} {attrs}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def names(self) -> list[str]:
        return [tag for tag, _ in self.tags]


@samples
def test_html_is_one_balanced_file_that_loads_nothing(result: Result) -> None:
    text = html_report.render(result)
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "embed", "a", "form"} & set(page.names())
    for _, attributes in page.tags:
        assert not {"src", "href", "srcset", "xlink:href", "action"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert "http:" not in text and "https:" not in text
    assert "url(" not in text and "@import" not in text
    assert len(text.encode()) < 100_000


@samples
def test_html_is_accessible(result: Result) -> None:
    page = Page(html_report.render(result))
    assert ("html", {"lang": "en"}) in page.tags
    assert "title" in page.names() and page.names().count("h1") == 1
    assert page.names().count("table") == page.names().count("caption")
    for tag, attributes in page.tags:
        if tag == "svg" and attributes.get("role") == "img":
            assert attributes["aria-label"]
        assert tag != "th" or attributes.get("scope") in ("row", "col")
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a} == set(ids)


def test_html_draws_each_chart_with_its_table() -> None:
    page = Page(html_report.render(WORTH_IT))
    labels = [a["aria-label"] or "" for tag, a in page.tags if tag == "svg" and "aria-label" in a]
    assert [label.split(" ")[0] for label in labels] == ["Share", "Speed-up", "Total"]
    assert page.names().count("table") == 5
    text = " ".join(page.texts)
    assert "20,000 (planned)" in text and "986 (break-even)" in text
    assert "speedproof run train.py 'config/gpt2 small.py' --batch-size=8" in text


def test_html_puts_the_verdict_first() -> None:
    texts = [text.strip() for text in Page(html_report.render(DATA_BOUND)).texts if text.strip()]
    start = next(i for i, text in enumerate(texts) if text.startswith("Not worth it:"))
    assert "waiting for data" in texts[start + 1]
    assert texts[start + 2 : start + 6] == [
        "Why",
        "waits for data",
        "Next",
        "Raise num_workers of the loader at train.py:30.",
    ]


def test_html_break_even_beyond_the_plan_is_said() -> None:
    text = html_report.render(dataclasses.replace(WORTH_IT, planned_steps=400))
    assert "Break-even lies at 986 steps, beyond the 400 of this run" in text


def test_html_claims_no_break_even_that_is_not_known() -> None:
    assert "earned back is not known" in html_report.render(INCONCLUSIVE)
    slower = dataclasses.replace(DATA_BOUND, variants=(dataclasses.replace(DYNAMIC, numerics=Numerics()),))
    assert "is never earned back" in html_report.render(slower)


def test_html_marks_the_threshold_it_is_given() -> None:
    assert "worth having, 1.20x" in report.render(WORTH_IT, "html", threshold=0.2)


def words_in(page: Page) -> str:
    return " ".join(" ".join(page.texts).split())


def test_html_shows_each_finding_with_its_source_and_numbered_hints() -> None:
    page = Page(html_report.render(DIAGNOSED, sources=SOURCES))
    source = "".join(page.texts)
    assert (
        "  129  def forward(self, x, mask):\n  130      x = self.norm(x)\n> 131      if mask.sum().item() > 0:"
        in source
    )
    assert source.count("masked_fill") == 1, "a finding without a place quotes nothing"
    assert page.names().count("ol") == 2 and page.names().count("mark") == 1
    assert "3.40 ms a step (1.6% of it), seen 12 times" in words_in(page) and "your code" in words_in(page)
    assert "mark" not in Page(html_report.render(DIAGNOSED)).names()


def test_html_tells_where_kernels_and_compiling_spend_their_time() -> None:
    page = Page(html_report.render(DIAGNOSED))
    text = words_in(page)
    assert "pointwise 71.3 ms 12.4 ms -58.9 ms 1.2k → 48.5" in text
    assert "fused 0 9.70 ms +9.70 ms 0 → 61" in text
    assert f"no kernel at work 42.4 ms 30.8 ms -11.6 ms {words.DASH}" in text
    assert f"whole step 214 ms 151 ms -63.3 ms {words.DASH}" in text
    assert "triton_poi_fused_add_gelu_3 8.40 ms" in text
    assert "Stage networks, default networks, reduce-overhead frame 1m 00s 1m 12s backend 51 s 1m 00s" in text
    assert f"inductor compile 33 s {words.DASH}" in text


def test_the_bars_of_kernels_point_to_the_side_of_the_change() -> None:
    lines = {line.kind: line for line in tables.kernel_lines(KERNELS)}
    assert list(lines)[:3] == ["matmul", "pointwise", "fused"]
    assert (lines["pointwise"].left, lines["pointwise"].width, lines["pointwise"].tone) == (0.0, 50.0, "gain")
    assert (lines["fused"].left, lines["fused"].tone) == (50.0, "loss")
    assert 50 + lines["fused"].width < 60


def test_many_kinds_of_kernels_are_summed_up() -> None:
    rows = tuple(KernelRow(f"kind {n}", 1.0 + n, 1.0, 2.0, 1.0) for n in range(30))
    lines = tables.kernel_lines(dataclasses.replace(KERNELS, rows=rows))
    rest = lines[tables.KINDS_SHOWN]
    assert (rest.kind, rest.compiled, rest.launches) == ("16 other kinds", "16.0 ms", "32 → 16")


# ------------------------------------------------------------------------------------------------------------
# Hostile text
# ------------------------------------------------------------------------------------------------------------

HOSTILE = (
    "</script></style></title></pre></code></details><script>alert(1)</script>"
    "<img src=x onerror=alert(1)>\"'><b>"
    "|`a`|``` [x](javascript:alert(1)) ![i](http://evil.example/i.png) **b** @everyone {{ 7*7 }} {% raw %}"
    "\n# heading\n- item\n\x1b[2J\x1b]0;title\x07\x9b31m\u202eevil\u2066\u200b\u2028\x00\ud800\r&lt;"
)


def hostile(value: object) -> object:
    """The value with every free string, in every field and key, replaced by ``HOSTILE``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = typing.get_type_hints(type(value))
        free = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        fixed = {n for n in free if typing.get_origin(hints[n]) is typing.Literal}
        return type(value)(**{n: v if n in fixed else hostile(v) for n, v in free.items()})
    if isinstance(value, tuple):
        return tuple(hostile(v) for v in value)
    if isinstance(value, dict):
        return {k if k in PHASES else HOSTILE: hostile(v) for k, v in value.items()}
    return HOSTILE if isinstance(value, str) else value


EVIL = typing.cast(Result, hostile(dataclasses.replace(WORTH_IT, failure=FAILED.failure)))
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def test_hostile_text_in_the_terminal() -> None:
    text = terminal.render(EVIL)
    assert not UNSEEN.search(text)
    assert [line.split(" ")[0] for line in text.splitlines()[-3:]] == ["verdict:", "why:", "next:"]
    coloured = re.sub(r"\x1b\[[0-9;]*m", "", terminal.render(EVIL, color=True))
    assert coloured == text  # no rich markup, no foreign escape


def test_hostile_text_in_html() -> None:
    text = html_report.render(EVIL)
    page = Page(text)  # balanced: no foreign tag closed or opened anything
    assert not {"script", "img", "b"} & (set(page.names()) - {"b"})
    assert page.names().count("b") == 1 and page.names().count("style") == 1
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert not UNSEEN.search(text)
    assert "{{ 7*7 }}" in "".join(page.texts)


def test_hostile_text_in_markdown() -> None:
    text = markdown.render(EVIL)
    assert not UNSEEN.search(text.replace("\u200b", ""))
    tags = set(re.findall(r"</?([a-zA-Z]+)", text))
    assert tags <= {"code", "details", "summary", "pre", "sub"}
    assert text.count("<details>") == text.count("</details>") and text.count("<pre>") == text.count("</pre>")
    outside = re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)`", outside) and not re.search(r"(?<!\\)!?\[", outside)
    assert "@everyone" not in outside and "http://" not in outside
    for table in re.findall(r"(?:^\|.*\n)+", outside, flags=re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table


def test_hostile_source_gets_no_further_than_any_other_text() -> None:
    evil = dataclasses.replace(BREAK, where=Place("a.py", 2, "f"), fix=None)
    result = dataclasses.replace(DIAGNOSED, findings=(evil,))
    sources = Sources({"a.py": f"x = 1\n{HOSTILE.splitlines()[0]}\n\x1b[31m \u202e\n"})
    page = html_report.render(result, sources=sources)
    assert not {"script", "img"} & set(Page(page).names()) and not UNSEEN.search(page)
    assert not UNSEEN.search(terminal.render(result, sources=sources))
    text = markdown.render(result, sources=sources)
    assert "http://" not in text and "@everyone" not in text and "<img" not in text
    assert "alert(1)" in page and "alert(1)" in text


def test_hostile_text_in_json_comes_back() -> None:
    assert codec.loads(Result, report.render(EVIL, "json")).verdict.summary == HOSTILE


# ------------------------------------------------------------------------------------------------------------
# Markdown, registry, and any result at all
# ------------------------------------------------------------------------------------------------------------


def test_markdown_of_a_good_run() -> None:
    text = markdown.render(WORTH_IT)
    assert text.startswith("## speedproof: worth it\n\n**Verdict:** worth it: networks, default makes")
    assert "| **networks, default** | completed | 1.42x | 1.38x to 1.46x | 1m 02s / 8.1 s | 986 |" in text
    assert "<code>graph-break-item</code>" in text


def test_markdown_quotes_the_source_and_folds_the_tables() -> None:
    text = markdown.render(DIAGNOSED, sources=SOURCES)
    assert "in forward</code>: <code>if mask.sum().item() &gt; 0: # &lt;b&gt;padded&lt;/b&gt;</code> |" in text.replace(
        "\u200b", ""
    ).replace("\\", "")
    assert "| pointwise | 71.3 ms | 12.4 ms | -58.9 ms | 1.2k → 48.5 |" in text
    assert "<summary>What compiling took, by stage</summary>" in text
    assert "| Stage | networks, default | networks, reduce-overhead |" in text


def test_registry() -> None:
    assert set(report.FORMATS) == {"terminal", "html", "markdown", "json"}
    with pytest.raises(SpeedproofError) as caught:
        report.render(EMPTY, "pdf")
    assert caught.value.slug == "unknown-format" and "terminal" in caught.value.hint


def test_registry_imports_no_renderer_before_it_is_asked() -> None:
    program = "import sys, speedproof.report as r; print({'jinja2', 'rich', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.fixture(autouse=True, scope="module")
def any_float() -> None:
    st.register_type_strategy(float, st.floats() | st.sampled_from([0.0, 1.0, 1.42, 1e-300, 1e300, -1.0]))


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.from_type(Result))
def test_any_result_renders_in_every_format(result: Result) -> None:
    for fmt in report.FORMATS:
        assert isinstance(report.render(result, fmt), str)
    json.loads(report.render(result, "json"), parse_constant=pytest.fail)
    Page(report.render(result, "html"))
    assert terminal.render(result).splitlines()[-1].startswith("next: ")


@st.composite
def plausible(draw: st.DrawFn) -> Result:
    """Results whose figures are in range, so that every chart is drawn."""
    positive = st.floats(1e-4, 1e6)
    variant = st.builds(
        Variant,
        label=st.text(),
        speedup=st.none() | st.builds(Ratio, ratio=positive, low=st.none() | positive, high=st.none() | positive),
        compile_s=st.builds(CompileCost, cold=st.none() | positive, warm=st.none() | positive),
        break_even_steps=st.none() | st.integers(0, 10**9),
        peak_bytes=st.none() | st.integers(0, 10**12),
    )
    baseline = st.builds(
        Baseline,
        step_ms=st.builds(Mean, mean=positive, low=positive, high=positive),
        phases=st.none() | st.dictionaries(st.sampled_from(PHASES), st.floats(0, 1)),
    )
    variants = tuple(draw(st.lists(variant, max_size=10)))
    verdict = dataclasses.replace(EMPTY.verdict, best=variants[0].id if variants else None)
    steps = draw(st.none() | st.integers(0, 10**9))
    return dataclasses.replace(EMPTY, verdict=verdict, baseline=draw(baseline), variants=variants, planned_steps=steps)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(plausible())
def test_charts_stay_inside_their_frame(result: Result) -> None:
    page = Page(report.render(result, "html"))
    for tag, attributes in page.tags:
        for name in ("x", "x1", "x2", "cx", "y1", "y2", "cy", "width"):
            value = attributes.get(name) or ""
            if tag != "svg" and value.endswith("%"):
                assert -0.5 <= float(value[:-1]) <= 100.5, (tag, attributes)

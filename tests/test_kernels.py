"""The comparison of kernels: names and kinds, figures of a window, the table, the findings, and the real profiler."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from recordings import anatomy, meta

import speedproof
from speedproof.analyse.conclude import of_ledger
from speedproof.analyse.evidence import Evidence
from speedproof.analyse.findings import slower_kernels, tiny_steps
from speedproof.analyse.kernels import FUSED, HOST, grown, parts_of, table_of
from speedproof.analyse.ledger import Ledger
from speedproof.model import ArmConfig, Baseline, Finding, KernelsMeasured, Mean, Ratio, Variant

torch = pytest.importorskip("torch")

from speedproof.worker import kernels  # noqa: E402
from speedproof.worker.device import Device  # noqa: E402
from speedproof.worker.kernel_kinds import KINDS, is_kernel, kind_of  # noqa: E402
from speedproof.worker.kernels import Happened, KernelPass, Totals, totals_of, union_ns  # noqa: E402

# -------------------------------------------------------------------------------------------------------------------
# Names
# -------------------------------------------------------------------------------------------------------------------

NAMES = """
[convolution]
aten::conv2d
aten::mkldnn_convolution
aten::convolution_backward
mkldnn::_convolution_pointwise
aten::cudnn_convolution
sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_g1_kernel_cudnn
void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(cudnn::winograd_nonfused::Params)
void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_128x128_32x4_nhwc_align8>
void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, false, true>(int, int, int)
void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>(at::GenericPacked)
triton_tem_fused_convolution_4
[matmul]
aten::addmm
aten::bmm
aten::linear
mkldnn::_linear_pointwise
aten::mkldnn_rnn_layer
ampere_sgemm_128x64_tn
void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(cutlass_80_tensorop::Params)
nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT
void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>(float)
void splitKreduce_kernel<32, 16, int, float, float, float, float, true, false, false>(cublasSplitKParams)
triton_tem_fused_addmm_relu_7
cpp_CppMicroGemmFP32Vec_threaded_mm
[attention]
aten::scaled_dot_product_attention
aten::_scaled_dot_product_flash_attention_for_cpu_backward
void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false> >()
fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)
cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0
triton_tem_fused_flex_attention_0
[normalisation]
aten::native_batch_norm
aten::native_layer_norm_backward
aten::_fused_rms_norm
void at::native::batch_norm_collect_statistics_kernel<at::native::InvStd, float, float, float, int>()
void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(cudnnTensorStruct, float const*)
void at::native::(anonymous namespace)::GammaBetaBackwardSimpleCUDAKernel<float, float>(long)
graph_0_cpp_fused__native_batch_norm_legit_functional_add_copy__mul_relu_sigmoid_1
triton_per_fused_native_layer_norm_3
[reduction]
aten::sum
aten::_log_softmax_backward_data
aten::nll_loss_forward
aten::max_pool2d_with_indices
aten::argmax
aten::linalg_vector_norm
void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float>>>()
void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(float*, float const*)
triton_red_fused_sum_2
triton_per_fused__softmax_add_5
graph_0_cpp_fused_sum_1
cpp_fused__log_softmax_2
[pointwise]
aten::relu
aten::clamp_min
aten::add_
aten::threshold_backward
aten::native_dropout
aten::zeros_like
void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3> >()
void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int, 1, 4>(float)
triton_poi_fused_add_convolution_relu_0
graph_2_cpp_fused_add_clamp_min_mul_0
[copy and layout]
aten::copy_
aten::to
aten::as_strided
aten::cat
aten::embedding_dense_backward
aten::resolve_conj
detach
Memcpy HtoD (Pageable -> Device)
Memset (Device)
void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>()
void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 64, 64>(float*)
void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(cudnn::ops::nchw2nhwc_params_t)
[optimizer]
aten::_foreach_add_
aten::_fused_adamw_
void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<2> >(int)
[fused]
## Call CompiledFxGraph fwapzf23w6ewr6ahxvxkodeauzaxikpwoupa4nuo6chx2vwcwesx ##
[other]
aten::empty
torchvision::nms
c10d::allreduce_
ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)
"""


def named_pairs() -> list[tuple[str, str]]:
    """The names above, each with the kind in the heading before it."""
    pairs, kind = [], ""
    for line in NAMES.split("\n"):
        if line.startswith("["):
            kind = line.strip("[]")
        elif line:
            pairs.append((kind, line))
    return pairs


@pytest.mark.parametrize(("kind", "name"), named_pairs(), ids=lambda word: word[:60])
def test_a_name_says_what_kind_of_kernel_it_is(kind: str, name: str) -> None:
    assert kind_of(name) == kind
    assert kind in KINDS


@pytest.mark.parametrize(
    "name",
    [
        "ConvolutionBackward0",
        "autograd::engine::evaluate_function: AddmmBackward0",
        "torch::autograd::AccumulateGrad",
        "Torch-Compiled Region: 0/0",
        "CompiledFunctionBackward",
        "TorchDynamo Cache Lookup",
        "AOTDispatcher Runtime Wrapper Prologue",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    ],
)
def test_what_only_wraps_kernels_is_none(name: str) -> None:
    assert not is_kernel(name)


# -------------------------------------------------------------------------------------------------------------------
# Figures of a window
# -------------------------------------------------------------------------------------------------------------------


def on_cpu(name: str, start: int, end: int, lane: int = 1, annotation: bool = False) -> Happened:
    return Happened(name, start, end, lane, False, annotation)


def on_gpu(name: str, start: int, end: int, lane: int = 7, annotation: bool = False) -> Happened:
    return Happened(name, start, end, (0, lane), True, annotation)


def figures(events: list[Happened], wall_ns: int = 1000, on_device: bool = False) -> Totals:
    totals = totals_of(events, wall_ns, on_device)
    assert totals is not None
    return totals


def test_the_parts_of_an_operator_count_as_that_operator() -> None:
    events = [
        on_cpu("aten::conv2d", 100, 200),
        on_cpu("aten::mkldnn_convolution", 110, 190),
        on_cpu("aten::copy_", 120, 130),
        on_cpu("aten::relu", 300, 340),
    ]
    totals = figures(events)
    assert totals.kinds_ns == {"convolution": 100, "pointwise": 40}
    assert totals.kinds_count == {"convolution": 1, "pointwise": 1}
    assert totals.top_ns == {
        "aten::mkldnn_convolution": 70,
        "aten::relu": 40,
        "aten::conv2d": 20,
        "aten::copy_": 10,
    }
    assert totals.busy_ns == 140


def test_guards_wrappers_and_autograd_are_the_hosts_time() -> None:
    events = [
        on_cpu("Torch-Compiled Region: 0/0", 0, 500),
        on_cpu("TorchDynamo Cache Lookup", 10, 60),
        on_cpu("CompiledFunction", 100, 480),
        on_cpu("aten::mm", 200, 300),
        on_cpu("autograd::engine::evaluate_function: MmBackward0", 600, 900),
        on_cpu("MmBackward0", 650, 850),
        on_cpu("aten::mm", 700, 800),
    ]
    totals = figures(events)
    assert totals.kinds_ns == {"matmul": 200}
    assert totals.kinds_count == {"matmul": 2}
    assert totals.busy_ns == 200


def graph(*inner: Happened) -> list[Happened]:
    return [on_cpu("## Call CompiledFxGraph fabcdefghij ##", 100, 500), *inner]


def test_what_a_compiled_graph_does_without_an_event_is_fused() -> None:
    totals = figures(graph(on_cpu("aten::convolution", 200, 300), on_cpu("aten::mkldnn_convolution", 210, 290)))
    assert totals.kinds_ns == {"fused": 300, "convolution": 100}
    assert totals.kinds_count == {"fused": 1, "convolution": 1}
    assert totals.top_ns["compiled graph fabcdefg"] == 300


def test_kernels_that_have_events_explain_their_graph() -> None:
    totals = figures(
        graph(on_cpu("graph_0_cpp_fused_add_relu_0", 200, 300), on_cpu("graph_0_cpp_fused_sum_1", 320, 350))
    )
    assert totals.kinds_ns == {"pointwise": 100, "reduction": 30}
    assert totals.busy_ns == 130
    assert "cpp_fused_add_relu_0" in totals.top_ns


def test_what_runs_in_the_optimizers_range_is_the_optimizers() -> None:
    events = [
        on_cpu("Optimizer.step#Adam.step", 0, 500, annotation=True),
        on_cpu("aten::add_", 100, 200),
        on_cpu("aten::to", 110, 150),
        on_cpu("aten::add_", 600, 700),
    ]
    totals = figures(events)
    assert totals.kinds_ns == {"optimizer": 100, "pointwise": 100}
    assert totals.kinds_count == {"optimizer": 1, "pointwise": 1}


def test_threads_that_work_at_the_same_time_are_busy_once() -> None:
    totals = figures([on_cpu("aten::mm", 100, 300, 1), on_cpu("aten::mm", 200, 400, 2)])
    assert totals.kinds_ns == {"matmul": 400}
    assert totals.busy_ns == 300


def test_on_a_device_only_its_kernels_count() -> None:
    events = [
        on_cpu("aten::mm", 0, 50),
        on_cpu("Optimizer.step#SGD.step", 60, 90, annotation=True),
        on_gpu("ampere_sgemm_128x64_tn", 100, 200),
        on_gpu("## Call CompiledFxGraph fabc ##", 90, 260, annotation=True),
        on_gpu("triton_poi_fused_add_relu_0", 210, 250),
        on_gpu("triton_poi_fused_add_relu_0", 220, 260, lane=9),
        on_gpu("Optimizer.step#SGD.step", 300, 400, annotation=True),
        on_gpu("void at::native::vectorized_elementwise_kernel<4, f(float)::{lambda(int)#3}>()", 300, 340),
        on_gpu("void at::native::vectorized_elementwise_kernel<4, f(float)::{lambda(int)#3}>()", 360, 400),
        on_gpu("Memcpy HtoD (Pinned -> Device)", 500, 520),
    ]
    totals = figures(events, on_device=True)
    assert totals.kinds_ns == {"matmul": 100, "pointwise": 80, "optimizer": 80, "copy and layout": 20}
    assert totals.kinds_count == {"matmul": 1, "pointwise": 2, "optimizer": 2, "copy and layout": 1}
    assert totals.busy_ns == 100 + 50 + 80 + 20


def test_a_window_without_a_kernel_has_no_figures() -> None:
    assert totals_of([on_cpu("CompiledFunction", 0, 10)], 100, False) is None
    assert totals_of([on_cpu("aten::mm", 0, 10)], 100, True) is None


def test_a_union_counts_overlaps_once() -> None:
    assert union_ns([]) == 0
    assert union_ns([(5, 9), (0, 3), (2, 4), (6, 7)]) == 8


# -------------------------------------------------------------------------------------------------------------------
# The windows in the life of a session
# -------------------------------------------------------------------------------------------------------------------


@dataclass
class AStep:
    regular: bool = True
    compiles: int = 0


@dataclass
class ABoard:
    on: bool = False
    failure: object | None = None


class FakePass(KernelPass):
    """Notes which side it saw."""

    seen: ClassVar[list[bool]] = []
    board = ABoard()
    running = 0
    works = True

    def start(self) -> bool:
        FakePass.running += self.works
        return self.works

    def stop(self) -> Totals | None:
        FakePass.running -= 1
        FakePass.seen.append(FakePass.board.on)
        return Totals(100, 60, {"matmul": 60}, {"matmul": 1}, {})


@pytest.fixture
def board() -> ABoard:
    FakePass.seen, FakePass.board, FakePass.running, FakePass.works = [], ABoard(), 0, True
    return FakePass.board


def play(board: ABoard, steps: list[AStep]) -> tuple[tuple[KernelsMeasured, ...] | None, int]:
    """What comes of these steps, and how many were used."""
    run: Generator[None, Any, tuple[KernelsMeasured, ...]] = kernels.compare("arm", Device("cpu"), board, FakePass)
    used = 0
    try:
        next(run)
        for step in steps:
            used += 1
            run.send(step)
    except StopIteration as end:
        return end.value, used
    run.close()
    return None, used


def test_both_sides_are_profiled_for_a_few_steps(board: ABoard) -> None:
    events, used = play(board, [AStep()] * 50)
    assert events is not None and [(e.side, e.steps) for e in events] == [
        ("base", kernels.STEPS),
        ("arm", kernels.STEPS),
    ]
    assert FakePass.seen == [False, False, True] and not board.on
    assert used <= kernels.STEPS_NEEDED


def test_a_window_with_an_evaluation_or_a_compile_is_done_again(board: ABoard) -> None:
    steps = [
        AStep(),
        AStep(),
        AStep(),
        AStep(regular=False),
        *[AStep()] * 4,
        AStep(),
        AStep(compiles=1),
        *[AStep()] * 4,
    ]
    events, used = play(board, steps)
    assert events is not None and [e.steps for e in events] == [4, 4]
    assert used == len(steps)
    assert play(board, [AStep(compiles=1)] * 50)[0] == ()


def test_a_profiler_that_does_not_start_is_no_figure(board: ABoard) -> None:
    FakePass.works = False
    assert play(board, [AStep()] * 50) == ((), 1)


def test_a_script_that_ends_in_a_window_leaves_no_profiler_behind(board: ABoard) -> None:
    events, _ = play(board, [AStep()] * 4)
    assert events is None and FakePass.running == 0 and not board.on


def test_a_compiled_call_that_raises_ends_it(board: ABoard) -> None:
    run = kernels.compare("arm", Device("cpu"), board, FakePass)
    next(run)
    with pytest.raises(StopIteration) as end:
        for _ in range(50):
            board.failure = "it broke" if board.on else None
            run.send(AStep())
    assert end.value.value == ()


@pytest.mark.parametrize(("left", "said"), [(None, 2), (kernels.STEPS_NEEDED, 2), (kernels.STEPS_NEEDED - 1, 0)])
def test_a_session_compares_once_and_only_with_steps_to_spare(
    board: ABoard, monkeypatch: pytest.MonkeyPatch, left: int | None, said: int
) -> None:
    monkeypatch.setattr(kernels.compare, "__defaults__", (FakePass,))
    heard: list[KernelsMeasured] = []
    once = kernels.Comparison(True, heard.append)
    for arm in ("first", "second"):
        run = once.after(arm, Device("cpu"), board, left)
        with pytest.raises(StopIteration):
            next(run)
            for _ in range(50):
                run.send(AStep())
    assert [event.arm for event in heard] == ["first"] * said
    assert once.wanted == (said == 0)


# -------------------------------------------------------------------------------------------------------------------
# The table
# -------------------------------------------------------------------------------------------------------------------


def measured(arm: str, side: str, wall_ms: float, kinds_ms: dict[str, float], steps: int = 4) -> KernelsMeasured:
    """Figures that are given for one step."""
    ns = {kind: int(ms * steps * 1e6) for kind, ms in kinds_ms.items()}
    counts = dict.fromkeys(ns, 2 * steps)
    wall = int(wall_ms * steps * 1e6)
    assert side in ("base", "arm")
    return KernelsMeasured(0.0, arm, side, steps, wall, sum(ns.values()), ns, counts, {"k": wall // 2})  # type: ignore[arg-type]


CONV = [
    measured("inductor", "base", 20.0, {"convolution": 8.0, "pointwise": 7.0, "normalisation": 3.0}),
    measured("inductor", "arm", 26.0, {"convolution": 14.0, "fused": 8.0}, steps=2),
]
TINY = [
    measured("inductor", "base", 1.0, {"matmul": 0.2, "pointwise": 0.3}),
    measured("inductor", "arm", 0.9, {"matmul": 0.2, "fused": 0.1}),
]


def test_the_table_is_of_a_mean_step_of_each_side() -> None:
    table = table_of(CONV)
    assert table is not None and table.arm == "inductor"
    assert [(r.kind, r.eager_ms, r.compiled_ms) for r in table.rows] == [
        ("convolution", 8.0, 14.0),
        ("fused", 0.0, 8.0),
        ("pointwise", 7.0, 0.0),
        ("normalisation", 3.0, 0.0),
    ]
    assert (table.rows[0].eager_count, table.rows[0].compiled_count) == (2.0, 2.0)
    assert (table.eager_step_ms, table.compiled_step_ms) == (20.0, 26.0)
    assert (table.eager_gap_ms, table.compiled_gap_ms) == (2.0, 4.0)
    assert table.largest == {"k": 13.0}


def test_the_table_is_of_an_arm_with_both_sides_the_best_where_it_can_be() -> None:
    half = measured("a", "base", 20.0, {"matmul": 1.0})
    other = [replace(event, arm="b") for event in CONV]
    assert table_of([]) is None and table_of([half]) is None
    assert table_of([replace(CONV[0], steps=0), CONV[1]]) is None
    for best, arm in ((None, "inductor"), ("b", "b"), ("a", "inductor")):
        table = table_of([half, *CONV, *other], best)
        assert table is not None and table.arm == arm


def test_what_was_fused_is_compared_with_all_that_it_may_come_from() -> None:
    table = table_of(CONV)
    assert table is not None
    assert parts_of(table) == {"convolution": (8.0, 14.0), FUSED: (10.0, 8.0), HOST: (2.0, 4.0)}
    assert [part for part, _, _ in grown(table)] == ["convolution", HOST]


# -------------------------------------------------------------------------------------------------------------------
# The findings
# -------------------------------------------------------------------------------------------------------------------


def variant(ratio: float) -> Variant:
    speedup = Ratio(ratio, ratio - 0.01, ratio + 0.01, 30)
    return Variant("inductor", "inductor", ArmConfig(), "compile", "completed", "", speedup)


def evidence(
    events: list[KernelsMeasured], ratio: float, step_ms: float = 20.0, data: float = 0.0, device: str = "cpu"
) -> Evidence:
    ledger = Ledger(anatomy=anatomy(device), kernels=events)
    baseline = Baseline(Mean(step_ms, None, None), 100, {"data": data, "forward": 1 - data}, None)
    return Evidence(meta(), ledger, baseline, (variant(ratio),))


def slower(*args: Any, **kwargs: Any) -> list[Finding]:
    return list(slower_kernels.find(evidence(*args, **kwargs)))


def tiny(*args: Any, **kwargs: Any) -> list[Finding]:
    return list(tiny_steps.find(evidence(*args, **kwargs)))


def test_a_slower_variant_is_explained_by_what_grew() -> None:
    (found,) = slower(CONV, 0.8)
    assert found.slug == "slower-kernels" and found.severity == "warning" and found.label == "compiler"
    assert found.cost_ms == pytest.approx(5.0)
    assert found.where is not None and found.where.line == 30
    assert "convolution 8.00 -> 14.00 ms" in found.why and "no kernel at work 2.00 -> 4.00 ms" in found.why
    assert "fuses" not in found.why
    assert "channels_last" in found.hints[0]


def test_a_small_loss_is_a_note_and_no_proven_loss_is_nothing() -> None:
    assert [f.severity for f in slower(CONV, 0.97)] == ["info"]
    assert slower(CONV, 0.995) == []
    assert slower([], 0.8) == []


def test_a_loss_that_the_profiler_does_not_see_is_not_explained() -> None:
    assert slower(TINY, 0.8) == []


def test_steps_without_kernels_are_tiny() -> None:
    (found,) = tiny(TINY, 1.0, step_ms=0.5)
    assert found.slug == "tiny-steps" and found.severity == "warning" and found.label == "compiler"
    assert "0.60 ms of it (67%)" in found.why
    assert found.cost_ms == pytest.approx(0.5 * 2 / 3)
    assert not any("CUDA graph" in hint for hint in found.hints)


def test_a_cuda_graph_is_for_cuda() -> None:
    (found,) = tiny(TINY, 1.0, step_ms=0.5, device="cuda")
    assert any("reduce-overhead" in hint for hint in found.hints)


def test_steps_that_gain_compute_or_wait_for_data_are_not_tiny() -> None:
    assert tiny(TINY, 1.3, step_ms=0.5) == []
    assert tiny(CONV, 0.8) == []
    assert tiny(TINY, 1.0, step_ms=1.0, data=0.5) == []


def test_without_a_profiler_pass_the_time_of_a_step_is_the_sign() -> None:
    (found,) = tiny([], 1.01, step_ms=0.4)
    assert "0.40 ms" in found.why and found.cost_ms is None
    assert tiny([], 1.01, step_ms=3.0) == []
    assert tiny([], 1.01, step_ms=0.4, data=0.8) == []


def test_the_result_has_the_table() -> None:
    assert of_ledger(meta(), Ledger(anatomy=anatomy(), kernels=CONV), 10.0).kernels == table_of(CONV)


# -------------------------------------------------------------------------------------------------------------------
# The real profiler
# -------------------------------------------------------------------------------------------------------------------


def step_of_a_small_network() -> tuple[Any, Any]:
    from torch import nn

    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    images, labels = torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()

    return network, step


def profile_steps(step: Any, steps: int = 3) -> Totals | None:
    for _ in range(3):
        step()
    window = KernelPass(Device("cpu"))
    if not window.start():
        return None
    for _ in range(steps):
        step()
    return window.stop()


def assert_sane(totals: Totals, steps: int) -> None:
    assert 0 < sum(totals.kinds_ns.values()) <= totals.wall_ns
    assert totals.busy_ns == sum(totals.kinds_ns.values())  # on one thread
    assert set(totals.kinds_ns) <= set(KINDS)
    assert totals.kinds_count["convolution"] == 2 * steps  # forward, backward
    assert totals.kinds_count["matmul"] >= 2 * steps
    assert totals.kinds_ns["optimizer"] > 0 and totals.kinds_ns["reduction"] > 0
    assert "aten::mkldnn_convolution" in totals.top_ns or "aten::convolution_backward" in totals.top_ns


@pytest.mark.timeout(240)
def test_a_real_network_eager_and_compiled() -> None:
    network, step = step_of_a_small_network()
    eager = profile_steps(step)
    assert eager is not None
    assert_sane(eager, 3)
    assert eager.kinds_count["pointwise"] >= 2 * 3 and "fused" not in eager.kinds_ns

    torch.compiler.reset()
    network.compile(backend="inductor")
    compiled = profile_steps(step)
    assert compiled is not None
    assert_sane(compiled, 3)
    assert compiled.kinds_count["fused"] == 2 * 3  # forward, backward
    assert compiled.kinds_count["pointwise"] < eager.kinds_count["pointwise"]  # the ReLU is in there


def test_the_scripts_own_profiler_is_left_alone() -> None:
    from torch.profiler import ProfilerActivity, profile

    _, step = step_of_a_small_network()
    with profile(activities=[ProfilerActivity.CPU]) as theirs:
        step()
        assert profile_steps(step) is None
    assert sum(e.name == "aten::conv2d" for e in theirs.events()) == 4
    window = KernelPass(Device("cpu"))
    assert not window.start(), "a profiler that is done may be started again"
    del theirs, window
    gc.collect()
    assert profile_steps(step) is not None


def test_a_profiler_that_the_script_starts_meanwhile_is_left_alone() -> None:
    from torch.profiler import ProfilerActivity, profile

    _, step = step_of_a_small_network()
    gc.collect()
    window = KernelPass(Device("cpu"))
    assert window.start()
    theirs = profile(activities=[ProfilerActivity.CPU])
    theirs.start()
    step()
    assert window.stop() is None
    step()
    theirs.stop()
    assert sum(e.name == "aten::conv2d" for e in theirs.events()) == 2


def test_a_profiler_that_fails_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    monkeypatch.setattr("torch.profiler.profile.start", lambda self: 1 / 0)
    window = KernelPass(Device("cpu"))
    assert not window.start()
    assert window.stop() is None
    assert not KernelPass(Device("mps")).start()


def test_the_users_terminal_sees_nothing_of_it() -> None:
    source = Path(speedproof.__file__).parent.parent
    program = f"""
        import os, sys
        sys.path.insert(0, {str(source)!r})
        import torch
        from speedproof.worker.device import Device
        from speedproof.worker.kernels import KernelPass
        window = KernelPass(Device("cpu"))
        assert window.start()
        torch.ones(3) + 1
        assert window.stop() is not None
        assert "KINETO_LOG_LEVEL" not in os.environ
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

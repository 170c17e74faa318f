"""Kinds of kernel, told by the name: ATen's operators, the vendors' libraries on a device, and Inductor's own code."""

from __future__ import annotations

import re

KINDS = (
    "convolution",
    "matmul",
    "attention",
    "normalisation",
    "pointwise",
    "reduction",
    "copy and layout",
    "optimizer",
    "fused",  # code of Inductor's whose kernels have no events of their own
    "other",
)

GENERATED = re.compile(r"^(?:graph_\d+_)?(?:cpp|triton)_")
_OPERATOR = re.compile(r"^(?!autograd::|torch::autograd::)\w+::\w+$|^detach_?$")
GRAPH = re.compile(r"^## Call CompiledFxGraph|^inductor_codegen|^AOTInductorModel")
HOST_RANGE = re.compile(r"^##|^Torch-Compiled Region|^CompiledFunction|^ProfilerStep|^TorchDynamo|^AOTDispatcher")
_BETWEEN_DEVICES = re.compile(r"^_?c10d|^nccl")
OPTIMIZER_RANGE = re.compile(r"^Optimizer\.\w+#")

_NORMALISATION = r"batch_?norm|layer_?norm|group_?norm|instance_norm|rms_?norm|weight_norm|local_response"
_ATTENTION = r"attention|flash_(?:fwd|bwd)|fmha|sdpa|mem_?eff|flex_att"
_REDUCTION = (
    r"softmax|logsumexp|(?:^|_)(?:sum|nansum|mean|prod|amax|amin|max|min|argmax|argmin|all|any|norm|var|std|cumsum|"
    r"cumprod|topk|sort|argsort|unique|bincount|histc|nll|nonzero|median|mode|kthvalue|multinomial)(?:_|$)|"
    r"nll_loss|cross_entropy|_loss|pool|linalg_vector_norm|var_mean|reduce|count_nonzero"
)

# Names of operators, namespace and trailing underscores removed; the first that matches decides.
_OPERATORS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("optimizer", r"^_?fused_(?:adam|adamw|sgd|adagrad)|^_?foreach_|^_amp_(?:foreach|update)"),
        ("attention", _ATTENTION),
        ("normalisation", _NORMALISATION),
        ("convolution", r"conv(?:\d|_|olution|$)"),
        (
            "matmul",
            r"^(?:mm|addmm|addmv|mv|dot|vdot|addr|matmul|linear|einsum|bilinear|_?trilinear|chain_matmul|inner|outer|"
            r"ger|tensordot|linalg_(?:matmul|multi_dot))(?:_backward)?$|bmm|_mm$|_linear|linear_|gemm|_addmm|lstm|gru|rnn",
        ),
        (
            "copy and layout",
            r"copy|^(?:to|type_as|clone|contiguous|detach|view|view_as|reshape|reshape_as|_reshape_alias|_unsafe_view|"
            r"flatten|unflatten|t|transpose|permute|movedim|swapaxes|expand|expand_as|as_strided|squeeze|unsqueeze|narrow|"
            r"slice|select|split|split_with_sizes|chunk|unbind|unfold|cat|concat|stack|hstack|vstack|pad|constant_pad_nd|"
            r"reflection_pad\w*|replication_pad\w*|roll|flip|repeat|repeat_interleave|tile|gather|scatter\w*|index\w*|"
            r"_index\w*|take|masked_select|embedding\w*|pin_memory|_pin_memory|alias|lift_fresh|resolve_conj|resolve_neg|"
            r"diagonal|pixel_shuffle|resize|(?:un)?safe_split|_cast\w*|_reinterpret_tensor|tril|triu|real|view_as_real|"
            r"view_as_complex|set|broadcast_to|channel_shuffle|im2col|col2im)(?:_backward)?$|"
            r"^(?:slice|select|unfold|embedding\w*|index_select|as_strided)_backward$|_layout$|reorder",
        ),
        (
            "pointwise",
            r"^_?(?:add|sub|rsub|mul|div|true_divide|floor_divide|remainder|fmod|neg|abs|sign|sgn|sqrt|rsqrt|square|pow|"
            r"exp|exp2|expm1|log|log2|log10|log1p|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|sigmoid|log_sigmoid\w*|"
            r"erf|erfc|relu|relu6|leaky_relu|elu|selu|celu|gelu|silu|mish|hardtanh|hardsigmoid|hardswish|softplus|"
            r"softshrink|prelu|_prelu_kernel|rrelu\w*|threshold|glu|clamp|clamp_min|clamp_max|clip|where|maximum|minimum|"
            r"fmax|fmin|eq|ne|lt|le|gt|ge|logical_\w+|bitwise_\w+|isnan|isinf|isfinite|lerp|addcmul|addcdiv|reciprocal|"
            r"floor|ceil|round|trunc|frac|masked_fill|fill|zero|zeros|ones|full|zeros_like|ones_like|full_like|new_zeros|"
            r"new_ones|new_full|arange|linspace|dropout\w*|native_dropout|feature_dropout|bernoulli|rand\w*|normal|"
            r"uniform|exponential|random|nan_to_num|heaviside|sinc|digamma|lgamma|upsample\w*|interpolate|"
            r"grid_sampler\w*|one_hot|fake_quantize\w*|quantize\w*|dequantize\w*|xlogy|hypot|scalar_tensor)"
            r"(?:_backward|_double_backward|_backward_data)?$",
        ),
        ("reduction", _REDUCTION),
    )
)

# Names of device kernels of the vendors' libraries and of ATen; the first that matches decides.
_DEVICE = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("attention", _ATTENTION),
        (
            "normalisation",
            _NORMALISATION + r"|bn_(?:fw|bw)|RowwiseMoments|GammaBeta|ComputeGradInput|InternalGradients",
        ),
        ("copy and layout", r"nchwToNhwc|nhwcToNchw|nchwAddPadding|nhwcAddPadding|^mem(?:cpy|set)"),
        (
            "convolution",
            r"fprop|dgrad|wgrad|implicit_(?:convolve|gemm)|convolve|winograd|conv(?:olution|_?depthwise|_?transpose|\dd)"
            r"|fft2d|conv_",
        ),
        ("matmul", r"gemm|gemv|cutlass|cublas|nvjet|splitk|dot_kernel|_mm_|matmul|magma"),
        ("optimizer", r"multi_tensor_apply|FusedAdam|FusedSgd|FusedOptimizer|amp_update_scale"),
        (
            "copy and layout",
            r"copy|CatArray|transpose|permute|im2col|col2im|index_?select|indexSelect|gather|scatter|embedding|"
            r"index_(?:put|elementwise)|indexing|roll_cuda|flip_|tri[ul]_",
        ),
        ("reduction", r"reduce|softmax|nll_loss|pool|scan_|sort|topk|norm_kernel|argm(?:ax|in)|histogram|unique"),
        ("pointwise", r"elementwise|distribution_|dropout|fill|upsample|pointwise|activation|arange|grid_sampler"),
    )
)


def kind_of(name: str) -> str:
    """The kind of a kernel or operator, one of ``KINDS``, by its name alone."""
    if GENERATED.match(name):
        return _kind_of_generated(name)
    if GRAPH.match(name):
        return "fused"
    if _BETWEEN_DEVICES.match(name):
        return "other"
    if _OPERATOR.match(name):
        return _first(_OPERATORS, name.rpartition("::")[2].strip("_"))
    return _first(_DEVICE, name)


def is_kernel(name: str) -> bool:
    """Whether a CPU event is work on tensors; autograd's own nodes, guards, wrappers and user ranges are not."""
    return bool(GENERATED.match(name) or _OPERATOR.match(name))


def _kind_of_generated(name: str) -> str:
    """A kernel of Inductor's, which bears the names of what it fuses; Triton's also bear what kind of loop they are.

    A convolution or product in the name of a loop is only where its input comes from: templates alone compute one.
    """
    body = re.sub(r"clamp_(?:min|max)", "clamp", GENERATED.sub("", name))
    if body.startswith("tem_") or "gemm" in body.lower() or "bmm" in body.lower():
        return next((k for k in ("attention", "convolution") if k[:4] in body), "matmul")
    if re.search(_NORMALISATION, body):
        return "normalisation"
    if body.startswith(("red_", "per_", "mix_", "split_scan")):
        return "reduction"
    if body.startswith(("poi_", "for_")):
        return "pointwise"
    return "reduction" if re.search(_REDUCTION, body) else "pointwise"


def _first(table: tuple[tuple[str, re.Pattern[str]], ...], name: str) -> str:
    return next((kind for kind, pattern in table if pattern.search(name)), "other")

"""Every private torch name this project uses, and the versions it was checked on.

Checked by hand on 2.14.1; written to do without what a version lacks (2.4 to 2.15): a missing name means a
missing figure, which is then ``None`` or 0 events, never a crash of the user's script.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

# Modules that only pass a call on to the module inside them: never roots themselves.
WRAPPERS = frozenset(
    {
        "OptimizedModule",
        "DistributedDataParallel",
        "DataParallel",
        "FullyShardedDataParallel",
        "_FabricModule",
        "DeepSpeedEngine",
    }
)


def is_wrapper(module: torch.nn.Module) -> bool:
    """Whether this is DDP or the like, around the network that is meant."""
    return type(module).__name__ in WRAPPERS


# --- the slot -----------------------------------------------------------------------------------------

SLOT = "_compiled_call_impl"


def slot_of(module: torch.nn.Module) -> Any:
    """What ``nn.Module.compile`` or we put in front of ``module``'s call; ``None`` when nothing."""
    return module.__dict__.get(SLOT)


def fill_slot(module: torch.nn.Module, call: Any) -> None:
    """Put ``call`` in front of ``module``'s call (design, fact 1), or empty the slot with ``None``.

    Written to ``__dict__`` since OptimizedModule hands attribute writes on to the module inside it.
    """
    if call is None:
        module.__dict__.pop(SLOT, None)
    else:
        module.__dict__[SLOT] = call


def eager_call(module: torch.nn.Module) -> Callable[..., Any]:
    """The module's own call, hooks included, past the slot."""
    call: Callable[..., Any] = module._call_impl
    return call


def compilable_call(module: torch.nn.Module) -> Callable[..., Any]:
    """What to hand to ``torch.compile`` so that the whole call of ``module`` is looked at.

    Dynamo skips frames of torch.nn itself, so up to 2.13 ``_call_impl`` of an ``nn.Sequential`` captured nothing;
    torch.compile(module) goes through ``wrap_inline`` then, and 2.14 does so for ``_call_impl`` as well.
    """
    call = eager_call(module)
    if not type(module).forward.__module__.startswith("torch.nn"):
        return call
    try:
        if hasattr(
            importlib.import_module("torch._dynamo.eval_frame").OptimizedModule, "_should_wrap_module_call_impl"
        ):
            return call
        wrapped: Callable[..., Any] = importlib.import_module("torch._dynamo.external_utils").wrap_inline(call)
    except (ImportError, AttributeError):
        return call
    return wrapped


def original_of(optimized: torch.nn.Module) -> torch.nn.Module:
    """The module inside what ``torch.compile(module)`` returned."""
    inner: torch.nn.Module = optimized._orig_mod
    return inner


# --- where things are announced -----------------------------------------------------------------------


def loader_iterator_class() -> type:
    """The class whose ``__next__`` every DataLoader iteration goes through."""
    from torch.utils.data import dataloader

    kind: type = dataloader._BaseDataLoaderIter
    return kind


def worker_iterator_class() -> type:
    """The class of an iteration with worker processes; making one starts them."""
    from torch.utils.data import dataloader

    kind: type = dataloader._MultiProcessingDataLoaderIter
    return kind


def on_optimizer_step(before: Callable[[Any], None], after: Callable[[Any], None]) -> Callable[[], None]:
    """Call back around every optimizer's ``step``; returns a remover. Harmless to compile (design, fact 2)."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    def pre(optimizer: Any, args: Any, kwargs: Any) -> None:
        before(optimizer)

    def post(optimizer: Any, args: Any, kwargs: Any) -> None:
        after(optimizer)

    handles = (register_optimizer_step_pre_hook(pre), register_optimizer_step_post_hook(post))

    def remove() -> None:
        for handle in handles:
            handle.remove()

    return remove


def is_compiling() -> bool:
    """Whether Dynamo is tracing the caller; our own Python must then not run its bookkeeping."""
    return bool(torch.compiler.is_compiling())


# --- compiling ----------------------------------------------------------------------------------------


def on_compile(start: Callable[..., None], end: Callable[..., None]) -> Callable[[], None] | None:
    """Bracket every compile: Dynamo, lazy backward, CUDA-graph recording. Returns a remover."""
    try:
        callback = importlib.import_module("torch._dynamo.callback")
        callback.on_compile_start(start)
        callback.on_compile_end(end)
    except (ImportError, AttributeError):
        return None

    def remove() -> None:
        for take, what in (
            (callback.callback_handler.remove_start_callback, start),
            (callback.callback_handler.remove_end_callback, end),
        ):
            with contextlib.suppress(ValueError):  # torch._dynamo.reset() may have cleared them
                take(what)

    return remove


def tell_plain_call(plain: Any) -> None:
    """Dynamo notes ``nn.Module.__call__`` when it is imported; it must not have noted a stand-in of ours.

    With another one noted, calls of modules are traced in a slower way, and hooks are guarded that are not otherwise.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("torch._dynamo") and "unpatched_nn_module_call" in vars(module):
            module.__dict__["unpatched_nn_module_call"] = plain


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Our own bookkeeping between compiled pieces: frames in here are not for Dynamo to compile."""
    try:
        frames = importlib.import_module("torch._C._dynamo.eval_frame") if "torch._dynamo" in sys.modules else None
        before = frames.set_eval_frame(None) if frames is not None else None
    except (ImportError, AttributeError):
        frames = before = None
    try:
        yield
    finally:
        if frames is not None:
            frames.set_eval_frame(before)


def reset_compiler() -> None:
    """Forget every compiled graph of this process, on disk excepted."""
    torch.compiler.reset()
    try:
        utils = importlib.import_module("torch._inductor.utils")
        utils.clear_caches() if hasattr(utils, "clear_caches") else utils.clear_inductor_caches()
    except (ImportError, AttributeError):
        pass


def use_cache_folder(folder: str) -> None:
    """From the next compile on, Inductor and Triton keep their caches in ``folder``."""
    os.makedirs(folder, exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")


def counters() -> dict[str, dict[str, int]]:
    """A copy of Dynamo's counters."""
    try:
        utils = importlib.import_module("torch._dynamo.utils")
        return {k: dict(v) for k, v in utils.counters.items()}
    except (ImportError, AttributeError):
        return {}


def raise_metrics_limit(limit: int = 100_000) -> None:
    """``get_compilation_metrics`` keeps 64 entries unless told otherwise (design, fact 14)."""
    with contextlib.suppress(ImportError, AttributeError):
        importlib.import_module("torch._dynamo.utils").set_compilation_metrics_limit(limit)


def compilation_metrics() -> list[Any]:
    """Dynamo's records of finished compiles; empty where this torch keeps none."""
    try:
        return list(importlib.import_module("torch._dynamo.utils").get_compilation_metrics())
    except (ImportError, AttributeError):
        return []


def forget_metrics() -> None:
    """Start Dynamo's records afresh, so that the next ones are of one arm alone."""
    with contextlib.suppress(ImportError, AttributeError):
        importlib.import_module("torch._dynamo.utils").clear_compilation_metrics()


@functools.lru_cache(maxsize=1)
def trace_logger() -> logging.Logger:
    """The structured trace: every break and recompile (design, fact 7). Computed only while it has a handler."""
    return logging.getLogger("torch.__trace")


def interned_string(index: int) -> str | None:
    """The file name behind an index of the structured trace's stacks."""
    try:
        table = importlib.import_module("torch._logging.structured").INTERN_TABLE
    except (ImportError, AttributeError):
        return None
    for name, number in table.items():
        if number == index:
            return str(name)
    return None


def compile_id() -> str | None:
    """The compile that a backend is called for, as ``frame/attempt``."""
    try:
        current = importlib.import_module("torch._guards").CompileContext.current_compile_id()
    except (ImportError, AttributeError):
        return None
    if current is None or getattr(current, "frame_id", None) is None:
        return None
    return f"{current.frame_id}/{current.frame_compile_id}"


# --- the compiled wrapper -----------------------------------------------------------------------------

PREFIX = "_orig_mod."


def optimized_class() -> type | None:
    """The class of what ``torch.compile(module)`` returns."""
    try:
        kind: type = importlib.import_module("torch._dynamo.eval_frame").OptimizedModule
    except (ImportError, AttributeError):
        return None
    return kind


def hooks_are_guarded() -> bool:
    """Whether a hook that comes after the first compiled call leads to a recompile, as it has to."""
    try:
        return not importlib.import_module("torch._dynamo.config").skip_nnmodule_hook_guards
    except (ImportError, AttributeError):
        return True


def is_transform_argument(tensor: torch.Tensor) -> bool:
    """Whether this is the very tensor that ``torch.func.grad`` differentiates by, before any operation."""
    try:
        functorch = importlib.import_module("torch._C._functorch")
        return bool(functorch.is_gradtrackingtensor(tensor)) and tensor.grad_fn is None
    except (ImportError, AttributeError):
        return False


# --- settings named in the user's code ----------------------------------------------------------------

SETTINGS = {
    "torch._dynamo.config": "torch._dynamo.config",
    "torch._inductor.config": "torch._inductor.config",
    "torch._functorch.config": "torch._functorch.config",
}


def setting_exists(module: str, name: str) -> bool | None:
    """Whether this torch has the compiler option ``module.name``; ``None`` where the module cannot be asked."""
    try:
        config: Any = importlib.import_module(module)
        for part in name.split("."):
            config = getattr(config, part)
    except ImportError:
        return None
    except AttributeError:
        return False
    return True


def setting_note(module: str, name: str) -> str:
    """What torch says of an option that was renamed or is deprecated."""
    try:
        entry = importlib.import_module(module)._config[name]
    except (ImportError, AttributeError, KeyError, TypeError):
        return ""
    if getattr(entry, "deprecated", False):
        return str(getattr(entry, "deprecation_message", None) or "deprecated")
    alias = getattr(entry, "alias", None)
    return f"renamed to {alias}" if alias else ""


def compile_modes() -> tuple[str, ...]:
    """The values that ``torch.compile(mode=...)`` takes."""
    try:
        return tuple(importlib.import_module("torch._inductor").list_mode_options())
    except (ImportError, AttributeError):
        return ()


def inductor_options() -> tuple[str, ...]:
    """The names that ``torch.compile(options=...)`` takes."""
    try:
        return tuple(importlib.import_module("torch._inductor").list_options())
    except (ImportError, AttributeError):
        return ()

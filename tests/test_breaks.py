"""Graph breaks: what kind each of torch's texts is, how breaks are grouped, what the findings say, and torch itself."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from recordings import meta

import speedproof
from speedproof import codec
from speedproof.analyse import breaks
from speedproof.analyse.breaks import KINDS, OTHER, groups, kind_of, plain, slug_of
from speedproof.analyse.evidence import Evidence
from speedproof.analyse.findings import page_of
from speedproof.analyse.ledger import fold
from speedproof.analyse.source import Sources
from speedproof.model import (
    Baseline,
    CapturedGraph,
    CompileLog,
    Finding,
    GraphBreak,
    Mean,
    Observed,
    Place,
    Sighted,
)

SCRIPT = "/project/train.py"
TORCH = "/venv/lib/python3.11/site-packages/torch"
SLUGS = sorted({kind.slug for kind in KINDS} | {OTHER})
GIVEN_UP = "Failed to handle graph break gracefully. Skipping the function and falling back to eager."


# -------------------------------------------------------------------------------------------------------------------
# Kinds
# -------------------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What torch 2.14.1 said, the user's line, the frame below it, and the kind, without its first words."""

    slug: str
    reason: str
    explanation: str = ""
    line: str = ""
    library: str = ""


# [kind], then the reason, | the explanation, > the user's line, @ the frame below it. An empty line ends a record.
TEXTS = r"""

[autograd-function]
Unsupported custom jvp
| Dynamo does not support tracing `torch.autograd.Function` subclasses that define a custom `jvp` method.
> def f(x, w): return (Jvp.apply(w) * x).sum()

Unsupported hasattr call
| Dynamo does not know how to trace the function `GetAttrVariable(AutogradFunctionVariable(), apply)`
> def f(x, w): return (torch.vmap(Vm.apply)(w) * x).sum()
@ /venv/lib/python3.11/site-packages/torch/_functorch/vmap.py

Unsupported hasattr call
| Dynamo does not know how to trace the function `BoundBuiltinMethodVariable(_FunctionBase.apply,
  LazyVariableTracker(realized: AutogradFunctionVariable()))`
> def f(x, w): return (torch.vmap(Vm.apply)(w) * x).sum()
@ /venv/lib/python3.11/site-packages/torch/_functorch/vmap.py

autograd_function_kwonly_args
| autograd.Function.apply does not support keyword-only arguments in forward().
> def f(x, w): return (Kw.apply(w, s=3) * x).sum()

autograd.Function.apply: duplicate tensor input
| Dynamo does not support tracing autograd.Function.apply when the same tensor is passed to multiple forward inputs.
> def f(w): return Dup.apply(w, w).sum()

[autograd-grad]
using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops=False`
| Attempted to call `torch.autograd.grad` with config `torch._dynamo.config.trace_autograd_ops` set to `False`.
> g, = torch.autograd.grad(l, w)

Tensor with grad_fn()
| Dynamo does not support tracing tensors with a grad_fn directly.
> n = y.grad_fn

[backward-hook]
Module-level backwards hooks require compiled autograd.
> def forward(self, x): return self.l(x).relu()
@ /venv/lib/python3.11/site-packages/torch/nn/modules/module.py

Tensor with grad_fn()
| Dynamo does not support tracing tensors with a grad_fn directly.
> def forward(self, x): return self.l(x).relu()
@ /venv/lib/python3.11/site-packages/torch/nn/modules/module.py

[branch]
Data-dependent branching
| Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support tracing dynamic
  control flow.
> if x.sum() > 0:

Data-dependent branching
| Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support tracing dynamic
  control flow. torch.compile detected a graph break in a for/while loop. Skipping the frame and falling back to
  eager, as graph breaks in loops are not supported.
> if x.sum() > 100:

Data dependent operator
| Operator `aten.allclose.default` has a non-Tensor output whose value is dependent on the data of Tensor inputs.
> if torch.allclose(x, x * 2):

Unsupported Tensor.item() call with capture_scalar_outputs=False
| Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False.
> y = bool((x > 0).any())

[context-manager]
Unsupported context manager
| Dynamo does not know how to enter a `TextIOWrapper` context manager.
> with open(os.devnull, "w") as f: f.write(str(float(v)))

Unsupported context manager
| Dynamo does not know how to enter a `lock` context manager.
> with l:

Attempted to inline function marked as skipped
| Dynamo developers have intentionally marked that the function `record_function.__enter__` should not be traced.
> r.__enter__()

Reconstruction failure
| Dynamo has no bytecode reconstruction implemented for sourceless variable UserMethodVariable(<function
  record_function.__enter__ at 0x7f00>, ProfilerRecordFunctionContextVariable()).
> r.__enter__()

torch.* op returned non-Tensor
| torch.* ops that return a non-Tensor cannot be traced into the Dynamo FX graph output
> with torch.cuda.nvtx.range("a"):

generator function over a skipped function
| Cannot trace a generator whose underlying function is skipped by Dynamo (e.g. defined in a skip-listed module),
  since its body cannot be symbolically traced.
> with torch.cuda.nvtx.range("a"):
@ /usr/lib/python3.11/contextlib.py

Attempted to inline function marked as skipped
| Dynamo developers have intentionally marked that the function `set_detect_anomaly.__init__` should not be traced.
> with torch.autograd.set_detect_anomaly(True):
@ /venv/lib/python3.11/site-packages/torch/_dynamo/polyfills/__init__.py

Attempted to inline function marked as skipped
| Dynamo developers have intentionally marked that the function `set_detect_anomaly.__enter__` should not be traced.
> with torch.autograd.set_detect_anomaly(True):

Attempted to call function marked as skipped
| Dynamo developers have intentionally marked that the function `set_grad_enabled.__enter__` in file
  `/venv/lib/python3.11/site-packages/torch/autograd/grad_mode.py` should not be traced. Attempted to graph break in
  an active context manager(s) that doesn't support graph breaking.
> s.enter_context(torch.no_grad())
@ /usr/lib/python3.11/contextlib.py

unsupported contextlib.* API
| <class 'contextlib.redirect_stdout'> not supported. This may be due to its use of context-specific operations that
  are not supported in Dynamo yet (i.e. Exception handling)
> with contextlib.redirect_stdout(b):

Unsupported context manager
| Dynamo does not know how to enter a `device` context manager.
> with torch.device("cpu"): y = torch.zeros(4, 4)

[custom-op]
Operator does not support running with fake tensors
> def f(x): return torch.ops.probe2.foo(x * 2) + 1

Attempted to call function marked as skipped
| Dynamo does not know how to trace the builtin `markupsafe._speedups._escape_inner.` This function is either a
  Python builtin (e.g. _warnings.warn) or a third-party C/C++ Python extension (perhaps created with pybind).
> s = sp._escape_inner("a<b"); return x + len(s)

[deepcopy]
Attempted to copy.deepcopy a tensor
| Dynamo does not support copy.deepcopy() on tensors.
> y = copy.deepcopy(x)
@ /usr/lib/python3.11/copy.py

[disabled]
Skip calling `torch.compiler.disable()`d function
| Skip calling function `<function disabled.<locals>.g at 0x7f00>` since it was wrapped with
  `torch.compiler.disable` (reason: None)
> y = g(x * 2)

Call to `torch._dynamo.graph_break()`
| User-inserted graph break. Message: None
> torch._dynamo.graph_break()

Skip inlining `torch.compiler.disable()`d function
| Skip inlining function <function disabled_mod.<locals>.M.forward at 0x7f00> since it was wrapped with
  `torch.compiler.disable` (reason: None)
> def forward(self, x): return self.m(x * 2) * 3

Call to `torch._dynamo.skip_frame()`
| User-inserted skip frame. Message:
> torch._dynamo.skip_frame()

[distributed]
Unsupported method call
| Dynamo does not know how to trace method `set_runtime_stats_and_log` of class `Logger`
> def f(x): return m(x * 2).sum()
@ /venv/lib/python3.11/site-packages/torch/nn/parallel/distributed.py

Attempted to call function marked as skipped
| Dynamo developers have intentionally marked that the function `DistributedDataParallel._inside_ddp_forward` in
  file `/venv/lib/python3.11/site-packages/torch/_compile.py` should not be traced.
> def f(x): return m(x * 2).sum()
@ /venv/lib/python3.11/site-packages/torch/nn/parallel/distributed.py

async_op=True for distributed collectives
| `torch.compile` doesn't support `async_op=True for <function all_reduce at 0x7f00>
> h = dist.all_reduce(x, async_op=True)

Unsupported method call
| Dynamo does not know how to trace method `wait` of class `Work`
> h.wait()

Unsupported method call
| Dynamo does not know how to trace method `__new__` of class `pybind11_type`
> dist.barrier()
@ /venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py

Unsupported method call
| Dynamo does not know how to trace method `_rebuild_buckets` of class `Reducer` Attempted to graph break in an
  active context manager(s) that doesn't support graph breaking.
> return m(x).sum()
@ /venv/lib/python3.11/site-packages/torch/nn/parallel/distributed.py

[dynamic-shape]
Dynamic shape operator
| Operator `aten.nonzero.default`'s output shape depends on input Tensor data.
> def f(x): return x.nonzero().sum() + 1

Dynamic shape operator
| Operator `aten._unique2.default`'s output shape depends on input Tensor data.
> def f(x): return torch.unique(x.round()).numel() + x

Attempted to use `torch.nn.functional.one_hot` with data-dependent output shape
| Dynamo does not support this.
> def f(i): return F.one_hot(i) * 2

[exception]
Observed exception
| Dynamo found no exception handler at the top-level compiled function when encountering an exception. Exception
  will propagate outside the compiled region.
> return x + len(s)

[generator]
Unexpected type in sourceless builder
| SourcelessBuilder.create does not know how to wrap <class 'torch.Tensor'>
> for y in it: x = x + y

C-implemented special method without VariableTracker model
| 'list_iterator' implements '__next__' in C and Dynamo has no model for it.
> return x + next(it)

Unsupported key type for itertools.groupby
| Dynamo does not know how to trace itertools.groupby with key type: <class
  'torch._dynamo.variables.tensor.TensorVariable'>. We only support grouping keys that are constants (int, float,
  str, etc.) Unexpected failure in invoking function during groupby
> for k, g in itertools.groupby([x, x], key=lambda t: t.sum()): x = x + 1

C-implemented special method without VariableTracker model
| 'groupby' implements '__iter__' in C and Dynamo has no model for it.
> for k, g in itertools.groupby([x, x], key=lambda t: t.sum()): x = x + 1

C-implemented special method without VariableTracker model
| 'zip' implements '__iter__' in C and Dynamo has no model for it.
> for a, b in c: x = x + a

Attempted to inline function marked as skipped
| Dynamo developers have intentionally marked that the function `DataLoader.__iter__` should not be traced.
> for (b,) in dl: x = x + b

[hook-in-forward]
Encountered graph break that we cannot resume from. Compiling up to the previous resumable state, then skipping the
  rest of the function. Graph break encountered:
| Dynamo has no bytecode reconstruction implemented for sourceless variable RemovableHandleVariable().
> return y.sum()

Reconstruction failure
| Dynamo has no bytecode reconstruction implemented for sourceless variable RemovableHandleVariable().
> return y.sum()

setattr() on unsupported type
| setattr() is not supported on type type
> h = self.l.register_forward_hook(lambda m, a, o: o * 2)
@ /venv/lib/python3.11/site-packages/torch/utils/hooks.py

Encountered graph break that we cannot resume from. Compiling up to the previous resumable state, then skipping the
  rest of the function. Graph break encountered:
| Dynamo attempted to build a representation of a torch.utils.hooks.RemovableHandle, which is not supported. This
  happens because the RemovableHandle was created in another frame.
> h.remove()

Attempted to represent unregistered RemovableHandle
| Dynamo attempted to build a representation of a torch.utils.hooks.RemovableHandle, which is not supported. This
  happens because the RemovableHandle was created in another frame.
> h.remove()

[item]
Unsupported Tensor.item() call with capture_scalar_outputs=False
| Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False.
> m = x.max().item()

Data dependent operator
| Operator `aten._local_scalar_dense.default` has a non-Tensor output whose value is dependent on the data of Tensor
  inputs.
> m = (x > 0).sum(1).tolist()

Tensor.tolist() with non-integer tensor
| Dynamo currently does not support tracing `tolist()` on non-integer tensors.
> m = x.tolist()

repr() on tensor
| Tensor repr requires actual runtime values which are not available during tracing.
> s = str(x.sum())

[logging]
logging.Logger method not supported for non-export cases
| For non-export cases, logging.Logger methods are only supported if the logger has a source and the method is
  registered as reorderable.
> log.info("hi %s", x.shape)

Unsupported python_type() call
| This VariableTracker does not implement python_type(), which is required for object protocol operations.
> logging.warning("hi")
@ /usr/lib/python3.11/logging/__init__.py

Attempted to call function marked as skipped
| Dynamo does not know how to trace the Python builtin `_warnings.warn`.
> warnings.warn("hi")

[nested-tensor]
Operator does not support running with fake tensors
> n = torch.nested.nested_tensor([x, y])

Attempted to wrap strided NestedTensor
| torch.compile does not support strided NestedTensor
> return torch.nested.to_padded_tensor(n, 0.)

[numpy]
Data dependent operator
| Operator `aten._local_scalar_dense.default` has a non-Tensor output whose value is dependent on the data of Tensor
  inputs.
> hi = float(np.percentile(x.detach().cpu().numpy(), 95))

attempted to trace numpy function unsupported by PyTorch
| Can't find numpy numpy function <function unwrap at 0x7f00> in torch._numpy.
> y = np.unwrap(x.detach().numpy())

Unsupported ndarray method call
| `ndarray.tobytes()` is not modelled in `torch._numpy`.
> y = y.tobytes()

ndarray.astype(object)
| `ndarray.astype('O')` or `ndarray.astype(object)` is not supported by torch.compile, as there is no equivalent to
  object type in torch.Tensor. This will be executed eagerly.
> y = x.detach().numpy().astype(object)

failed to convert numpy.ndarray to Tensor
| Exception encountered when attempting to convert numpy.ndarray to Tensor
> return x + len(y)

NotImplementedError/UnsupportedFakeTensorException when running FX node
| Dynamo failed to run FX node with fake tensors: call_function <Wrapped function <original array>>(*(['a', 'b'],),
  **{}): got NotImplementedError("failed to convert ['a', 'b'] to ndarray. \nInternal error is: too many dimensions
  'str'.")
> a = np.array(["a", "b"])

[other]
setattr() on unsupported type
| setattr() is not supported on type OrderedDict
> sd = m.state_dict()
@ /venv/lib/python3.11/site-packages/torch/nn/modules/module.py

Failed to convert args/kwargs to proxy
| Missing `as_proxy()` implementation for some arg/kwarg.
> return x + id(object())

sort with non-constant keys
| Cannot perform sort whose key comparison is not a compile-time constant. Key type: <class 'torch.Tensor'>. Most
  notably, we cannot sort with Tensor or SymInt keys, but we can sort ints.
> ls = sorted(ls, key=lambda t: t.sum())

[output-type]
Invalid call to __build_class__
| Cannot trace class definition: the class body function is unsupported or the base class argument are not
  compile-time constants
> class K:

TypedDict with optional keys
| Dynamo does not support tracing TypedDict with optional keys
> t = T(a=3)

[parameter-in-forward]
Attempted to use `torch.nn.Parameter()` constructor with Dynamo
| Dynamo does not support this
> p = nn.Parameter(torch.zeros(4, 4))

Attempted to use `torch.nn.Parameter()` constructor with Dynamo
| Dynamo does not support this
> l = nn.Linear(4, 4)
@ /venv/lib/python3.11/site-packages/torch/nn/modules/linear.py

[print]
Failed to trace builtin operator
| Dynamo does not know how to trace builtin operator `print` with argument types ['str', 'Size'] (has_kwargs False)
> print("shape", x.shape)

Failed to trace builtin operator
| Dynamo does not know how to trace builtin operator `print` with argument types ['str', 'Size'] (has_kwargs False)
  torch.compile detected a graph break in a for/while loop. Skipping the frame and falling back to eager, as graph
  breaks in loops are not supported.
> print("shape", x.shape)

Unsupported method call
| Dynamo does not know how to trace method `write` of class `StringIO`
> pprint({"a": 1})
@ /usr/lib/python3.11/pprint.py

Failed to trace builtin operator
| Dynamo does not know how to trace builtin operator `print` with argument types ['str'] (has_kwargs False)
> print("in"); yield; print("out")

Unsupported method call
| Dynamo does not know how to trace method `write` of class `TextIOWrapper`
> sys.__stdout__.write("\n")

[random]
Attempted to call function marked as skipped
| Dynamo developers have intentionally marked that the function `Random.choice` in file
  `/usr/lib/python3.11/random.py` should not be traced.
> return x * random.choice([1, 2])

Attempted to call function marked as skipped
| Dynamo developers have intentionally marked that the function `Random.gauss` in file
  `/usr/lib/python3.11/random.py` should not be traced.
> return x * random.gauss(0, 1)

Failed to convert args/kwargs to proxy
| Missing `as_proxy()` implementation for some arg/kwarg.
> return x + torch.randn(4, 4, generator=g)

torch.Generator method
| torch.Generator.manual_seed() is a stateful RNG operation that cannot be soundly traced in the FX graph.
> g.manual_seed(3)

An opaque object was created in the middle of the program.
| Opaque objects cannot be created inside the torch.compile region. They must be created before entering the
  compiled function.
> g = torch.Generator().manual_seed(3)

Attempted to call function marked as skipped
| Dynamo developers have intentionally marked that the function `manual_seed` in file
  `/venv/lib/python3.11/site-packages/torch/_compile.py` should not be traced.
> torch.manual_seed(0)

torch.* op returned non-Tensor
| torch.* ops that return a non-Tensor cannot be traced into the Dynamo FX graph output
> s = torch.initial_seed()

Attempted to call function marked as skipped
| Dynamo developers have intentionally marked that the function `get_rng_state` in file
  `/venv/lib/python3.11/site-packages/torch/random.py` should not be traced.
> s = torch.get_rng_state()

torch.* op returned non-Tensor
| torch.* ops that return a non-Tensor cannot be traced into the Dynamo FX graph output
> with torch.random.fork_rng():
@ /venv/lib/python3.11/site-packages/torch/random.py

Data dependent operator
| Operator `aten._local_scalar_dense.default` has a non-Tensor output whose value is dependent on the data of Tensor
  inputs.
> return x * np.random.rand()

attempted to trace numpy function unsupported by PyTorch
| Can't find numpy numpy function <bound method RandomState.permutation of RandomState(MT19937) at 0x7f00> in
  torch._numpy.
> return x[np.random.permutation(4)]

Unsupported method call
| Dynamo does not know how to trace method `uniform` of class `Generator`
> return x * rng.uniform()

attempted to trace numpy function unsupported by PyTorch
| Can't find numpy numpy function <cyfunction default_rng at 0x7f00> in torch._numpy.
> rng = np.random.default_rng(0)

Unsupported method call
| Dynamo does not know how to trace method `rand` of class `RandomState`
> return x * rng.rand()

Tensor.random_ op
| This is currently not supported.
> return x.clone().random_(0, 3)

Tensor.uniform_ op called with `from` keyword
| This is currently not supported.
> return torch.empty(4).uniform_(from_=0, to=1) + x if False else torch.empty(4).uniform_(**

[requires-grad]
Unsupported Tensor.requires_grad_() call
| Dynamo does not support changes to a Tensor's `requires_grad` through calling `requires_grad_()`.
> x.requires_grad_(True)

setattr() on Tensor.requires_grad
| setattr() on Tensor.requires_grad not supported. Mutating requires_grad can introduce a new leaf from non-leaf or
  vice versa in the middle of the graph, which AOTAutograd does not currently know how to handle.
> y.requires_grad = True

requires_grad_() intermediate leaked as output
| An intermediate tensor with requires_grad_() called on it (or a tensor derived from it) is returned from the
  compiled region. Graph breaking here to preserve partial acceleration.
> y = (x * 2).detach().requires_grad_()

Attempted to use tensor creation function with requires_grad=True
| Dynamo does not support this.
> d = torch.zeros(4, 4, requires_grad=True)

Tensor.retain_grad() with AOTDispatcher
| `Tensor.retain_grad()` does not work with AOTDispatcher.
> y.retain_grad()

[rnn]
Attempted to wrap RNN, GRU, or LSTM
| Dynamo does not support RNN, GRU, or LSTM.
> y, _ = self.l(x * 2)

Attempted to call function marked as skipped
| Dynamo developers have intentionally marked that the function `pack_padded_sequence` in file
  `/venv/lib/python3.11/site-packages/torch/nn/utils/rnn.py` should not be traced.
> p = pack_padded_sequence(x * 2, n, batch_first=True, enforce_sorted=False)

[shape-error]
TypeError when making fake tensor call
> def f(x): return torch.cat(x, "a")

[skipped-function]
Failed to trace builtin operator
| Dynamo does not know how to trace builtin operator `open` with argument types ['str', 'str'] (has_kwargs False)
> with open(os.devnull, "w") as f: f.write(str(float(v)))

Attempted to call function marked as skipped
| Dynamo does not know how to trace the builtin `posix.stat.` This function is either a Python builtin (e.g.
  _warnings.warn) or a third-party C/C++ Python extension (perhaps created with pybind).
> if os.path.exists("/tmp"): x = x + 1
@ <frozen genericpath>

Failed to trace builtin operator
| Dynamo does not know how to trace builtin operator `open` with argument types ['str'] (has_kwargs False)
> fh = open(os.devnull)

Unsupported method call
| Dynamo does not know how to trace method `close` of class `TextIOWrapper`
> fh.close()

Unsupported method call
| Dynamo does not know how to trace method `__new__` of class `type`
> s = json.dumps({"a": 1})
@ /usr/lib/python3.11/json/encoder.py

Attempted to call function marked as skipped
| Dynamo developers have intentionally marked that the function `save` in file
  `/venv/lib/python3.11/site-packages/torch/serialization.py` should not be traced.
> torch.save(x, os.devnull)

Unsupported method call
| Dynamo does not know how to trace method `acquire` of class `lock`
> l.acquire(); y = x * 2; l.release()

Attempted to call function marked as skipped
| Dynamo does not know how to trace the builtin `gc.collect.` This function is either a Python builtin (e.g.
  _warnings.warn) or a third-party C/C++ Python extension (perhaps created with pybind).
> gc.collect()

torch.* op returned non-Tensor
| torch.* ops that return a non-Tensor cannot be traced into the Dynamo FX graph output
> m = torch.cuda.memory_allocated()

[sparse]
Attempted to wrap sparse Tensor
| torch.compile does not support sparse Tensors
> def f(a, x): return torch.sparse.mm(a, x) + 1

Attempted to call function marked as skipped
| Dynamo does not know how to trace the builtin `torch._VariableFunctionsClass.sparse_coo_tensor.` This function is
  either a Python builtin (e.g. _warnings.warn) or a third-party C/C++ Python extension (perhaps created with
  pybind).
> a = torch.sparse_coo_tensor(torch.tensor([[0, 1], [0, 1]]), torch.tensor([1., 2.]), (4, 4)

Attempted to wrap sparse Tensor with VariableTracker
| torch.compile does not support sparse Tensors with VariableTracker
> return torch.sparse.mm(x.to_sparse(), x)

[storage]
Failed to mutate tensor data attribute to different dtype
| Dynamo only supports mutating `.data` of tensor to a new one with the same dtype
> w.data = w.data.double()

Unsupported Tensor.resize_() call
| Dynamo currently does not support tracing `Tensor.resize_()`.
> y.resize_(2, 8)

Unsupported Tensor.share_memory_() call
| Dynamo does not support Tensor.share_memory_() which modifies tensor storage for IPC
> y = x.clone().share_memory_()

Data pointer comparison
| Dynamo can only trace data pointer comparisons when it can prove both operands have the same data pointer.
> if x.data_ptr() == 0: return x

Unsupported method call
| Dynamo does not know how to trace method `nbytes` of class `UntypedStorage`
> return x + s.nbytes()

Shape mismatch with out= tensor variant
| Shape mismatch when calling <built-in method add of type object at 0x7f00> with `out=`. Provided `out=` shape:
  torch.Size([2]). Actual shape: torch.Size([4, 4]).
> torch.add(x, 1, out=buf)

Attempted to call op with non-contiguous `out=` tensor
| Dynamo does not support this.
> torch.add(x, 1, out=buf)

Unsupported function call (delayed)
| Dynamo determined that a graph break should occur when calling `L['x'].t_`. Reason: Getting an inplace view on a
  graph input is not supported
> x.t_()

[time]
Attempted to call function marked as skipped
| Dynamo does not know how to trace the builtin `time.time.` This function is either a Python builtin (e.g.
  _warnings.warn) or a third-party C/C++ Python extension (perhaps created with pybind).
> t = time.time()

Attempted to call function marked as skipped
| Dynamo does not know how to trace the builtin `time.perf_counter.` This function is either a Python builtin (e.g.
  _warnings.warn) or a third-party C/C++ Python extension (perhaps created with pybind).
> t = time.perf_counter()

Attempted to call function marked as skipped
| Dynamo does not know how to trace the builtin `time.sleep.` This function is either a Python builtin (e.g.
  _warnings.warn) or a third-party C/C++ Python extension (perhaps created with pybind).
> time.sleep(0.0)

Unsupported method call
| Dynamo does not know how to trace method `now` of class `type`
> t = datetime.datetime.now()

[torchscript]
torch.jit.script/freeze modules unsupported
| Dynamo does not support tracing into torch.jit.script or torch.jit.freeze modules because they execute in the
  TorchScript runtime, not Python. Replace the ScriptModule submodule with the original eager nn.Module.
> def f(x): return s(x + 1) * 2

Attempted to inline function marked as skipped
| Dynamo developers have intentionally marked that the function `_CachedForward.__get__` should not be traced.
> def f(x): return s(x + 1) * 2
@ /venv/lib/python3.11/site-packages/torch/nn/modules/module.py

Attempted to call function marked as skipped
| Dynamo developers have intentionally marked that the function `script` in file
  `/venv/lib/python3.11/site-packages/torch/jit/_script.py` should not be traced.
> s = torch.jit.script(nn.ReLU())

[training-step]
Attempted to inline function marked as skipped
| Dynamo developers have intentionally marked that the function `Optimizer.zero_grad` should not be traced.
> o.zero_grad()

Unsupported Tensor.backward() call
| Dynamo currently does not support tracing `Tensor.backward()` when trace_autograd_ops is off.
> l.backward()

Call to `torch._dynamo.graph_break()`
| User-inserted graph break. Message: None
> o.step()
@ /venv/lib/python3.11/site-packages/torch/optim/optimizer.py

Attempted to call function marked as skipped
| Dynamo developers have intentionally marked that the function `Adam.step` in file
  `/venv/lib/python3.11/site-packages/torch/optim/lr_scheduler.py` should not be traced.
> o.step(); sch.step()

Attempted to inline function marked as skipped
| Dynamo developers have intentionally marked that the function `LRScheduler.step` should not be traced.
> o.step(); sch.step()

Attempted to inline function marked as skipped
| Dynamo developers have intentionally marked that the function `GradScaler.scale` should not be traced.
> sc.scale(l).backward()

Attempted to call function marked as skipped
| Dynamo developers have intentionally marked that the function `backward` in file
  `/venv/lib/python3.11/site-packages/torch/autograd/__init__.py` should not be traced.
> torch.autograd.backward(l)
"""


def rows_in(text: str) -> Iterator[Row]:
    """Records are apart by an empty line; a line that begins with two spaces goes on with the one before."""
    slug = ""
    for block in re.sub(r"\n  +", " ", text).strip().split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("["):
            slug = lines.pop(0)[1:-1]
        parts = {line[0]: line[2:] for line in lines[1:]}
        yield Row(slug, lines[0], parts.get("|", ""), parts.get(">", ""), parts.get("@", ""))


TABLE = tuple(rows_in(TEXTS))


@pytest.mark.parametrize("row", TABLE, ids=lambda r: f"{r.slug}: {r.line[:40] or r.reason[:40]}")
def test_the_kind_of_a_break(row: Row) -> None:
    assert slug_of(f"{row.reason}\n{row.explanation}", row.line, row.library) == f"graph-break-{row.slug}"


@pytest.mark.parametrize("row", TABLE, ids=lambda r: f"{r.slug}: {r.line[:40] or r.reason[:40]}")
def test_what_torch_adds_when_it_gives_up_does_not_change_the_kind(row: Row) -> None:
    """The preamble may stand before the reason or in its place, and the cause of it after the explanation."""
    why = "Attempted to graph break in an active context manager(s) that doesn't support graph breaking."
    text = f"{GIVEN_UP}\n{row.reason}\n{row.explanation} {why}"
    assert slug_of(text, row.line, row.library) == f"graph-break-{row.slug}"


def test_the_table_has_several_of_most_kinds() -> None:
    assert len(TABLE) >= 100
    assert {f"graph-break-{row.slug}" for row in TABLE} >= set(SLUGS) - {"graph-break-tensor-subclass"}


@pytest.mark.parametrize(
    ("reason", "slug"),
    [
        ("builtin: print [<class 'torch._dynamo.variables.constant.ConstantVariable'>] False", "print"),
        (
            "inline in skipfiles: Optimizer.zero_grad | inner /venv/lib/python3.11/site-packages/torch/_compile.py, "
            "skipped according trace_rules.lookup SKIP_DIRS",
            "training-step",
        ),
        ("Tensor.item", "item"),
        ("Tensor.backward", "training-step"),
        ("generic_jump TensorVariable()", "branch"),
        ("dynamic shape operator: aten.nonzero.default", "dynamic-shape"),
        ("Dynamic control flow is not supported at the moment. Please use functorch.experimental.cond", "branch"),
        ("call_function args: UserDefinedObjectVariable(Thing)", "other"),
    ],
)
def test_texts_of_older_torch(reason: str, slug: str) -> None:
    assert slug_of(reason) == f"graph-break-{slug}"


@pytest.mark.parametrize("slug", ["graph-break-backward-hook", "graph-break-rnn", "graph-break-training-step"])
def test_where_the_reason_is_lost_the_hints_tell(slug: str) -> None:
    hints = {
        "graph-break-backward-hook": "Module-level backwards hooks require compiled autograd.",
        "graph-break-rnn": "Set torch._dynamo.config.allow_rnn=True to enable support for RNN, GRU, and LSTM in Dynamo",
        "graph-break-training-step": "Avoid calling the function `Optimizer.zero_grad`.",
    }
    said = (hints[slug], "Please file an issue to PyTorch.")
    assert kind_of(GraphBreak(f"{GIVEN_UP} Graph break encountered:", "", said, (), None)) == slug


@pytest.mark.parametrize(
    "hint",
    [
        "If you are attempting to call a logging function (e.g. `print`), you can try adding it to "
        "`torch._dynamo.config.reorderable_logging_functions`.",
        "Please report an issue to PyTorch.",
        "It may be possible to write Dynamo tracing rules for this code.",
    ],
)
def test_hints_that_torch_gives_for_everything_tell_nothing(hint: str) -> None:
    assert kind_of(GraphBreak("something new", "", (hint,), (), None)) == OTHER


@pytest.mark.parametrize("name", ["sparse", "numpy_tools", "distributed", "logging", "exception", "generators", "copy"])
def test_the_users_own_names_and_paths_are_no_sign(name: str) -> None:
    text = (
        "Attempted to call function marked as skipped\nDynamo developers have intentionally marked that the function "
        f"`read` in file `/home/me/{name}/{name}.py` should not be traced."
    )
    assert slug_of(text, f"x = {name}_model.read(x)") == "graph-break-skipped-function"


def test_a_file_that_torch_names_counts_as_a_frame() -> None:
    text = f"Attempted to call function marked as skipped\nthe function `Adam.step` in file `{TORCH}/optim/x.py` is"
    assert slug_of(text) == "graph-break-training-step"
    assert "optim" not in plain(text)


@pytest.mark.parametrize("slug", SLUGS)
def test_every_kind_has_a_page(slug: str) -> None:
    page = page_of(slug)
    assert page is not None and slug == page.SLUG
    assert 15 <= len((page.__doc__ or "").splitlines()) <= 50


# -------------------------------------------------------------------------------------------------------------------
# Groups and findings
# -------------------------------------------------------------------------------------------------------------------

SOURCE = """import torch
def forward(self, x):
    peak = x.abs().max().item()
    print(x.shape)
    return x / peak
class Scale(torch.autograd.Function):
    @staticmethod
    def backward(ctx, g):
        limit = ctx.s.item() * 127
        return g * limit
for x in loader:
    loss = net(x)
    loss.backward()
    optimizer.step(); optimizer.zero_grad()
    net.register_full_backward_hook(watch)
"""
ITEM = ("Unsupported Tensor.item() call with capture_scalar_outputs=False", "Dynamo does not support `Tensor.item()`")
PRINT = ("Failed to trace builtin operator", "Dynamo does not know how to trace builtin operator `print`")
HOOK = ("Module-level backwards hooks require compiled autograd.", "")
BACKWARD = ("Unsupported Tensor.backward() call", "")
DISABLED = ("Call to `torch._dynamo.graph_break()`", "User-inserted graph break. Message: None")
IN_LOOP = " torch.compile detected a graph break in a for/while loop. Skipping the frame and falling back to eager."


def broken(
    what: tuple[str, str],
    line: int,
    compile_id: str | None = "0/0",
    outside_ns: int | None = None,
    below: tuple[str, ...] = (),
    outer: int = 12,
    hints: tuple[str, ...] = (),
) -> GraphBreak:
    stack = (Place(SCRIPT, outer, "<module>"), Place(SCRIPT, line, "forward"), *(Place(f, 1, "f") for f in below))
    return GraphBreak(*what, hints, stack, compile_id, outside_ns)


def log_of(*found: GraphBreak, captured: tuple[str, ...] = ("0/0",), graphs: int = 2) -> CompileLog:
    made = tuple(CapturedGraph(Place(SCRIPT, 2, "forward"), 3, i) for i in captured)
    return CompileLog(graphs, 6, found, (), 2, False, {}, captured=made)


def evidence_of(log: CompileLog, *sighted: Sighted, step_ms: float = 10.0) -> Evidence:
    ledger = fold([*sighted, Observed(at_s=1.0, steps=8, log=log)])
    baseline = Baseline(Mean(step_ms, None, None), 20, None, None)
    return Evidence(meta(), ledger, baseline, (), Sources({SCRIPT: SOURCE}))


def found_in(evidence: Evidence, slug: str) -> list[Finding]:
    page = page_of(slug)
    assert page is not None
    return list(page.find(evidence))


def test_the_same_cause_in_several_frames_is_one_finding_with_a_count() -> None:
    log = log_of(broken(ITEM, 3, "0/0"), broken(ITEM, 3, "1/0"), broken(ITEM, 3, "1/1"), broken(PRINT, 4))
    (item,) = found_in(evidence_of(log), "graph-break-item")
    assert item.count == 3 and item.where == Place(SCRIPT, 3, "forward")
    assert [g.slug for g in groups(evidence_of(log))] == ["graph-break-item", "graph-break-print"]


def test_a_line_that_several_others_lead_to_is_one_finding() -> None:
    loop = (ITEM[0], ITEM[1] + IN_LOOP)
    log = log_of(broken(ITEM, 3, "0/0", 10**6), broken(loop, 3, "1/0", 10**6, outer=13), captured=("0/0", "1/0"))
    (item,) = found_in(evidence_of(log), "graph-break-item")
    assert item.count == 2 and item.cost_ms == 2.0 and "stays in eager" not in item.why


def test_a_break_that_torch_lists_again_as_it_gives_up_counts_once() -> None:
    log = log_of(broken(ITEM, 3), broken((f"{GIVEN_UP} Graph break encountered:", ITEM[1]), 3))
    (item,) = found_in(evidence_of(log), "graph-break-item")
    assert item.count == 1 and "stays in eager" in item.why


def test_breaks_on_one_line_for_different_reasons_are_different_findings() -> None:
    assert len(groups(evidence_of(log_of(broken(ITEM, 3), broken(PRINT, 3))))) == 2


def test_the_cost_is_the_time_outside_after_the_graphs_that_the_breaks_ended() -> None:
    log = log_of(
        broken(ITEM, 3, "0/0", 2_000_000), broken(ITEM, 3, "1/0", 1_000_000), broken(PRINT, 4, "0/1", 500_000),
        captured=("0/0", "1/0", "0/1"),
    )  # fmt: skip
    costs = {g.slug: g.cost_ms for g in groups(evidence_of(log))}
    assert costs == {"graph-break-item": 3.0, "graph-break-print": 0.5}


def test_time_outside_any_graph_is_shared_among_the_breaks_without_one() -> None:
    log = log_of(broken(ITEM, 3, "7/0", 4_000_000), broken(PRINT, 4, "8/0", 4_000_000))
    assert [g.cost_ms for g in groups(evidence_of(log))] == [2.0, 2.0]


def test_a_cost_that_was_not_measured_is_none() -> None:
    (item,) = found_in(evidence_of(log_of(broken(ITEM, 3))), "graph-break-item")
    assert item.cost_ms is None and item.severity == "warning"


def test_a_break_that_costs_next_to_nothing_is_a_note() -> None:
    log = log_of(broken(ITEM, 3, outside_ns=40_000))
    (item,) = found_in(evidence_of(log, step_ms=10.0), "graph-break-item")
    assert item.severity == "info"
    (item,) = found_in(evidence_of(log, step_ms=1.0), "graph-break-item")
    assert item.severity == "warning" and "(4.0%)" in item.why


@pytest.mark.parametrize(
    "text", [f"{ITEM[1]}{IN_LOOP}", f"{ITEM[1]} Attempted to graph break in an active context manager(s)"]
)
def test_a_function_that_was_given_up_is_more_than_a_note(text: str) -> None:
    (item,) = found_in(evidence_of(log_of(broken((ITEM[0], text), 3, outside_ns=40_000))), "graph-break-item")
    assert item.severity == "warning" and "stays in eager" in item.why
    assert "detected a graph break in a for" not in item.why


def test_where_nothing_was_captured_the_break_is_an_error() -> None:
    (item,) = found_in(evidence_of(log_of(broken(ITEM, 3), captured=(), graphs=0)), "graph-break-item")
    assert item.severity == "error" and "Nothing at all is compiled" in item.why


def test_the_place_is_the_users_innermost_line_and_the_library_is_named() -> None:
    below = (f"{TORCH}/nn/modules/module.py", f"{TORCH}/_dynamo/polyfills/__init__.py")
    (item,) = found_in(evidence_of(log_of(broken(ITEM, 3, below=below))), "graph-break-item")
    assert item.where == Place(SCRIPT, 3, "forward")
    assert f"{TORCH}/nn/modules/module.py:1, called from this line" in item.why
    assert item.fix is None and item.label == "user_code"


def test_a_break_inside_a_package_is_the_packages() -> None:
    below = ("/venv/lib/python3.11/site-packages/models/net.py",)
    (item,) = found_in(evidence_of(log_of(broken(ITEM, 3, below=below))), "graph-break-item")
    assert item.label == "library" and item.where is not None and item.where.file == SCRIPT


def test_a_print_on_a_line_of_its_own_is_kept_for_eager_runs() -> None:
    (found,) = found_in(evidence_of(log_of(broken(PRINT, 4))), "graph-break-print")
    assert found.fix == "if not torch.compiler.is_compiling(): print(x.shape)"


def test_within_a_custom_function_it_is_the_function_that_cannot_be_traced() -> None:
    (found,) = found_in(evidence_of(log_of(broken(ITEM, 9))), "graph-break-autograd-function")
    assert found.where == Place(SCRIPT, 9, "forward") and found.fix == "limit = ctx.s * 127"
    assert found_in(evidence_of(log_of(broken(ITEM, 9))), "graph-break-item") == []


def test_what_was_asked_for_is_a_note_unless_nothing_is_compiled() -> None:
    (found,) = found_in(evidence_of(log_of(broken(DISABLED, 3))), "graph-break-disabled")
    assert (found.label, found.severity) == ("benign", "info")
    (found,) = found_in(evidence_of(log_of(broken(DISABLED, 3), captured=(), graphs=0)), "graph-break-disabled")
    assert (found.label, found.severity) == ("user_code", "warning")


def test_the_backward_line_is_a_warning_and_the_optimizers_own_breaks_are_notes() -> None:
    own = broken(DISABLED, 14, "2/0", below=(f"{TORCH}/optim/optimizer.py",))
    log = log_of(broken(BACKWARD, 13), own)
    backward, optimizer = found_in(evidence_of(log), "graph-break-training-step")
    assert (backward.severity, backward.label) == ("warning", "user_code")
    assert backward.where is not None and backward.where.line == 13 and "not the whole step" in backward.hints[0]
    assert (optimizer.severity, optimizer.label) == ("info", "benign")


@pytest.mark.parametrize(("graphs", "expected"), [(3, ("info", "benign")), (0, ("error", "user_code"))])
def test_a_wrapper_breaks_by_design_but_not_where_nothing_is_compiled(graphs: int, expected: tuple[str, str]) -> None:
    what = ("Unsupported method call", "Dynamo does not know how to trace method `f` of class `Logger`")
    below = (f"{TORCH}/nn/parallel/distributed.py", "/usr/lib/python3.11/contextlib.py")
    log = log_of(broken(what, 12, below=below), graphs=graphs)
    (found,) = found_in(evidence_of(log), "graph-break-distributed")
    assert (found.severity, found.label) == expected and found.where == Place(SCRIPT, 12, "forward")


def test_a_collective_of_the_users_own_is_no_note() -> None:
    what = ("async_op=True for distributed collectives", "`torch.compile` doesn't support `async_op=True")
    (found,) = found_in(evidence_of(log_of(broken(what, 12))), "graph-break-distributed")
    assert (found.severity, found.label) == ("warning", "user_code") and "collective" in found.why


def hook(line: int, kind: str = "register_full_backward_hook", module: str = "Linear", count: int = 1) -> Sighted:
    return Sighted(0.5, "hook", Place(SCRIPT, line, "<module>"), count, detail={"kind": kind, "module": module})


def test_a_backward_hook_is_shown_where_it_was_registered() -> None:
    log = log_of(broken(HOOK, 12, below=(f"{TORCH}/nn/modules/module.py",), outside_ns=10**6), captured=(), graphs=0)
    seen = (hook(15, count=3), hook(1, "register_forward_hook"), hook(15, module="ReLU"))
    (found,) = found_in(evidence_of(log, *seen), "graph-break-backward-hook")
    assert found.where == Place(SCRIPT, 15, "<module>") and found.count == 4 and found.severity == "error"
    assert found.why.startswith("A backward hook on Linear, ReLU is registered here.") and found.cost_ms == 1.0


def test_each_line_that_registers_a_backward_hook_is_a_finding() -> None:
    seen = (hook(15), hook(2, "register_full_backward_pre_hook"), hook(4, "register_backward_hook"))
    found = found_in(evidence_of(log_of(broken(HOOK, 12)), *seen), "graph-break-backward-hook")
    assert sorted(f.where.line for f in found if f.where is not None) == [2, 4, 15]


def test_without_a_sighting_a_backward_hook_is_shown_where_the_module_is_called() -> None:
    (found,) = found_in(evidence_of(log_of(broken(HOOK, 12))), "graph-break-backward-hook")
    assert found.where is not None and found.where.line == 12


def test_hooks_without_a_break_are_no_finding() -> None:
    assert found_in(evidence_of(log_of(), hook(15)), "graph-break-backward-hook") == []


def test_a_rare_kind_is_told_in_torchs_words_without_the_useless_ones() -> None:
    hints = ("Ensure that the key is constant.", "Please report an issue to PyTorch.")
    log = log_of(broken(("sort with non-constant keys", "Cannot sort."), 3, hints=hints))
    (found,) = found_in(evidence_of(log), OTHER)
    assert hints[0] in found.hints and hints[1] not in found.hints and "torch says: Cannot sort." in found.why
    ours = replace(log.breaks[0], hints=("This is likely to be a Dynamo bug.",))
    (found,) = found_in(evidence_of(replace(log, breaks=(ours,))), OTHER)
    assert found.label == "compiler"


def test_a_fix_needs_a_call_that_stands_alone_and_torch_by_its_name() -> None:
    evidence = evidence_of(log_of(broken(PRINT, 4)))
    fix, (group,) = breaks.unless_compiling(evidence, "print"), groups(evidence)
    assert fix(group, "print(f(x), y.shape)") is not None
    assert fix(group, "if debug: print(x)") is None and fix(group, "print(x); y = 1") is None
    assert breaks.unless_compiling(replace(evidence, sources=Sources()), "print")(group, "print(x)") is None


# -------------------------------------------------------------------------------------------------------------------
# Torch itself
# -------------------------------------------------------------------------------------------------------------------

# A line with a break ends in its kind.
LIVE = """
import copy, logging, random, threading, time, warnings
import numpy as np
import torch
from torch import nn

log, lock = logging.getLogger("mine"), threading.Lock()
linear = nn.Linear(4, 4)
optimizer = torch.optim.SGD(linear.parameters(), 0.1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.lstm = nn.Linear(4, 4), nn.LSTM(4, 4)

    def forward(self, x):
        return self.lstm(self.linear(x))[0] + 1  # graph-break-rnn


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.linear.register_full_backward_hook(lambda *a: None)

    def forward(self, x):
        return self.linear(x) * 2  # graph-break-backward-hook


class Quantised(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w):
        return w.round()

    @staticmethod
    def backward(ctx, g):
        limit = g.max().item()  # graph-break-autograd-function
        return g / limit


@torch.compiler.disable
def left_alone(x):
    return x + 1


def reads(x):
    return x / x.max().item()  # graph-break-item


def loops(x):
    for _ in range(3):
        x = x + 1
        if x.sum() > 100:  # graph-break-branch
            break
    return x


def shouts(x):
    x = x + 1
    print(x.shape)  # graph-break-print
    return x * 2


def logs(x):
    x = x + 1
    log.info("hello")  # graph-break-logging
    return x * 2


def copies(x):
    y = copy.deepcopy(x)  # graph-break-deepcopy
    return y + 1


def calls(x):
    return left_alone(x + 1) * 2  # graph-break-disabled


def times(x):
    begin = time.time()  # graph-break-time
    return x * 2


def draws(x):
    return x * random.choice([1, 2])  # graph-break-random


def clips(x):
    hi = np.unwrap(x.numpy())  # graph-break-numpy
    return x + torch.from_numpy(hi)


def selects(x):
    y = x + 1
    return y[y > 0].sum()  # graph-break-dynamic-shape


def freezes(x):
    x.requires_grad_(True)  # graph-break-requires-grad
    return x * 2


def turns(x):
    x = x + 0
    y = x.resize_(2, 8)  # graph-break-storage
    return y + 1


def locks(x):
    with lock:  # graph-break-context-manager
        return x + 1


def quantises(x):
    return Quantised.apply(x) * 2


def steps(x):
    loss = linear(x).sum()
    loss.backward()  # graph-break-training-step
    optimizer.step()  # graph-break-training-step
    return loss


def multiplies(a):
    return a @ torch.ones(4, 4)  # graph-break-sparse


def sorts(x):
    return sorted([x, x + 1], key=lambda t: t.sum())[0]  # graph-break-other
"""

RUN = """
import contextlib, io, logging, sys, warnings
warnings.simplefilter("ignore")
import torch
from speedproof import codec
from speedproof.worker.compile_log import CompileRecorder
import train

logging.getLogger("torch._dynamo").setLevel(logging.CRITICAL)
plain = lambda: torch.ones(4, 4)
calls = [
    (train.Net(), lambda: torch.ones(2, 3, 4)), (train.Hooked(), plain), (train.reads, plain), (train.loops, plain),
    (train.shouts, plain), (train.logs, plain), (train.copies, plain), (train.calls, plain), (train.times, plain),
    (train.draws, plain), (train.clips, plain), (train.selects, plain), (train.freezes, plain), (train.turns, plain),
    (train.locks, plain), (train.quantises, lambda: torch.ones(4, 4, requires_grad=True)), (train.steps, plain),
    (train.multiplies, lambda: torch.eye(4).to_sparse()), (train.sorts, plain),
]
recorder = CompileRecorder()
recorder.start()
for function, argument in calls:
    with contextlib.redirect_stdout(io.StringIO()):
        torch.compile(function, backend=lambda graph, inputs: graph.forward)(argument())
recorder.pause()
print(codec.dumps(recorder.log()))
"""


def torch_is_new() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    major, minor = metadata.version("torch").split(".")[:2]
    return (int(major), int(minor)) >= (2, 14)


def marks(text: str) -> Iterator[tuple[str, int]]:
    for number, line in enumerate(text.splitlines(), 1):
        for slug in re.findall(r"# (graph-break-[\w-]+)$", line):
            yield slug, number


@pytest.mark.slow
@pytest.mark.skipif(not torch_is_new(), reason="the kinds are those of torch 2.14 or newer")
def test_breaks_of_real_torch_are_found_at_their_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LIVE)
    path = f"import sys; sys.path[:0] = [{str(Path(speedproof.__file__).parents[1])!r}, {str(tmp_path)!r}]\n"
    program = path + textwrap.dedent(RUN)
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=180)
    assert answer.returncode == 0, answer.stderr
    log = codec.loads(CompileLog, answer.stdout)
    assert log.graphs > 5
    ledger = fold([Observed(at_s=1.0, steps=1, log=log)])
    evidence = Evidence(meta(), ledger, Baseline(None, 0, None, None), (), Sources({str(script): LIVE}))
    found = {
        (f.slug, f.where.line)
        for slug in SLUGS
        for f in found_in(evidence, slug)
        if f.where is not None and f.where.file == str(script)
    }
    assert found == set(marks(LIVE))

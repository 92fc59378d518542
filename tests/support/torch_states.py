"""Program: which states of torch, read by a public function or a setting of ``torch.backends``, a replay reads stale.

It lists the public functions of torch that need no argument and return a plain value, by looking at torch itself: those
of the next version as well. It writes two lists as JSON: getters that nothing compares, and pairs of a getter and a
change of state after which a replay returns another value than a call without a graph.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint

import cudalens
from cudalens.graphs import GraphManager
from cudalens.graphs.guards.outside import CallWatch
from cudalens.graphs.guards.torch_getters import _COMPARED, _OF_RECORDING

MODULES = """
torch torch.accelerator torch.amp torch.autograd torch.autograd.forward_ad torch.autograd.graph
torch.autograd.profiler torch.backends torch.backends.cpu torch.backends.cuda torch.backends.cudnn
torch.backends.kleidiai torch.backends.mha torch.backends.mkl torch.backends.mkldnn torch.backends.mps
torch.backends.nnpack torch.backends.openmp torch.backends.opt_einsum torch.backends.quantized torch.compiler
torch.cpu torch.cuda torch.cuda.amp torch.cuda.memory torch.cuda.nccl torch.cuda.random torch.cuda.tunable
torch.distributed torch.distributed.autograd torch.distributed.rpc torch.fx torch.fx.traceback torch.hub
torch.jit torch.library torch.multiprocessing torch.nn.attention torch.nn.init torch.nn.parallel
torch.nn.utils.parametrize torch.onnx torch.overrides torch.profiler torch.random torch.serialization
torch.sparse torch.storage torch.utils torch.utils.data torch.utils.deterministic torch.__config__
torch.__future__ torch._dynamo
""".split()  # noqa: SIM905

#: Functions that do something, or read nothing that a program changes: what they return depends on the arguments alone,
#: on the build of torch, on the machine, or is made anew in each call (`pool_handle`).
NOT_GETTERS = re.compile(
    r"(set|enable|disable|reset|empty|manual_seed|synchronize|clear|use|start|stop|enter|exit|restore|record|save"
    r"|verify|generate|skip|step|remove|cudagraph_mark|format)_\w+|seed(_all)?|reset|synchronize|shutdown|fork|barrier"
    r"|destroy_process_group|breakpoint|init|init_\w+|get_rng_state_all|is_vulkan_available|ipc_collect|graph_break|step_unsupported|range_pop|caching_allocator_enable"
    r"|autocast_(in|de)crement_nesting|atleast_\dd|broadcast_(shapes|tensors)|sym_sum|thread_safe_generator"
    r"|kineto_available|compiled_with_cxx11_abi|profiler_allow_cudagraph_cupti_lazy_reinit_cuda12"
    r"|graph_pool_handle|amp_definitely_not_available|version|show|parallel_info|last_executed_optimized_graph"
    r"|monitored_barrier|main|dims|default_decompositions|get_cpp_backtrace|get_testing_overrides"
    r"|get_overridable_functions|supports_\w+|thread_safe_\w+|wait_\w+"
)

PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)


def find_getters() -> dict[str, Callable[[], Any]]:
    """Functions of torch that return a plain value without arguments, and plain settings of its backends, by name."""
    found: dict[str, Callable[[], Any]] = {}
    known: set[int] = set()
    for module in (importlib.import_module(name) for name in MODULES if _exists(name)):
        for name in sorted(set(dir(module)) | set(dir(type(module)))):
            if name.startswith("_") or NOT_GETTERS.fullmatch(name) is not None:
                continue
            try:
                value = getattr(module, name)
            except Exception:
                continue
            label = f"{module.__name__}.{name}"
            if callable(value) and id(value) not in known and _is_plain_getter(value):
                known.add(id(value))
                found[label] = value
            elif isinstance(value, PLAIN) and module.__name__.startswith("torch.backends"):
                found[label] = _attribute(module, name)
    return found


def _exists(name: str) -> bool:
    try:
        return importlib.import_module(name) is not None
    except ImportError:
        return False


def _attribute(module: Any, name: str) -> Callable[[], Any]:
    return eval(f"lambda: module.{name}", {"module": module})


def _is_plain_getter(function: Any) -> bool:
    if isinstance(function, type) or not str(getattr(function, "__module__", "") or "torch").startswith("torch"):
        return False
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function in C
        parameters = []
    if any(one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters):
        return False
    try:
        value = function()
    except BaseException:
        return False
    return isinstance(value, (*PLAIN, tuple, list, dict, set)) or hasattr(type(value), "__members__")


def find_uncovered(getters: dict[str, Callable[[], Any]]) -> list[str]:
    """The getters that nothing compares before a replay, and that do not refuse one."""
    found = []
    for name, get in getters.items():
        with CallWatch() as watch:
            get()
        is_compared = name.rpartition(".")[2] in _COMPARED | _OF_RECORDING
        if not (watch.values or watch.findings or is_compared or _is_constant(name, get)):
            found.append(name)
    return found


def _is_constant(name: str, get: Callable[[], Any]) -> bool:
    """Whether a getter keeps its first answer, asks for the build, or reads an attribute, which guards find by name."""
    if name == "torch.backends.mkldnn.is_available":
        return True
    return hasattr(get, "cache_info") or (get.__name__ == "<lambda>" and "backends" in name)


def changes() -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """Changes of states, each with what takes it back, by name."""
    hub, serialization, future = torch.hub, torch.serialization, torch.__future__
    switches: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
        "warn always": (torch.set_warn_always, True, False),
        "default dtype": (torch.set_default_dtype, torch.float64, torch.float32),
        "default device": (torch.set_default_device, "cuda", None),
        "threads": (torch.set_num_threads, torch.get_num_threads() + 1, torch.get_num_threads()),
        "deterministic": (torch.use_deterministic_algorithms, True, False),
        "matmul precision": (torch.set_float32_matmul_precision, "medium", "highest"),
        "waits": (torch.cuda.set_sync_debug_mode, 1, 0),
        "fraction": (torch.cuda.set_per_process_memory_fraction, 0.5, 1.0),
        "linalg": (torch.backends.cuda.preferred_linalg_library, "magma", "default"),
        "blas": (torch.backends.cuda.preferred_blas_library, "cublaslt", "default"),
        "reduced attention": (torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp, True, False),
        "flash attention": (torch.backends.cuda.enable_flash_sdp, False, True),
        "efficient attention": (torch.backends.cuda.enable_mem_efficient_sdp, False, True),
        "plain attention": (torch.backends.cuda.enable_math_sdp, False, True),
        "fast path": (torch.backends.mha.set_fastpath_enabled, False, True),
        "fusion": (torch.jit.enable_onednn_fusion, True, False),
        "hub": (hub.set_dir, "/nowhere", hub.get_dir()),
        "checksums": (serialization.set_crc32_options, False, True),
        "maps": (serialization.set_default_mmap_options, 1, serialization.get_default_mmap_options()),
        "order of bytes": (serialization.set_default_load_endianness, serialization.LoadEndianness.LITTLE, None),
        "overwriting": (future.set_overwrite_module_params_on_conversion, True, False),
        "swapping": (future.set_swap_module_params_on_conversion, True, False),
        "autocast of XLA": (lambda is_on: torch.set_autocast_enabled("xla", is_on), True, False),
        "dtype of autocast": (lambda kind: torch.set_autocast_dtype("cpu", kind), torch.float16, torch.bfloat16),
        "threads of autograd": (torch._C._set_multithreading_enabled, False, True),
        "views": (torch._C._set_view_replay_enabled, True, False),
        "text of tensors": (lambda digits: torch.set_printoptions(precision=digits), 7, 4),
        "seed": (torch.manual_seed, 77, 78),
        "level of debugging": (
            torch.distributed.set_debug_level,
            torch.distributed.DebugLevel.INFO,
            torch.distributed.get_debug_level(),
        ),
        "job": (_join_job, True, False),
        "the grad mode": (torch.set_grad_enabled, False, True),
        "mkldnn": (lambda is_on: setattr(torch.backends.mkldnn, "enabled", is_on), False, True),
        "determinism of mkldnn": (lambda is_on: setattr(torch.backends.mkldnn, "deterministic", is_on), True, False),
        "precision": (lambda kind: setattr(torch.backends, "fp32_precision", kind), "tf32", "none"),
        "cudnn": (lambda is_on: setattr(torch.backends.cudnn, "enabled", is_on), False, True),
        "benchmarks of cudnn": (lambda is_on: setattr(torch.backends.cudnn, "benchmark", is_on), True, False),
        "plans": (lambda size: setattr(torch.backends.cuda.cufft_plan_cache, "max_size", size), 5, 4096),
        "checks of sparse tensors": (torch._C._set_check_sparse_tensor_invariants, True, False),
    }
    for name, (switch, there, back) in switches.items():
        yield name, lambda switch=switch, there=there: switch(there), lambda switch=switch, back=back: switch(back)


def _join_job(is_member: bool) -> None:
    if is_member:
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    else:
        torch.distributed.destroy_process_group()


def answer(get: Callable[[], Any]) -> str:
    """What a getter returns now, or the error, as text."""
    try:
        return repr(get())
    except Exception as error:
        return type(error).__name__


def find_stale(getters: dict[str, Callable[[], Any]]) -> tuple[int, list[str]]:
    """How many pairs of a getter and a change there are where the value changes, and those that a replay gets wrong."""
    x, num_pairs, found = torch.ones(4, device="cuda"), 0, []
    for name, change, undo in changes():
        before = {label: answer(get) for label, get in getters.items()}
        change()
        after = {label: answer(get) for label, get in getters.items()}
        undo()
        again = {label: answer(get) for label, get in getters.items()}
        for label in (label for label in getters if before[label] == again[label] != after[label]):
            num_pairs += 1
            manager, get = GraphManager(), getters[label]
            step = manager.wrap(lambda x, get=get: (x * 2, repr(get())))
            for _ in range(4):
                step(x)
            change()
            try:
                is_same = answer(lambda step=step: step(x)[1]) in (repr(after[label]), after[label])
            finally:
                undo()
            if not is_same:
                found.append(f"{label} after a change of {name}")
    return num_pairs, found


def main() -> None:
    """Write the lists."""
    warnings.simplefilter("ignore")
    with cudalens.virtual.device("h100"):
        getters = find_getters()
        uncovered = find_uncovered(getters)
        getters["repr of a tensor"] = lambda: repr(torch.tensor(1 / 3))
        getters["an invariant of sparse tensors"] = torch.sparse.check_sparse_tensor_invariants.is_enabled
        getters["torch.cuda.get_per_process_memory_fraction(0)"] = lambda: torch.cuda.get_per_process_memory_fraction(0)
        num_pairs, stale = find_stale(getters)
    json.dump({"getters": len(getters), "pairs": num_pairs, "uncovered": uncovered, "stale": stale}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

"""`Session`: what torch.compile uses of one virtual device, from its first compilation to the end of the device."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

from cudalens.virtual.compiled import fake_tensors, graph_trees, probe
from cudalens.virtual.compiled.callbacks import DeviceCallback, innermost, make_backend
from cudalens.virtual.compiled.driver import install_driver
from cudalens.virtual.compiled.kernels import DeviceKernel, adapt_module
from cudalens.virtual.compiled.tracing import (
    ProgramModes,
    current_stack,
    hidden_work,
    is_tracing,
    program_running,
    set_stack,
    tracing,
)
from cudalens.virtual.dispatch.cuda_attention import attend
from cudalens.virtual.dispatch.dispatch_utils import register_kernels
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches, when_imported
from cudalens.virtual.tensors.device_arguments import FunctionMode
from cudalens.virtual.torch_cuda.stacks import warn_user

#: Inductor's options while it generates code for the virtual device: no measurements, no processes, no caches of files.
_INDUCTOR: Final = {
    "autotune_local_cache": False,
    "autotune_remote_cache": False,
    "bundle_triton_into_fx_graph_cache": False,
    "compile_threads": 1,
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
    "max_autotune": False,
    "max_autotune_gemm": False,
    "max_autotune_pointwise": False,
    "coordinate_descent_tuning": False,
    "benchmark_fusion": False,
    "benchmark_epilogue_fusion": False,
    "shape_padding": False,
    "triton.autotune_at_compile_time": False,
    "triton.cooperative_reductions": False,
}
_IGNORED: Final = (
    "torch.compile on a virtual CUDA device ignores {names}: it cannot measure kernels, and without values it makes no "
    "CUDA graphs. The function is compiled as with mode='default' in this respect."
)
_AOT: Final = {"enable_autograd_cache": False}

_ENVIRONMENT: Final = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


class Session:
    """Compiles functions for one virtual device.

    Args:
        patches: Undone at the end of the device.
        gpus: The virtual GPUs.
    """

    def __init__(self, patches: Patches, gpus: Gpus) -> None:
        self._patches, self.gpus = patches, gpus
        self._callbacks: dict[Any, DeviceCallback] = {}
        self._backends: list[tuple[Any, Callable[..., Any]]] = []
        self._lock = threading.RLock()
        self._is_prepared = False
        self._folder: Path | None = None
        self._programs: list[ProgramModes] = []

    def watch(self, eval_frame: ModuleType) -> None:
        """Use the virtual device for functions that are called while it is active."""
        module: Any = eval_frame
        choose = module._callback_from_stance

        def callback_from_stance(callback: Any) -> Any:
            chosen = choose(callback)
            if chosen is None or chosen is False or self.gpus.is_closed:
                return chosen
            return self.callback_of(chosen)

        self._patches.set(module, "_callback_from_stance", callback_from_stance)

    def callback_of(self, callback: Any) -> Any:
        """The callback that compiles for this device what `callback` compiles for another."""
        if isinstance(callback, DeviceCallback):
            return callback
        known = self._callbacks.get(callback)
        if known is None:
            known = self._callbacks[callback] = DeviceCallback(self, callback)
        return known

    def backend_of(self, backend: Any) -> Callable[..., Any]:
        """This device's backend for a backend of torch.compile; the same for equal options."""
        for known, made in self._backends:
            if known == innermost(backend):
                return made
        made = make_backend(backend)
        self._backends.append((innermost(backend), made))
        return made

    def prepare(self) -> None:
        """Patch torch and Triton, before the first compilation.

        Raises:
            VirtualDeviceError: Triton is not installed, or a version of torch or Triton lacks an interface.
        """
        with self._lock:
            if self._is_prepared:
                return
            probe.check()
            self._install()
            self._is_prepared = True

    def _install(self) -> None:
        from torch._inductor import compile_fx
        from torch._inductor.async_compile import AsyncCompile
        from torch._inductor.codecache import PyCodeCache
        from torch._inductor.codegen.triton import TritonKernel
        from torch._inductor.fx_passes import fuse_attention
        from torch._inductor.graph import GraphLowering

        patches = self._patches
        patches.on_restore(clear_caches)
        clear_caches()
        install_driver(patches, self.gpus)
        fake_tensors.install(patches)
        install_attention(patches)
        install_views(patches)
        fake_tensors.install_guards(patches)
        patches.set(AsyncCompile, "triton", self._make_kernel)
        for name in ("compile_fx_forward", "compile_fx_backward"):
            patches.set(compile_fx, name, self._in_scope(getattr(compile_fx, name)))
        if hasattr(fuse_attention, "_get_sfdp_patterns"):
            patterns = self._on_first_device(fuse_attention._get_sfdp_patterns)
            patches.set(fuse_attention, "_get_sfdp_patterns", patterns)
        load: Any = vars(PyCodeCache)["load_by_key_path"].__func__
        patches.set(PyCodeCache, "load_by_key_path", classmethod(self._adapting(load)))
        describe: Any = TritonKernel.inductor_meta_per_kernel
        patches.set(TritonKernel, "inductor_meta_per_kernel", _with_sizes(describe))
        install_optimizers(patches, self._program_running)
        patches.set(GraphLowering, "constant_name", self._moving_constants(GraphLowering.constant_name))
        patches.set(compile_fx, "compile_fx", self._without_measuring(compile_fx.compile_fx))
        folder = tempfile.TemporaryDirectory(prefix="cudalens-compiled-")
        self._folder = Path(folder.name)
        patches.on_restore(self._forget_modules)
        patches.on_restore(folder.cleanup)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Compile inside of this context: without the device's modes, and with a cache folder of its own."""
        from torch._functorch import config as aot_config
        from torch._inductor import config

        self.prepare()
        if is_tracing():
            yield
            return
        self._programs.append(ProgramModes.current())
        options = {name: value for name, value in _INDUCTOR.items() if _has_option(config, name)}
        try:
            with (
                hidden_work(self.gpus),
                tracing(),
                _without_function_modes(),
                self._environment(),
                config.patch(options),
                aot_config.patch(_AOT),
            ):
                yield
        finally:
            self._programs.pop()

    @contextmanager
    def _program_running(self) -> Iterator[None]:
        """Run code of the program while torch.compile traces."""
        if not is_tracing() or not self._programs:
            yield
            return
        with program_running(self._programs[-1]):
            yield

    @contextmanager
    def _environment(self) -> Iterator[None]:
        before = {name: os.environ.get(name) for name in _ENVIRONMENT}
        os.environ.update(dict.fromkeys(_ENVIRONMENT, str(self._folder)))
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def _on_first_device(self, find_patterns: Callable[..., Any]) -> Callable[..., Any]:
        """Name the device of the patterns that Inductor makes for a graph without tensors.

        Inductor makes a tensor from a number on "cuda", for which torch's C++ asks the driver.
        """

        @functools.wraps(find_patterns)
        def find_patterns_on_device(input_device: torch.device | None = None) -> Any:
            return find_patterns(input_device or torch.device("cuda", 0))

        return find_patterns_on_device

    def _in_scope(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Inductor compiles a backward pass when it first runs, with the modes of the program."""
        from torch.utils._python_dispatch import _disable_current_modes

        @functools.wraps(function)
        def compile_graph(*args: Any, **kwargs: Any) -> Any:
            if self.gpus.is_closed or is_tracing():
                return function(*args, **kwargs)
            with _disable_current_modes(), self.scope():
                return function(*args, **kwargs)

        return compile_graph

    def _without_measuring(self, compile_graph: Callable[..., Any]) -> Callable[..., Any]:
        """Leave out the options of a mode that measure kernels, which a virtual device cannot do."""

        def compile_fx(*args: Any, config_patches: dict[str, Any] | None = None, **kwargs: Any) -> Any:
            if not is_tracing() or not config_patches:
                return compile_graph(*args, config_patches=config_patches, **kwargs)
            ignored = [name for name in config_patches if name in _INDUCTOR]
            if self.gpus.shapes is not None and config_patches.get("triton.cudagraphs"):
                ignored.append("triton.cudagraphs")
            kept = {name: value for name, value in config_patches.items() if name not in ignored}
            if ignored:
                warn_user(_IGNORED.format(names=", ".join(sorted(ignored))))
            return compile_graph(*args, config_patches=kept, **kwargs)

        return compile_fx

    @property
    def _make_kernel(self) -> Callable[..., Any]:
        from torch._inductor.async_compile import AsyncCompile
        from torch._inductor.codecache import PyCodeCache

        original: Any = AsyncCompile.triton

        def triton(compiler: Any, kernel_name: str, source_code: str, device_str: str = "cuda") -> Any:
            if not is_tracing():
                return original(compiler, kernel_name, source_code, device_str)
            tuner = getattr(PyCodeCache.load(source_code), kernel_name)
            return DeviceKernel(self.gpus, tuner, kernel_name)

        return triton

    def _adapting(self, load: Callable[..., Any]) -> Callable[..., Any]:
        def load_by_key_path(cls: Any, *args: Any, **kwargs: Any) -> Any:
            module = load(cls, *args, **kwargs)
            if is_tracing() and hasattr(module, "call"):
                adapt_module(self.gpus, module)
            return module

        return load_by_key_path

    def _moving_constants(self, name_of: Callable[..., str]) -> Callable[..., str]:
        """Move constants that a graph made on the host to the device, with the modes of the program."""
        from torch.utils._python_dispatch import _disable_current_modes

        def constant_name(graph: Any, name: str, device: torch.device | None) -> str:
            constant = graph.constants[name]
            if not is_tracing() or device is None or device.type != "cuda" or constant.device == device:
                return name_of(graph, name, device)
            with _disable_current_modes(), self._program_running():
                moved = constant.to(device)
                moved_name: str = graph.allocate_non_dup_const_name(f"{name}_cuda{device.index or 0}", moved)
                return moved_name

        return constant_name

    def _forget_modules(self) -> None:
        """Remove the modules of generated code from Inductor's list and from Python's."""
        from torch._inductor.codecache import PyCodeCache

        cache: Any = PyCodeCache
        folder = str(self._folder)
        for mapping in (cache.linemaps, cache.modules_no_attr):
            for path in [path for path in mapping if str(path).startswith(folder)]:
                del mapping[path]
        cache.modules[:] = [m for m in cache.modules if not str(m.__file__).startswith(folder)]
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(folder):
                del sys.modules[name]


def _with_sizes(describe: Callable[..., Any]) -> Callable[..., Any]:
    """Add Inductor's estimates of bytes and operations to a kernel, which it computes for its benchmarks."""

    def inductor_meta_per_kernel(kernel: Any) -> Any:
        meta = describe(kernel)
        if is_tracing():
            meta.setdefault("kernel_num_gb", kernel.estimate_kernel_num_bytes() / 1e9)
            meta.setdefault("kernel_flop", kernel.estimate_flops() or 0)
        return meta

    return inductor_meta_per_kernel


@contextmanager
def _without_function_modes() -> Iterator[None]:
    """Remove the device's function mode from the thread's stack, which Dynamo would trace."""
    stack = current_stack()
    set_stack([mode for mode in stack if not isinstance(mode, FunctionMode)])
    with fake_tensors.expected_stack(stack):
        try:
            yield
        finally:
            set_stack(stack)


def _has_option(config: Any, name: str) -> bool:
    first, _, rest = name.partition(".")
    there = getattr(config, first, None) if rest else config
    return there is not None and hasattr(there, rest or first)


# Trace attention as CUDA's fused operators: torch decomposes it for the device that its C++ then sees.

#: The dispatch keys of the device that torch's C++ sees (`tracing.hidden_device`).
_KEYS: Final = ("AutogradLazy", "Lazy")


def install_attention(patches: Patches) -> None:
    """Replace the composite operator for that device."""
    for key in _KEYS:
        register_kernels(patches, key, {"scaled_dot_product_attention": attend})


def install_views(patches: Patches) -> None:
    """Add the one in-place view that torch does not have for that device; all devices have the same kernel."""

    def as_strided_(tensor: torch.Tensor, *sizes: Any) -> torch.Tensor:
        operator: Any = torch.ops.aten.as_strided_.default
        result: torch.Tensor = operator.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), tensor, *sizes)
        return result

    register_kernels(patches, "Lazy", {"as_strided_": as_strided_})


# Clear what torch remembers of the GPU: a virtual device must neither use it nor leave it behind.

#: Modules whose cached functions depend on the GPU or on functions that a virtual device replaces.
_MODULES: Final = (
    "torch.utils._triton",
    "torch._inductor.utils",
    "torch._inductor.codegen.cuda.cuda_env",
    "torch._inductor.runtime.runtime_utils",
    "torch._inductor.runtime.triton_compat",
    "torch._dynamo.trace_rules",
    "torch._dynamo.variables.torch",
)


def clear_caches() -> None:
    """Clear them; they are filled again on use."""
    for name in _MODULES:
        module = sys.modules.get(name)
        for value in list(vars(module).values()) if module is not None else ():
            if isinstance(value, functools._lru_cache_wrapper):
                value.cache_clear()
    _clear_classes()


def _clear_classes() -> None:
    hints: Any = sys.modules.get("torch._inductor.runtime.hints")
    codecache: Any = sys.modules.get("torch._inductor.codecache")
    compiler: Any = sys.modules.get("torch._inductor.async_compile")
    if hints is not None:
        hints.DeviceProperties.create.cache_clear()
    if codecache is not None:
        codecache.CacheBase.get_system.cache_clear()
    if compiler is not None:
        compiler.CompiledTritonKernels.cache_clear()


# Install torch.compile's support with a virtual device.


def install(patches: Patches, gpus: Gpus) -> None:
    """Compile for the virtual device while it is active; torch's compiler is patched when it is first used."""
    session = Session(patches, gpus)

    def watch(module: ModuleType) -> None:
        session.watch(module)

    when_imported(patches, "torch._dynamo.eval_frame", watch)
    when_imported(patches, "torch._inductor.cudagraph_trees", lambda module: graph_trees.install(patches, gpus))


# Compile the step of an optimizer, whose state Dynamo makes with the program's tensors while it traces.


def install_optimizers(patches: Patches, running: Callable[[], AbstractContextManager[None]]) -> None:
    """Patch Dynamo's optimizers.

    Args:
        patches: Undone at the end.
        running: Makes a context in which operators run on the device, also while code is traced.
    """
    from torch._dynamo.variables.optimizer import OptimizerVariable

    kind: Any = OptimizerVariable
    call_method, set_capturable, move_step = kind.call_method, kind._set_capturable, kind.move_step_if_cpu

    @functools.wraps(call_method)
    def call_method_on_device(self: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        if name != "_init_group" or not hasattr(self.value, "_init_group"):
            return call_method(self, tx, name, args, kwargs)
        attributes, make_state = vars(self.value), self.value._init_group
        before = attributes.get(name)

        def make_state_on_device(*args: Any, **kwargs: Any) -> Any:
            _put_back(attributes, name, before)
            with running():
                return make_state(*args, **kwargs)

        attributes[name] = make_state_on_device
        try:
            return call_method(self, tx, name, args, kwargs)
        finally:
            _put_back(attributes, name, before)

    @functools.wraps(set_capturable)
    def set_capturable_on_device(self: Any, tx: Any) -> Any:
        with running():
            for group in self.value.param_groups:
                if "capturable" in group and _is_new_on_device(group["params"], self.value.state):
                    group["capturable"] = True
        return set_capturable(self, tx)

    @functools.wraps(move_step)
    def move_step_on_device(self: Any) -> Any:
        with running():
            return move_step(self)

    patches.set(kind, "call_method", call_method_on_device)
    patches.set(kind, "_set_capturable", set_capturable_on_device)
    patches.set(kind, "move_step_if_cpu", move_step_on_device)


def _is_new_on_device(parameters: Any, state: Any) -> bool:
    """Whether all parameters are on the device and have no state: Dynamo then keeps the step on the device, too."""
    return all(parameter.is_cuda and parameter not in state for parameter in parameters)


def _put_back(attributes: dict[str, Any], name: str, before: Any) -> None:
    if before is None:
        attributes.pop(name, None)
    else:
        attributes[name] = before

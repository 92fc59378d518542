"""Check that torch and Triton have the private interfaces that torch.compile on a virtual device needs."""

from __future__ import annotations

import importlib
from typing import Any, Final

import torch

from cudalens.errors import VirtualDeviceError

_NO_TRITON: Final = (
    "torch.compile on a virtual CUDA device needs Triton, which is not installed: pip install triton. Without it, run "
    "the code eagerly, which gives the same values: torch.compiler.set_stance('force_eager') makes compiled functions "
    "run eagerly, and so does TORCH_COMPILE_DISABLE=1."
)
_MISSING: Final = (
    "torch.compile on a virtual CUDA device does not support torch {torch} with Triton {triton}: {what} is missing. "
    "Run the code eagerly (torch.compiler.set_stance('force_eager')), or install versions that are released together."
)

#: The interfaces, by module.
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "torch._dynamo.convert_frame": ("ConvertFrame._clone_with_backend", "catch_errors_wrapper"),
    "torch._dynamo.eval_frame": ("_callback_from_stance",),
    "torch._dynamo.guards": (
        "get_guard_fail_reason", "GuardBuilder.TENSOR_MATCH", "GuardBuilder.TORCH_FUNCTION_STATE",
    ),
    "torch._dynamo.types": ("ConvertFrameReturn", "FrameAction", "FrameExecStrategy"),
    "torch._dynamo.variables.ctx_manager": ("TorchFunctionDisableVariable._guards_singleton",),
    "torch._dynamo.variables.optimizer": ("OptimizerVariable._set_capturable", "OptimizerVariable.move_step_if_cpu"),
    "torch._inductor.async_compile": ("AsyncCompile.triton", "CompiledTritonKernels.cache_clear"),
    "torch._inductor.codecache": (
        "PyCodeCache.load_by_key_path", "PyCodeCache.modules", "PyCodeCache.modules_no_attr", "PyCodeCache.linemaps",
        "CacheBase.get_system",
    ),
    "torch._inductor.codegen.triton": ("TritonKernel.inductor_meta_per_kernel",),
    "torch._inductor.constant_folding": ("ConstantFolder.run",),
    "torch._inductor.compile_fx": ("compile_fx_forward", "compile_fx_backward"),
    "torch._inductor.graph": ("GraphLowering.constant_name", "GraphLowering.allocate_non_dup_const_name"),
    "torch._inductor.fx_passes.joint_graph": ("UniformValueConstantFolder._add_peephole_patterns",),
    "torch._inductor.runtime.hints": ("TRITON_MAX_BLOCK", "DeviceProperties.create"),
    "torch._inductor.runtime.triton_heuristics": ("GridExpr.from_meta", "GridExpr.eval_slow"),
    "torch._meta_registrations": ("device_hint",),
    "torch._subclasses.fake_tensor": ("_DISPATCH_META_HANDLERS", "FakeTensorMode.avoid_device_init"),
    "torch._subclasses.functional_tensor": ("FunctionalTensorMode.__torch_dispatch__",),
    "torch.fx.experimental.proxy_tensor": ("ProxyTorchDispatchMode.__torch_dispatch__", "unset_fake_temporarily"),
    "triton.runtime.interpreter": (
        "ASTTransformer.visit_Assign", "FunctionRewriter.rewrite_ast", "InterpretedFunction",
        "InterpreterBuilder.binary_op", "InterpreterBuilder.cast_impl",
        "TensorHandle", "_LangPatchScope", "_get_np_dtype", "_interpreter", "_patch_lang",
        "interpreter_builder", "interpreter_semantic",
    ),
    "triton.runtime.jit": ("JITFunction",),
    "triton.language.core": ("builtin_max", "builtin_min", "tensor.__not__"),
    "triton.language.extra.libdevice": ("tanh",),
}  # fmt: skip


def check() -> None:
    """Check the interfaces.

    Raises:
        VirtualDeviceError: Triton is not installed, or an interface is missing; the message names it.
    """
    try:
        triton: Any = importlib.import_module("triton")
    except ImportError as error:
        raise VirtualDeviceError(_NO_TRITON) from error
    for module_name, paths in _NEEDED.items():
        for path in paths:
            if not _has(module_name, path):
                what = f"{module_name}.{path}"
                raise VirtualDeviceError(_MISSING.format(torch=torch.__version__, triton=triton.__version__, what=what))


def _has(module_name: str, path: str) -> bool:
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError:
        return False
    for name in path.split("."):
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True

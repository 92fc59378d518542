"""Read the state of torch around a call: states that forbid a CUDA graph, and settings that a graph depends on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

import torch
from torch.autograd import forward_ad
from torch.nn.modules import module as nn_module
from torch.nn.utils import parametrize
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from cudalens.graphs.reasons import Finding, Reason

TRANSFORM: Final = Finding(Reason.TRANSFORM, "torch.func or torch.vmap")
_FORWARD_AD: Final = Finding(Reason.TRANSFORM, "torch.autograd.forward_ad")
_NO_HOOKS: Final = Finding(Reason.OBSERVED, "torch.autograd.graph.disable_saved_tensors_hooks")
_SAVED_HOOKS: Final = Finding(Reason.OBSERVED, "torch.autograd.graph.saved_tensors_hooks")
_ANOMALY: Final = Finding(Reason.OBSERVED, "torch.autograd.detect_anomaly")
_CASTS: Final = Finding(Reason.KEPT_CASTS, "torch.autocast")
_GLOBAL_HOOK: Final = Finding(Reason.OBSERVED, "a hook of all modules, as of register_module_forward_hook")

_top_hooks: Final[Callable[[bool], Any]] = torch._C._autograd._top_saved_tensors_default_hooks
_disabled_message: Final[Callable[[], str | None]] = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message
_opt_einsum: Final[Any] = torch.backends.opt_einsum
_fp32_precision: Final[Any] = getattr(torch._C, "_get_fp32_precision_getter", lambda backend, operator: None)


def finding_around() -> Finding | None:
    """Why a call made now cannot run as a graph; None if it can.

    Inside a transform the arguments are wrappers around other tensors, and inside a dual level they have tangents: a
    graph records only the innermost values. Modes and hooks of the program run for each operator, saved tensor or
    module, which a replay does not run.
    """
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return TRANSFORM
    if forward_ad._current_level >= 0:
        return _FORWARD_AD
    if _disabled_message() is not None:
        return _NO_HOOKS
    if torch.is_anomaly_enabled():
        return _ANOMALY
    if nn_module._has_any_global_hook():  # type: ignore[no-untyped-call]
        return _GLOBAL_HOOK
    if torch.is_autocast_enabled("cuda") and _has_cast_cache():
        return _CASTS
    return _users_hooks() or _users_mode()


def keeps_casts() -> bool:
    """Whether a region of autocast around this call, of any device, keeps casts of weights until it ends."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting() > 0 and _has_cast_cache()


def _has_cast_cache() -> bool:
    return torch.is_autocast_cache_enabled() and not torch.is_inference_mode_enabled()


def _users_hooks() -> Finding | None:
    pack = top_pack_hook()
    pack = getattr(pack, "func", pack)  # of a partial
    return None if pack is None or _is_own(getattr(pack, "__module__", None) or "") else _SAVED_HOOKS


def top_pack_hook() -> Any:
    """The function that packs what autograd saves now, without what a virtual device wraps it in; None if none does."""
    hooks = _top_hooks(True)
    return None if hooks is None else inspect.unwrap(hooks[0])


def _users_mode() -> Finding | None:
    if not (torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack()):
        return None
    for mode in (*_get_current_dispatch_mode_stack(), *_function_modes()):
        kind: Any = type(mode)
        if not _is_known(kind):
            return Finding(Reason.OBSERVED, kind.__name__)
    return None


@cache
def _is_known(kind: Any) -> bool:
    """Whether a mode is cudalens's own, or the default device, which is a setting."""
    return kind is DeviceContext or _is_own(kind.__module__)


def _function_modes() -> list[Any]:
    return list(_get_current_function_mode_stack())  # type: ignore[no-untyped-call]


def _is_own(module: str) -> bool:
    return module.startswith("cudalens.")


def _default_device() -> Any:
    """The device of factories without a device argument; None for the CPU."""
    if not torch._C._len_torch_function_stack():
        return None
    devices = (mode.device for mode in reversed(_function_modes()) if type(mode) is DeviceContext)
    return next(devices, None)


#: Functions of torch._C that return settings, by name; some exist only in some versions of torch.
_OPTIONAL: Final[Mapping[str, str]] = {
    "default dtype": "get_default_dtype",
    "use_deterministic_algorithms": "_get_deterministic_algorithms",
    "warn_only of use_deterministic_algorithms": "_get_deterministic_algorithms_warn_only",
    "fill_uninitialized_memory": "_get_deterministic_fill_uninitialized_memory",
    "allow_fp16_reduced_precision_reduction": "_get_cublas_allow_fp16_reduced_precision_reduction",
    "allow_bf16_reduced_precision_reduction": "_get_cublas_allow_bf16_reduced_precision_reduction",
    "allow_fp16_accumulation": "_get_cublas_allow_fp16_accumulation",
    "cudnn.enabled": "_get_cudnn_enabled",
    "cudnn.benchmark": "_get_cudnn_benchmark",
    "cudnn.deterministic": "_get_cudnn_deterministic",
    "flash_sdp_enabled": "_get_flash_sdp_enabled",
    "mem_efficient_sdp_enabled": "_get_mem_efficient_sdp_enabled",
    "math_sdp_enabled": "_get_math_sdp_enabled",
    "cudnn_sdp_enabled": "_get_cudnn_sdp_enabled",
}

#: Settings of torch that change what operators compute, by name.
_SETTINGS: Final[dict[str, Callable[[], Any]]] = {
    "default device": _default_device,
    "autocast of the CPU": partial(torch.is_autocast_enabled, "cpu"),
    "dtype of autocast": partial(torch.get_autocast_dtype, "cuda"),
    "dtype of autocast of the CPU": partial(torch.get_autocast_dtype, "cpu"),
    "cache of autocast": torch.is_autocast_cache_enabled,
    "a region of autocast that keeps casts": keeps_casts,
    "fp32_precision of cuda.matmul": partial(_fp32_precision, "cuda", "matmul"),
    "fp32_precision of cudnn.conv": partial(_fp32_precision, "cuda", "conv"),
    "fp32_precision of cudnn.rnn": partial(_fp32_precision, "cuda", "rnn"),
    "validation of distributions": partial(getattr, torch.distributions.Distribution, "_validate_args"),
    "cache of parametrizations": partial(getattr, parametrize, "_cache_enabled"),
    "opt_einsum.enabled": _opt_einsum._get_enabled,  # the public attribute takes 30 times as long
    "opt_einsum.strategy": _opt_einsum._get_strategy,
    "fast path of attention": torch.backends.mha.get_fastpath_enabled,
    **{name: getattr(torch._C, getter) for name, getter in _OPTIONAL.items() if hasattr(torch._C, getter)},
}
_GETTERS: Final = tuple(_SETTINGS.values())


def settings() -> tuple[Any, ...]:
    """The settings of torch that a graph depends on."""
    return tuple([get() for get in _GETTERS])


def changed_setting(before: tuple[Any, ...], after: tuple[Any, ...]) -> str | None:
    """The first setting that differs, in words; None if all are equal."""
    differ = (f"{name}: {a} → {b}" for name, a, b in zip(_SETTINGS, before, after, strict=True) if a != b)
    return next(differ, None)

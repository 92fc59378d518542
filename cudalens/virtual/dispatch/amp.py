"""``torch.autocast("cuda")`` for tensors of a virtual device.

torch casts in kernels of its dispatch key AutocastCUDA, which tensors in host memory do not have. While a virtual
device is active, the key is added on its threads, so that torch's own switch (``torch.autocast``) enables and disables
it, and its kernels are replaced by kernels that check the device of a tensor.

Conversely, ``torch.autocast("cpu")`` would cast tensors of the virtual device, because they are in host memory. While
it is on, kernels of a key that is otherwise unused here run first, and skip the cast for these tensors.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final, Literal

import torch

from cudalens.virtual.compiled.tracing import is_tracing
from cudalens.virtual.dispatch.dispatch_utils import register_kernels
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.tensors.residency import is_any_resident, residence_of

Policy = Literal["lower", "float32", "float32_dtype", "norm", "promote", "banned"]

_LOWER: Final = (
    "_convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input "
    "conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm "
    "baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell "
    "rnn_tanh_cell rnn_relu_cell _scaled_dot_product_flash_attention scaled_dot_product_attention cudnn_convolution "
    "cudnn_convolution_transpose"
)
_FLOAT32: Final = (
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar "
    "pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim "
    "nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d "
    "hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss "
    "multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits "
    "dist pdist cdist renorm logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d "
    "_upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d "
    "_upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa linalg_matrix_sqrth"
)
_FLOAT32_DTYPE: Final = (
    "prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm "
    "linalg_matrix_norm.str_ord sum sum.dim_IntList"
)
_PROMOTE: Final = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"

#: The policy by name and overload, as in a schema.
POLICIES: Final[dict[str, Policy]] = {
    **dict.fromkeys(_LOWER.split(), "lower"),
    **dict.fromkeys(_FLOAT32.split(), "float32"),
    **dict.fromkeys(_FLOAT32_DTYPE.split(), "float32_dtype"),
    **dict.fromkeys(("norm.Scalar", "norm.ScalarOpt_dim"), "norm"),
    **dict.fromkeys(_PROMOTE.split(), "promote"),
    "binary_cross_entropy": "banned",
}

#: On a GPU these are one call of cuDNN, which autocast runs in lower precision (ATen/cudnn/AutocastRNN.cpp).
RECURRENT: Final = tuple(
    f"{kind}.{form}" for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("input", "data")
)


_KEY: Final = torch._C.DispatchKey.AutocastCUDA
_KEY_NAME: Final = "AutocastCUDA"
_GUARD: Final = torch._C.DispatchKey.AutocastXPU
#: Runs before AutocastCPU, and otherwise casts only tensors of Intel GPUs.
_GUARD_NAME: Final = "AutocastXPU"

_BANNED: Final = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)


class AutocastKey:
    """Context manager that adds the dispatch key of CUDA's autocast on the calling thread."""

    def __init__(self, gpus: Gpus) -> None:
        self._before = False

    def __enter__(self) -> AutocastKey:
        self._before = torch._C._dispatch_tls_is_dispatch_key_included(_KEY)
        torch._C._dispatch_tls_set_dispatch_key_included(_KEY, True)
        return self

    def __exit__(self, *exception: object) -> None:
        torch._C._dispatch_tls_set_dispatch_key_included(_KEY, self._before)


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace the kernels of CUDA's autocast."""
    casts = Casts()
    register_kernels(patches, _KEY_NAME, casts.kernels())
    clear = torch.clear_autocast_cache

    def clear_autocast_cache() -> None:
        casts.clear()
        clear()

    patches.set(torch, "clear_autocast_cache", clear_autocast_cache)
    _install_guard(patches)


def _install_guard(patches: Patches) -> None:
    """Exclude tensors of the virtual device from ``torch.autocast("cpu")``; installed at its first use."""
    set_enabled: Any = torch.set_autocast_enabled
    registered: list[bool] = []

    def set_autocast_enabled(*args: Any, **kwargs: Any) -> None:
        set_enabled(*args, **kwargs)
        is_on = torch.is_autocast_enabled("cpu")
        if is_on and not registered:
            registered.append(True)
            register_kernels(patches, _GUARD_NAME, guards())
        torch._C._dispatch_tls_set_dispatch_key_included(_GUARD, is_on)
        torch._C._dispatch_tls_set_dispatch_key_excluded(_GUARD, not is_on)

    def remove_guard() -> None:
        torch._C._dispatch_tls_set_dispatch_key_included(_GUARD, False)
        torch._C._dispatch_tls_set_dispatch_key_excluded(_GUARD, True)

    patches.on_restore(remove_guard)
    patches.set(torch, "set_autocast_enabled", set_autocast_enabled)


def guards() -> dict[str, Callable[..., Any]]:
    """Return a kernel for each operator that autocast for the CPU casts."""
    names = (name[len("aten::") :] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    found = (name for name in names if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "AutocastCPU"))
    return {name: _guard(func) for name in found if (func := overload(name)) is not None}


def _guard(func: Any) -> Callable[..., Any]:
    host = torch._C.DispatchKeySet(_GUARD)
    device = host | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        excluded = device if is_any_resident((*args, *kwargs.values())) else host
        with torch._C._ExcludeDispatchKeyGuard(excluded):
            return func(*args, **kwargs)

    return kernel


def overload(name: str) -> Any:
    """Return the aten operator of a schema name, or None if this version of torch has none."""
    packet_name, _, form = name.partition(".")
    packet = getattr(torch.ops.aten, packet_name, None)
    return getattr(packet, form or "default", None)


def _without_autocast(func: Any, args: Any, kwargs: Any) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_KEY)):
        return func(*args, **kwargs)


class Casts:
    """The kernels, and the cached casts of weights within an autocast region."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}
        self._has_gradients = _KEEPS_GRADIENTS

    def kernels(self) -> dict[str, Callable[..., Any]]:
        """Return the kernels by schema name."""
        makers: dict[Policy, Callable[[Any], Callable[..., Any]]] = {
            "lower": self._lower,
            "float32": self._float32,
            "float32_dtype": self._float32_dtype,
            "norm": self._norm,
            "promote": self._promote,
            "banned": self._banned,
        }
        return {name: makers[policy](func) for name, policy, func in _casts()}

    def clear(self) -> None:
        """Drop the cached casts, at the end of the outermost region."""
        self._copies.clear()

    def _lower(self, func: Any) -> Callable[..., Any]:
        return self._to(func, lambda: torch.get_autocast_dtype("cuda"))

    def _float32(self, func: Any) -> Callable[..., Any]:
        return self._to(func, lambda: torch.float32)

    def _to(self, func: Any, dtype_of: Callable[[], torch.dtype]) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            dtype = dtype_of()
            return _without_autocast(func, self._cast(args, dtype), self._cast(kwargs, dtype))

        return kernel

    def _float32_dtype(self, func: Any) -> Callable[..., Any]:
        """Set the operator's dtype argument to float32, unless the caller passed a dtype."""
        position = next(i for i, argument in enumerate(func._schema.arguments) if argument.name == "dtype")

        def kernel(*args: Any, **kwargs: Any) -> Any:
            if is_eligible(args[0]):
                if position < len(args):
                    args = (*args[:position], args[position] or torch.float32, *args[position + 1 :])
                elif kwargs.get("dtype") is None:
                    kwargs = {**kwargs, "dtype": torch.float32}
            return _without_autocast(func, args, kwargs)

        return kernel

    def _norm(self, func: Any) -> Callable[..., Any]:
        with_dtype = overload(func._schema.name.partition("::")[2] + f".{_NORM_WITH_DTYPE[func._overloadname]}")
        names = [argument.name for argument in func._schema.arguments]

        def kernel(*args: Any, **kwargs: Any) -> Any:
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            tensor = given.pop("self")
            dtype = torch.float32 if is_eligible(tensor) else tensor.dtype
            power = given.pop("p", 2)
            rest = () if not given else (given["dim"], given.get("keepdim", False))
            return _without_autocast(with_dtype, (tensor, power, *rest), {"dtype": dtype})

        return kernel

    def _promote(self, func: Any) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            dtype = torch.get_autocast_dtype("cuda")
            for value in (*args, *kwargs.values()):
                dtype = _widest(dtype, value)
            return _without_autocast(func, self._cast(args, dtype), self._cast(kwargs, dtype))

        return kernel

    def _banned(self, func: Any) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            if any(isinstance(arg, torch.Tensor) and _is_on_device(arg) for arg in args):
                raise RuntimeError(_BANNED)
            return _without_autocast(func, args, kwargs)

        return kernel

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:
        """`value` with all eligible tensors cast."""
        if isinstance(value, torch.Tensor):
            return self._cast_tensor(value, dtype) if value.dtype is not dtype and is_eligible(value) else value
        if isinstance(value, list | tuple):
            return type(value)([self._cast(item, dtype) for item in value])
        if isinstance(value, dict):
            return {key: self._cast(item, dtype) for key, item in value.items()}
        return value

    def _cast_tensor(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return a cast copy; for a float32 leaf that requires grad, one copy for the whole region."""
        is_weight = tensor.dtype is torch.float32 and tensor.requires_grad and tensor.is_leaf and not tensor._is_view()
        if not is_weight or dtype is torch.float32 or not torch.is_autocast_cache_enabled() or self._is_left_out():
            return tensor.to(dtype)
        known = self._copies.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        with torch.enable_grad() if self._has_gradients else nullcontext():
            copy = tensor.to(dtype)
        self._copies[id(tensor)] = weakref.ref(tensor), copy
        return copy

    def _is_left_out(self) -> bool:
        return self._has_gradients and torch.is_inference_mode_enabled()


def _keeps_gradients() -> bool:
    """Return whether this version of torch differentiates through a cast that was first needed without gradients.

    Such a version also keeps no casts in inference mode.
    """
    with torch.inference_mode(False), torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        weight = torch.nn.Parameter(torch.ones(1, 1, device="cpu"))
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=True):
            with torch.no_grad():
                weight.mm(weight)
            with torch.enable_grad():
                return weight.mm(weight).requires_grad


#: Found when this module is imported: a profile of a block that enables a device does not contain these operators.
_KEEPS_GRADIENTS: Final = _keeps_gradients()


@functools.cache
def _casts() -> tuple[tuple[str, Policy, Any], ...]:
    """Return the operators that this version of torch casts for CUDA: schema name, policy and operator."""
    policies: dict[str, Policy] = {name: policy for name, policy in POLICIES.items() if is_cast(name)}
    policies.update(dict.fromkeys(RECURRENT, "lower"))
    return tuple((name, policy, func) for name, policy in policies.items() if (func := overload(name)) is not None)


_NORM_WITH_DTYPE: Final = {"Scalar": "ScalarOpt_dtype", "ScalarOpt_dim": "ScalarOpt_dim_dtype"}


def is_cast(name: str) -> bool:
    """Return whether this version of torch casts an operator for CUDA."""
    schema = f"aten::{name}"
    known = torch._C._dispatch_has_kernel(schema)
    return bool(known and torch._C._dispatch_has_kernel_for_dispatch_key(schema, _KEY_NAME))


def is_eligible(value: Any) -> bool:
    """Return whether autocast for CUDA casts a value: a floating-point tensor on the device, but not double."""
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype is not torch.float64
        and _is_on_device(value)
    )


def _is_on_device(tensor: torch.Tensor) -> bool:
    return residence_of(tensor) is not None or (is_tracing() and tensor.device.type == "cuda")


def _widest(current: torch.dtype, value: Any) -> torch.dtype:
    """Return the wider of `current` and the dtypes in `value`.

    Raises:
        RuntimeError: A dtype is neither float32 nor the region's; torch's message.
    """
    if isinstance(value, list | tuple):
        for item in value:
            current = _widest(current, item)
        return current
    if not is_eligible(value) or value.dtype is current:
        return current
    if torch.float32 in (current, value.dtype):
        return torch.float32
    raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")

"""Results in the memory layout of CUDA, where the CPU's operator has another one.

Programs see the layout in ``stride()``, in errors of ``view``, and in the copies that later operators need. The rules
are those of ATen/native, whose implementation is named with each of them.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from cudalens.virtual.torch_cuda.rng import Replacement

_aten = torch.ops.aten

#: Positions of the results that CUDA makes contiguous and the CPU in another layout, by operator name.
_CONTIGUOUS: Final[dict[str, tuple[int, ...]]] = {
    # group_norm.cpp: the suggested format on the CPU alone
    "native_group_norm": (0,),
    "native_group_norm_backward": (0,),
    # cuda/ReflectionPad.cu, cuda/ReplicationPadding.cu: contiguous sizes, LEGACY_CONTIGUOUS_MEMORY_FORMAT
    "reflection_pad2d": (0,),
    "reflection_pad2d_backward": (0,),
    "reflection_pad3d": (0,),
    "reflection_pad3d_backward": (0,),
    "replication_pad2d": (0,),
    "replication_pad2d_backward": (0,),
    "replication_pad3d": (0,),
    "replication_pad3d_backward": (0,),
    # cuda/MaxUnpooling.cu: resized to contiguous sizes
    "max_unpool2d": (0,),
    "max_unpool3d": (0,),
    # cuda/layer_norm_kernel.cu; torch's shape function keeps other strides
    "_fused_rms_norm_backward": (0,),
    # PixelShuffle.cpp and ChanelShuffle.cpp: kernels for the CPU alone, else math_* with a contiguous clone
    "pixel_shuffle": (0,),
    "pixel_unshuffle": (0,),
    "channel_shuffle": (0,),
    # BatchLinearAlgebra.cpp: cuSOLVER's right vectors and eigenvectors are in rows
    "_linalg_svd": (2,),
    "linalg_eig": (1,),
}


class _Contiguous(Replacement):
    """An operator some of whose results are made contiguous."""

    def __init__(self, func: Any, positions: tuple[int, ...]) -> None:
        super().__init__(func)
        self._positions = positions

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the values."""
        return self.lay_out(self._func(*args, **kwargs))

    def lay_out(self, out: Any) -> Any:
        """Return the results, the ones at the positions contiguous."""
        if isinstance(out, Tensor):
            return out.contiguous()
        return tuple(
            value.contiguous() if position in self._positions and isinstance(value, Tensor) else value
            for position, value in enumerate(out)
        )


class _AsShapeFunction(Replacement):
    """An operator whose result gets the strides of torch's shape function, which models CUDA's library.

    cuFFT transforms up to three dimensions at once and writes those in its own order (cuda/SpectralOps.cpp).
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the values."""
        out = self._func(*args, **kwargs)
        given = args[0]
        on_meta = torch.empty_strided(given.shape, given.stride(), dtype=given.dtype, device="meta")
        strides = self._func(on_meta, *args[1:], **kwargs).stride()
        if out.stride() == strides:
            return out
        return torch.empty_strided(out.shape, strides, dtype=out.dtype, device=out.device).copy_(out)


class _ByColumns(Replacement):
    """``nonzero_static``, whose result CUDA writes dimension by dimension, as ``nonzero`` (cuda/Nonzero.cu)."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the positions."""
        return self.lay_out(self._func(*args, **kwargs))

    def lay_out(self, out: Any) -> Any:
        """Return the positions with those in one dimension side by side."""
        return out.t().contiguous().t()


class _LogSigmoid(Replacement):
    """``log_sigmoid_forward``, whose buffer is empty on CUDA: its backward computes it again (cuda/Activation.cpp)."""

    def __call__(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the values, in the layout of the input."""
        out = self._func(values)[0]
        return torch.empty_like(values).copy_(out), values.new_empty(0)

    def lay_out(self, out: Any) -> Any:
        """Return the result and an empty buffer."""
        return out[0], out[0].new_empty(0)


class _LogSigmoidBackward(Replacement):
    """``log_sigmoid_backward`` without the buffer of the CPU's forward, which it computes again."""

    def __call__(self, grad: Tensor, values: Tensor, buffer: Tensor) -> Tensor:
        """Compute the gradient."""
        return self._func(grad, values, _aten.log_sigmoid_forward.default(values)[1])


#: Replacements of operator implementations, by operator name.
REPLACEMENTS: Final[dict[str, Replacement]] = {
    **{
        name: _Contiguous(getattr(_aten, name).default, positions)
        for name, positions in _CONTIGUOUS.items()
        if hasattr(_aten, name)  # some are newer than the oldest supported torch
    },
    **{name: _AsShapeFunction(getattr(_aten, name).default) for name in ("_fft_c2c", "_fft_r2c", "_fft_c2r")},
    "nonzero_static": _ByColumns(_aten.nonzero_static.default),
    "log_sigmoid_forward": _LogSigmoid(_aten.log_sigmoid_forward.default),
    "log_sigmoid_backward": _LogSigmoidBackward(_aten.log_sigmoid_backward.default),
}

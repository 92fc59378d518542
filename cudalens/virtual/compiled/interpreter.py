"""Run Triton kernels on host memory, by Triton's interpreter."""

from __future__ import annotations

import threading
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from cudalens.virtual.compiled import interpreter_ops

#: Triton's interpreter has global state.
_lock: Final = threading.RLock()


def run_kernel(
    function: Any, grid: tuple[int, int, int], args: Mapping[str, Any], signature: Mapping[str, str]
) -> None:
    """Run a kernel for each program of a grid.

    Triton's interpreter runs one program of the grid after the other, each with numpy. Code that Inductor generates is
    correct for any block size that its masks allow, so that a few programs with large blocks give the result of the
    grid.

    Args:
        function: The kernel, a ``JITFunction``.
        grid: The grid.
        args: By name: the host address of a pointer argument, a number, or the value of a constant.
        signature: Triton's type of each argument; other arguments are constants.
    """
    from triton.runtime import interpreter

    values = {name: _argument(value, signature.get(name)) for name, value in args.items()}
    with _lock, _interpreting(interpreter), np.errstate(all="ignore"):
        rewritten = _rewritten(interpreter, function)
        builder: Any = interpreter.interpreter_builder
        builder.set_grid_dim(*grid)
        for x in range(grid[0]):
            for y in range(grid[1]):
                for z in range(grid[2]):
                    builder.set_grid_idx(x, y, z)
                    rewritten(**values)


def _rewritten(interpreter: Any, function: Any) -> Any:
    return interpreter.InterpretedFunction(function.fn).rewrite()


def _argument(value: Any, kind: str | None) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype

    if kind is None or kind == "constexpr":
        return value
    dtype: Any = tl.str_to_ty(kind, None)
    array = np.array([value], dtype=np.uint64 if kind.startswith("*") else _get_np_dtype(dtype))
    return tl.core.tensor(TensorHandle(array, dtype), dtype)


@contextmanager
def _interpreting(interpreter: Any) -> Iterator[None]:
    """Replace Triton's language by the interpreter's, and calls of other kernels by interpreted calls."""
    import triton.language as tl
    from triton.runtime.jit import JITFunction

    kind: Any = JITFunction
    call = vars(kind)["__call__"]
    scope = interpreter._patch_lang(types.SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    try:
        for module in (tl, tl.core):
            scope.set_attr(module, "reduce", _reduce)
            scope.set_attr(module, "associative_scan", _scan)
        for name, function in interpreter_ops.builder_methods().items():
            scope.set_attr(interpreter.InterpreterBuilder, name, function)
        kind.__call__ = lambda self, *args, **kwargs: _rewritten(interpreter, self)(*args, **kwargs)
        yield
    finally:
        kind.__call__ = call
        scope.restore()


def _reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: bool = False, **kwargs: Any) -> Any:
    """``tl.reduce``: numpy's reductions where the interpreter uses them, else pairs of halves."""
    from triton.language import standard
    from triton.runtime.interpreter import ReduceOps

    axis = _plain(axis)
    is_sum = combine_fn is standard._sum_combine and not isinstance(input, tuple)
    if is_sum and axis is not None and not interpreter_ops.is_encoded(input.dtype):
        return ReduceOps(axis, combine_fn, _plain(keep_dims)).apply(input)
    inputs = input if isinstance(input, tuple) else (input,)
    arrays = [value.handle.data for value in inputs]
    if axis is None:
        arrays, axis = [array.reshape(-1) for array in arrays], 0
        keep_dims = False
    axis = axis % arrays[0].ndim
    while arrays[0].shape[axis] > 1:
        even = [_every_second(array, axis, 0) for array in arrays]
        odd = [_every_second(array, axis, 1) for array in arrays]
        arrays = _combine(combine_fn, inputs, even, odd)
    if not _plain(keep_dims):
        arrays = [array.squeeze(axis) for array in arrays]
    results = tuple(_tensor(array, like) for array, like in zip(arrays, inputs, strict=True))
    return results if isinstance(input, tuple) else results[0]


def _scan(input: Any, axis: Any, combine_fn: Any, reverse: bool = False, **kwargs: Any) -> Any:
    """``tl.associative_scan``: each element combined with all before it, in log2(n) passes."""
    inputs = input if isinstance(input, tuple) else (input,)
    axis, reverse = _plain(axis), _plain(reverse)
    arrays = [np.moveaxis(value.handle.data, axis, 0) for value in inputs]
    if reverse:
        arrays = [array[::-1] for array in arrays]
    distance = 1
    while distance < len(arrays[0]):
        before = [np.roll(array, distance, axis=0) for array in arrays]  # Triton's blocks have powers of two as sizes
        combined = _combine(combine_fn, inputs, before, arrays)
        for array, new in zip(arrays, combined, strict=True):
            new[:distance] = array[:distance]
        arrays = combined
        distance *= 2
    if reverse:
        arrays = [array[::-1] for array in arrays]
    results = tuple(_tensor(np.moveaxis(a, 0, axis), like) for a, like in zip(arrays, inputs, strict=True))
    return results if isinstance(input, tuple) else results[0]


def _combine(combine_fn: Any, likes: Any, left: list[Any], right: list[Any]) -> list[Any]:
    """Apply the combining function to arrays of equal shape."""
    args = [_tensor(array, like) for side in (left, right) for array, like in zip(side, likes, strict=True)]
    out = combine_fn(*args)
    out = out if isinstance(out, tuple) else (out,)
    return [
        np.broadcast_to(value.handle.data, array.shape).astype(array.dtype)
        for value, array in zip(out, left, strict=True)
    ]


def _tensor(array: Any, like: Any) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    scalar = like.dtype.scalar
    if array.ndim == 0:
        return tl.core.tensor(TensorHandle(array.reshape(1), scalar), scalar)
    array = np.ascontiguousarray(array)
    return tl.core.tensor(TensorHandle(array, scalar), tl.block_type(scalar, list(array.shape)))


def _every_second(array: Any, axis: int, first: int) -> Any:
    index: list[Any] = [slice(None)] * array.ndim
    index[axis] = slice(first, None, 2)
    return array[tuple(index)]


def _plain(value: Any) -> Any:
    return getattr(value, "value", value)

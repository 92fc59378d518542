"""Run Triton kernels on host memory, by Triton's interpreter."""

from __future__ import annotations

import threading
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from cudalens.virtual.compiled import interpreter_ops, kernel_source, libdevice

#: Triton's interpreter has global state.
_lock: Final = threading.RLock()

#: The rewritten functions. Triton's own cache keeps those that its interpreter rewrites without `kernel_source`.
_functions: Final[WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()

#: The interpreter's functions that access memory, with the positions of their addresses, mask and values.
_ACCESSES: Final = {"load": (0, 1, 2), "store": (0, 2, 1), "atomic_rmw": (1, 3, 2), "atomic_cas": (0, None, 2)}


class DeviceAssertionError(Exception):
    """A ``tl.device_assert`` of a kernel does not hold."""


def run_kernel(
    function: Any,
    grid: tuple[int, int, int],
    args: Mapping[str, Any],
    signature: Mapping[str, str],
    memory: Sequence[tuple[int, int]] | None = None,
    *,
    asserts: bool = False,
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
        memory: The host addresses and sizes of the memory that the kernel may access; None to check nothing.
        asserts: Whether to evaluate ``tl.device_assert``, as kernels do that are compiled with ``debug=True``.

    Raises:
        IndexError: The kernel accesses other memory.
        DeviceAssertionError: An assertion of the kernel does not hold.
    """
    from triton.runtime import interpreter

    values = {name: _argument(value, signature.get(name)) for name, value in args.items()}
    with _lock, _interpreting(interpreter, asserts), _checking(interpreter, memory), np.errstate(all="ignore"):
        rewritten = _rewritten(interpreter, function)
        builder: Any = interpreter.interpreter_builder
        builder.set_grid_dim(*grid)
        for x in range(grid[0]):
            for y in range(grid[1]):
                for z in range(grid[2]):
                    builder.set_grid_idx(x, y, z)
                    rewritten(**values)


def _rewritten(interpreter: Any, function: Any) -> Any:
    plain = function.fn
    if plain not in _functions:
        _functions[plain] = interpreter.InterpretedFunction(_with_names(plain)).rewriter.rewrite_ast()
    return _functions[plain]


def _with_names(plain: Any) -> Any:
    """The function with the names of its enclosing functions as global ones: rewritten source has no others."""
    if plain.__closure__ is None:
        return plain
    cells = zip(plain.__code__.co_freevars, plain.__closure__, strict=True)
    names = plain.__globals__ | {name: cell.cell_contents for name, cell in cells}
    return types.FunctionType(plain.__code__, names, plain.__name__, plain.__defaults__, plain.__closure__)


def _argument(value: Any, kind: str | None) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype

    if kind is None or kind == "constexpr":
        return value
    dtype: Any = tl.str_to_ty(kind, None)
    array = np.array([value], dtype=np.uint64 if kind.startswith("*") else _get_np_dtype(dtype))
    return tl.core.tensor(TensorHandle(array, dtype), dtype)


@contextmanager
def _checking(interpreter: Any, memory: Sequence[tuple[int, int]] | None) -> Iterator[None]:
    """Check the addresses of each access; without this, one outside of the arguments can end the process."""
    inner = interpreter._interpreter
    if memory is not None:
        interpreter._interpreter = _CheckedMemory(inner, memory)
    try:
        yield
    finally:
        interpreter._interpreter = inner


class _CheckedMemory:
    """The interpreter's C++ functions, which access only given memory."""

    def __init__(self, inner: Any, memory: Sequence[tuple[int, int]]) -> None:
        self._inner = inner
        ordered = sorted(memory)
        self._starts = np.array([start for start, _ in ordered], np.uint64)
        self._ends = np.array([start + size for start, size in ordered], np.uint64)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._inner, name)
        if name not in _ACCESSES:
            return function
        pointers_at, mask_at, values_at = _ACCESSES[name]

        def access(*args: Any) -> Any:
            mask = None if mask_at is None else args[mask_at]
            self._check(name, args[pointers_at], mask, args[values_at].dtype.itemsize)
            return function(*args)

        return access

    def _check(self, name: str, pointers: Any, mask: Any, size: int) -> None:
        used = pointers if mask is None else pointers[np.broadcast_to(mask, pointers.shape)]
        block = np.searchsorted(self._starts, used, side="right").astype(np.int64) - 1
        is_inside = (block >= 0) & (used + np.uint64(size) <= self._ends[np.maximum(block, 0)])
        if not is_inside.all():
            raise IndexError(f"{name} of an address outside of the memory of its tensors")


def _assert(self: Any, condition: Any, message: str) -> None:
    if not condition.data.all():
        raise DeviceAssertionError(message)


@contextmanager
def _interpreting(interpreter: Any, asserts: bool) -> Iterator[None]:
    """Replace Triton's language by the interpreter's, and calls of other kernels by interpreted calls."""
    import triton.language as tl
    from triton.language.extra import libdevice as empty_functions
    from triton.runtime.jit import JITFunction

    kind: Any = JITFunction
    call = vars(kind)["__call__"]
    scope = interpreter._patch_lang(types.SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    try:
        for module in (tl, tl.core):
            scope.set_attr(module, "reduce", _reduce)
            scope.set_attr(module, "associative_scan", _scan)
        # Inductor, too, compiles without Triton's additional assertions of overflows.
        options = interpreter.InterpreterOptions(debug=asserts, sanitize_overflow=False)
        scope.set_attr(interpreter.interpreter_builder, "options", options)
        scope.set_attr(interpreter.InterpreterBuilder, "create_assert", _assert)
        for name, function in interpreter_ops.builder_methods().items():
            scope.set_attr(interpreter.InterpreterBuilder, name, function)
        scope.set_attr(interpreter.FunctionRewriter, "ast_transformer", kernel_source.transformer())
        scope.set_attr(interpreter.InterpretedFunction, "rewritten_fn", _functions)
        for name, function in kernel_source.semantic_functions().items():
            scope.set_attr(interpreter.interpreter_semantic, name, function)
        for name, function in libdevice.interpreted_functions().items():
            scope.set_attr(empty_functions, name, function)
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

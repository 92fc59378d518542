"""Fresh inputs for each call of a benchmark, and what is observed of one call."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry

from cudalens.device.modes import conjugation
from cudalens.errors import BenchmarkError
from cudalens.fixes.settings import PRECISION, Clock, RandomStates, changed_settings, is_genuine, read_settings
from cudalens.fixes.values import is_equal

#: Bytes of all sets of inputs of a run.
MAX_BYTES: Final = 128 << 20

#: Sets that are compared where contents are permuted.
_CHECKED_SETS: Final = 12

MakeInputs = Callable[[], Sequence[Any]]


class Inputs:
    """Makes sets of arguments that differ in their contents.

    Args:
        given: A function without parameters that returns the arguments of one call, with other contents each time; or
            a tuple of example arguments.

    Raises:
        BenchmarkError: It is neither.
    """

    def __init__(self, given: MakeInputs | Sequence[Any]) -> None:
        self._random = RandomStates()
        self._make: MakeInputs | None = None
        self._num_constant = self._num_tensors = 0
        self._examples: tuple[Any, ...] = ()
        if callable(given):
            self._make = given
        elif isinstance(given, list | tuple):
            self._examples = tuple(given)
        else:
            raise BenchmarkError(
                f"inputs is {type(given).__name__}: expected a function that returns the arguments of one call, with "
                "other contents each time, or a tuple of example arguments."
            )

    @property
    def how(self) -> str:
        """How sets differ, in words."""
        made = "made by inputs() for each call" if self._make else "elements of the examples permuted for each call"
        if not self._num_constant:
            return made
        return f"{made}; {self._num_constant} of {self._num_tensors} tensors have the same contents in each set"

    @property
    def has_examples(self) -> bool:
        """Whether sets are made from examples."""
        return self._make is None

    def fresh(self) -> tuple[Any, ...]:
        """Return a new set of arguments, with random numbers that no seed of the functions determines."""
        with self.own_random():
            return self.make()

    def make(self) -> tuple[Any, ...]:
        """Return a new set of arguments within `own_random`."""
        if self._make is not None:
            made = self._make()
            return tuple(made) if isinstance(made, list | tuple) else (made,)
        return _with_tensors(self._examples, _permuted)

    @contextmanager
    def own_random(self) -> Iterator[None]:
        """Use the random generators of the inputs in the block.

        Their states are large: saved for each set, they take the place of the sets in the CPU's caches.
        """
        outside = RandomStates()
        self._random.restore()
        try:
            yield
        finally:
            self._random = RandomStates()
            outside.restore()

    def spread(self) -> tuple[Any, ...]:
        """Return a set of the same shapes whose contents have another distribution."""
        return _with_tensors(self.fresh(), _spread)

    def check(self) -> None:
        """Check that the contents differ from set to set.

        Raises:
            BenchmarkError: They do not, so a function that returns an old result could not be found.
        """
        # Two orders of a few elements are the same by chance: of 5 zeros and ones, each tenth time.
        sets = [self.fresh() for _ in range(2 if self._make else _CHECKED_SETS)]
        first, *others = [tensors_in(given) for given in sets]
        columns = zip(*others, strict=True)
        is_constant = [all(is_equal(a, b) for b in column) for a, column in zip(first, columns, strict=True)]
        self._num_constant, self._num_tensors = sum(is_constant), len(first)
        if first and all(is_constant):
            hint = "inputs() must return other contents each time" if self._make else "pass a function instead"
            raise BenchmarkError(
                f"the inputs do not vary: two sets have the same contents, so cached results cannot be found; {hint}, "
                "for example inputs=lambda: (torch.randn(1024, device='cuda'),)."
            )


def tensors_in(given: Sequence[Any]) -> list[torch.Tensor]:
    """Return the tensors of a set, also those in lists and dicts."""
    return [one for one in tree_leaves(given) if isinstance(one, torch.Tensor)]


def _with_tensors(given: Sequence[Any], change: Callable[[torch.Tensor], torch.Tensor]) -> tuple[Any, ...]:
    """A set with other tensors in the same lists and dicts."""
    return tuple(tree_map(lambda one: change(one) if isinstance(one, torch.Tensor) else one, tuple(given)))


def copy_set(given: Sequence[Any]) -> tuple[Any, ...]:
    """Return a copy with memory of its own."""
    return _with_tensors(given, _clone)


def write_set(target: Sequence[Any], source: Sequence[Any]) -> None:
    """Write the contents of `source` into the tensors of `target`."""
    with torch.no_grad():
        for one, other in zip(tensors_in(target), tensors_in(source), strict=True):
            one.copy_(other)
            one.grad = None


def num_bytes(given: Sequence[Any]) -> int:
    """Return the bytes of the tensors of a set."""
    return sum(one.numel() * one.element_size() for one in tensors_in(given))


def _clone(tensor: torch.Tensor) -> torch.Tensor:
    copy = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    copy.copy_(tensor.detach())
    return copy.requires_grad_(tensor.requires_grad)


def _permuted(tensor: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        order = torch.randperm(tensor.numel(), device="cpu").to(tensor.device)
        made = _clone(tensor.detach())
        made.copy_(tensor.detach().reshape(-1)[order].reshape(tensor.shape))
    return made.requires_grad_(tensor.requires_grad)


def _spread_integers(tensor: torch.Tensor) -> torch.Tensor:
    """Contents that are uniform between the smallest and the largest integer; a permutation stays one."""
    if len(torch.unique(tensor)) == tensor.numel():
        return tensor
    smallest, largest = int(tensor.min()), int(tensor.max())
    return _clone(tensor).copy_(torch.randint(smallest, largest + 1, tensor.shape, device=tensor.device))


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    """Contents of another distribution: normal, with the mean and the spread of all elements, and no equal rows."""
    if tensor.is_complex():
        with torch.no_grad():
            parts = _spread(torch.view_as_real(tensor.detach().resolve_conj()))
            return _clone(tensor).detach().copy_(torch.view_as_complex(parts)).requires_grad_(tensor.requires_grad)
    if not tensor.is_floating_point():
        return _spread_integers(tensor)
    with torch.no_grad():
        wide = tensor.detach().float()
        scale = wide.std() if wide.numel() > 1 else wide.abs()
        noise = torch.randn(tensor.shape, device=tensor.device)
        made = wide.mean() + (scale + 1e-3) * noise
        low, high = wide.min(), wide.max()
        if bool(low >= 0):  # an element at a limit is none that the examples may have: 0 and 1 equal their squares
            within = low + (high - low) * torch.rand(tensor.shape, device=tensor.device)
            made = torch.where((made < low) | (made > high), within, made)
        copy = _clone(tensor.detach())
        copy.copy_(made)
    return copy.requires_grad_(tensor.requires_grad)


_LOW: Final = frozenset({torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int8})
_FULL: Final = frozenset({torch.float32, torch.float64})

#: Clocks and functions that wait, by what they are called: a program has no reason to replace them.
_TIMERS: Final[tuple[tuple[Any, str], ...]] = (
    (time, "perf_counter"),
    (time, "perf_counter_ns"),
    (time, "time"),
    (time, "monotonic"),
    (torch.cuda, "synchronize"),
    (torch.cuda.Event, "record"),
    (torch.cuda.Event, "synchronize"),
    (torch.cuda.Event, "elapsed_time"),
    (torch.cuda.Stream, "synchronize"),
)
_CHECKED: Final = (torch, torch.nn.functional, torch.Tensor, torch.nn.Module, torch.testing)


@dataclass
class Observed:
    """What one call did.

    Attributes:
        result: Its result.
        num_ops: Number of operators.
        num_bytes: Bytes of the inputs that its operators read, and of the tensors in its result.
        flops: Floating-point operations of its matrix products, convolutions and attention.
        low_dtypes: Dtypes of lower precision that operators computed in.
        own_precision: Settings for the precision of products that differed from those outside, with their values.
        views: Positions in the result, flattened, of tensors in the memory of an input.
        left_streams: Streams with unfinished work after the current stream was done.
        left_threads: Names of threads that it started and that still run.
        is_copying: Whether its result has pinned memory and it returned before its stream was done.
    """

    result: Any = None
    num_ops: int = 0
    num_bytes: int = 0
    flops: int = 0
    low_dtypes: set[torch.dtype] = field(default_factory=set)
    own_precision: dict[str, Any] = field(default_factory=dict)
    views: set[int] = field(default_factory=set)
    left_streams: list[str] = field(default_factory=list)
    left_threads: list[str] = field(default_factory=list)
    is_copying: bool = False


class _Watcher(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operators, and notes their dtypes and streams."""

    def __init__(self, inputs: tuple[Any, ...], *, has_streams: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.observed = Observed()
        self.streams: dict[tuple[int, int], Any] = {}
        self._has_streams = has_streams
        self._precision = read_settings(PRECISION)
        self._inputs = {_key(one): one.numel() * one.element_size() for one in tensors_in(inputs)}
        self._read: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Dynamo is not imported for this mode: the import takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with conjugation(func):
            result = func(*args, **(kwargs or {}))
        observed = self.observed
        observed.num_ops += 1
        tensors = tensors_in((args, kwargs))
        for tensor in tensors:
            key = _key(tensor)
            if key in self._inputs and key not in self._read:
                self._read.add(key)
                observed.num_bytes += self._inputs[key]
        counted = flop_registry.get(func._overloadpacket)
        if counted is not None:
            observed.flops += int(counted(*args, **(kwargs or {}), out_val=result))
            observed.low_dtypes |= {tensor.dtype for tensor in tensors} & _LOW
            now = read_settings(PRECISION)
            observed.own_precision |= {name: one for name, one in now.items() if self._precision.get(name) != one}
        if self._has_streams:
            stream = torch.cuda.current_stream()
            self.streams[stream.device_index, stream.stream_id] = stream
        return result


def observe(function: Callable[..., Any], arguments: tuple[Any, ...], clock: Clock) -> Observed:
    """Call `function` and return what it did.

    Args:
        function: The function.
        arguments: Its arguments.
        clock: The clock of the device.
    """
    has_streams = clock.kind != "cpu"
    before = set(threading.enumerate())
    clock.wait()
    with _Watcher(arguments, has_streams=has_streams) as watcher:
        result = function(*arguments)
    observed = watcher.observed
    observed.result = result
    observed.num_bytes += num_bytes((result,))
    memory = {_key(one) for one in tensors_in(arguments)}
    leaves = enumerate(tree_leaves(result))
    observed.views = {number for number, one in leaves if isinstance(one, torch.Tensor) and _key(one) in memory}
    observed.left_threads = [one.name for one in set(threading.enumerate()) - before if one.is_alive()]
    if has_streams:
        current = torch.cuda.current_stream()
        # A copy into memory that is not pinned is done when its call returns.
        is_pinned = any(one.device.type == "cpu" and one.is_pinned() for one in tensors_in((result,)))
        observed.is_copying = is_pinned and not current.query()
        current.synchronize()
        others = [one for one in watcher.streams.values() if one.stream_id != current.stream_id]
        observed.left_streams = [f"stream {one.stream_id}" for one in others if not one.query()]
    return observed


class Integrity:
    """Functions of torch and of clocks, and settings, as they were before the functions of a benchmark ran."""

    def __init__(self) -> None:
        self._settings = read_settings()
        self._interpreter = _read_interpreter()
        self._functions = {
            (id(owner), name): (owner, value)
            for owner in _CHECKED
            for name, value in vars(owner).items()
            if callable(value) and not name.startswith("__")
        }
        self._timers = [(owner, name, getattr(owner, name, None)) for owner, name in _TIMERS]

    def patched_timers(self) -> list[str]:
        """Return the clocks and waiting functions that were replaced, before the benchmark or in it."""
        return [
            f"{owner.__name__}.{name}"
            for owner, name, before in self._timers
            if before is not None and (getattr(owner, name, None) is not before or not is_genuine(before))
        ]

    def patched_functions(self) -> list[str]:
        """Return the functions of torch that were replaced; torch replaces some itself when it is first used."""
        return [
            f"{owner.__name__}.{name}"
            for (_, name), (owner, before) in self._functions.items()
            if vars(owner).get(name) is not before and not is_genuine(vars(owner).get(name))
        ]

    def changed_settings(self) -> list[str]:
        """Return the settings of torch and of the interpreter that were changed."""
        now = _read_interpreter()
        before = self._interpreter
        of_python = [name for name, value in now.items() if name in before and value != before[name]]
        return [*changed_settings(self._settings), *of_python]


def _read_interpreter() -> dict[str, Any]:
    """Return what slows down or delays all Python code, and the stream on which the reference runs."""
    found: dict[str, Any] = {
        "sys.setswitchinterval": sys.getswitchinterval(),
        "sys.setprofile": sys.getprofile(),
        "sys.settrace": sys.gettrace(),
        "gc": (gc.isenabled(), gc.get_threshold()),
    }
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        found["cores of the process"] = os.sched_getaffinity(0)
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        found["current stream"] = torch.cuda.current_stream()
    return found


def _key(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return id(tensor)


def full_precision(arguments: tuple[Any, ...]) -> bool:
    """Return whether floating-point arguments are all in float32 or float64."""
    dtypes = {one.dtype for one in tensors_in(arguments) if one.is_floating_point()}
    return bool(dtypes) and dtypes <= _FULL

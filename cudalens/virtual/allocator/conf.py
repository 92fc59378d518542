"""Parse the caching allocator's options (PYTORCH_CUDA_ALLOC_CONF).

The grammar is that of ``c10::CachingAllocator::ConfigTokenizer``: text that torch accepts without an error (such as a
missing separator) is accepted, and text that torch refuses is refused with torch's message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, cast

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.allocator.sizes import MIB, NUM_INTERVALS, UNLIMITED

_DEFAULT_LARGE_SEGMENT = 20 * MIB
_NO_ROUNDUP = (0,) * NUM_INTERVALS
_MAX_REGISTER_THREADS = 128


class AllocatorConf(NamedTuple):
    """The options of the caching allocator.

    Attributes:
        text: The text that they were read from.
        max_split_size: Blocks of this many bytes and more are not split (2**64 - 1: all are).
        max_non_split_rounding: By how many bytes such an unsplit block may exceed the request that it serves.
        large_segment_size: Bytes of a segment that serves requests between 1 MiB and 10 MiB.
        garbage_collection_threshold: Share of the allowed memory above which old cached blocks are freed (0: never).
        roundup_power2_divisions: For each power of two from 1 MiB to 32 GiB, the number of parts that it is divided
            into (0: rounding to 512 bytes only).
        expandable_segments: Whether segments grow by mapping pages.
        per_process_memory_fraction: Share of the device that may be reserved.
        release_lock_on_cudamalloc: Only shown in the snapshot's settings; cudaMalloc is modelled as one step.
        graph_capture_record_stream_reuse: Only shown in the snapshot's settings; only False can be modelled.
        pinned_use_cuda_host_register: Only shown in the snapshot's settings.
        pinned_num_register_threads: Only shown in the snapshot's settings.
    """

    text: str = ""
    max_split_size: int = UNLIMITED
    max_non_split_rounding: int = _DEFAULT_LARGE_SEGMENT
    large_segment_size: int = _DEFAULT_LARGE_SEGMENT
    garbage_collection_threshold: float = 0.0
    roundup_power2_divisions: tuple[int, ...] = _NO_ROUNDUP
    expandable_segments: bool = False
    per_process_memory_fraction: float = 1.0
    release_lock_on_cudamalloc: bool = False
    graph_capture_record_stream_reuse: bool = False
    pinned_use_cuda_host_register: bool = False
    pinned_num_register_threads: int = 1


class _Tokens:
    """The tokens of the text: names, values and the separators ``: , [ ]``; blanks are dropped."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = re.findall(r"[,:\[\]]|[^,:\[\]]+", re.sub(r"\s", "", text))

    def __getitem__(self, i: int) -> str:
        if i >= len(self.tokens):
            raise RuntimeError("Index out of bounds in ConfigTokenizer")
        return self.tokens[i]

    def unsigned(self, i: int) -> int:
        match = re.match(r"[+-]?\d+", self[i])
        if match is None:
            raise ValueError("stoull")
        value = int(match[0])
        if abs(value) > UNLIMITED:
            raise IndexError("stoull")
        return value % (UNLIMITED + 1)

    def real(self, i: int) -> float:
        match = re.match(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", self[i])
        if match is None:
            raise ValueError("stod")
        return float(match[0])

    def truth(self, i: int) -> bool:
        if self[i] not in ("True", "False"):
            raise ValueError(f"Expected 'True' or 'False' at index {i} in ConfigTokenizer but got '{self[i]}'")
        return self[i] == "True"


_Values = dict[str, object]
_Reader = Callable[[_Tokens, int, _Values], int]  # takes the index of the value, returns the index of its last token


def _at_least_a_segment(key: str, field: str) -> _Reader:
    def read(tokens: _Tokens, i: int, values: _Values) -> int:
        num_mib, least = tokens.unsigned(i), int(str(values["large_segment_size"])) // MIB
        if num_mib < least:
            raise ValueError(f"CachingAllocator option {key} too small, must be >= {least}")
        values[field] = min(num_mib, UNLIMITED // MIB) * MIB
        return i

    return read


def _large_segment(tokens: _Tokens, i: int, values: _Values) -> int:
    num_mib = tokens.unsigned(i)
    if num_mib <= 10:
        raise ValueError("CachingAllocator option large_segment_size_mb must be > 10 MB")
    values["large_segment_size"] = num_mib * MIB & UNLIMITED  # size_t wraps
    return i


def _gc_threshold(tokens: _Tokens, i: int, values: _Values) -> int:
    value = tokens.real(i)
    if not 0.0 < value < 1.0:
        raise ValueError("garbage_collect_threshold is invalid, set it in (0.0, 1.0)")
    values["garbage_collection_threshold"] = value
    return i


def _memory_fraction(tokens: _Tokens, i: int, values: _Values) -> int:
    value = tokens.real(i)
    if not 0.0 <= value <= 1.0:
        raise ValueError("per_process_memory_fraction is invalid, set it in [0.0, 1.0]")
    values["per_process_memory_fraction"] = value
    return i


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _roundup(tokens: _Tokens, i: int, values: _Values) -> int:
    if tokens[i] == "[":
        divisions = list(cast("tuple[int, ...]", values["roundup_power2_divisions"]))
        i = _roundup_list(tokens, i + 1, divisions)
    else:
        number = tokens.unsigned(i)
        if not _is_power_of_two(number):
            raise ValueError("For roundups, the divisions has to be power of 2 ")
        divisions = [number] * NUM_INTERVALS
    values["roundup_power2_divisions"] = tuple(divisions)
    return i


def _roundup_list(tokens: _Tokens, i: int, divisions: list[int]) -> int:
    last, first = 0, True
    while i < len(tokens.tokens) and tokens[i] != "]":
        number = tokens.unsigned(i + 2)
        if number and not _is_power_of_two(number):
            raise ValueError("For roundups, the divisions has to be power of 2 or 0 to disable roundup ")
        if tokens[i] == ">":
            divisions[last + 1 :] = [number] * (NUM_INTERVALS - 1 - last)
        else:
            num_mib = tokens.unsigned(i)
            if not _is_power_of_two(num_mib):
                raise ValueError("For roundups, the intervals have to be power of 2 ")
            last = min(num_mib.bit_length() - 1, NUM_INTERVALS - 1)
            if first:
                divisions[:last] = [number] * last
            divisions[last], first = number, False
        i += 3
        if tokens[i] != "]":
            i += 1  # the comma
    tokens[i]  # raises if the text ends before the bracket
    return i


def _flag(field: str) -> _Reader:
    def read(tokens: _Tokens, i: int, values: _Values) -> int:
        values[field] = tokens.truth(i)
        return i

    return read


def _only_false(key: str) -> _Reader:
    def read(tokens: _Tokens, i: int, values: _Values) -> int:
        if tokens.truth(i):
            raise VirtualDeviceError(
                f"the allocator option {key}:True is not modelled by the virtual device; "
                "remove it from PYTORCH_CUDA_ALLOC_CONF, or run on a real GPU."
            )
        return i

    return read


def _unsigned_to_nothing(tokens: _Tokens, i: int, values: _Values) -> int:
    tokens.unsigned(i)
    return i


def _register_threads(tokens: _Tokens, i: int, values: _Values) -> int:
    number = tokens.unsigned(i)
    if not _is_power_of_two(number):
        raise ValueError(f"Number of register threads has to be power of 2, got {number}")
    if number > _MAX_REGISTER_THREADS:
        raise ValueError(
            f"Number of register threads should be less than or equal to {_MAX_REGISTER_THREADS}, got {number}"
        )
    values["pinned_num_register_threads"] = number
    return i


def _backend(tokens: _Tokens, i: int, values: _Values) -> int:
    if tokens[i] == "cudaMallocAsync":
        raise VirtualDeviceError(
            "PYTORCH_CUDA_ALLOC_CONF selects backend:cudaMallocAsync, the allocator of the CUDA driver, which the "
            "virtual device does not model; set backend:native (or remove backend) before the device starts."
        )
    if tokens[i] != "native":
        raise ValueError("Unknown allocator backend, options are native and cudaMallocAsync")
    return i


_READERS: dict[str, _Reader] = {
    "max_split_size_mb": _at_least_a_segment("max_split_size_mb", "max_split_size"),
    "max_non_split_rounding_mb": _at_least_a_segment("max_non_split_rounding_mb", "max_non_split_rounding"),
    "large_segment_size_mb": _large_segment,
    "garbage_collection_threshold": _gc_threshold,
    "roundup_power2_divisions": _roundup,
    "expandable_segments": _flag("expandable_segments"),
    "per_process_memory_fraction": _memory_fraction,
    "backend": _backend,
    "release_lock_on_cudamalloc": _flag("release_lock_on_cudamalloc"),
    "release_lock_on_hipmalloc": _flag("release_lock_on_cudamalloc"),
    "graph_capture_record_stream_reuse": _only_false("graph_capture_record_stream_reuse"),
    "throw_on_cudamalloc_oom": _only_false("throw_on_cudamalloc_oom"),
    "pinned_use_cuda_host_register": _flag("pinned_use_cuda_host_register"),
    "pinned_use_hip_host_register": _flag("pinned_use_cuda_host_register"),
    "pinned_num_register_threads": _register_threads,
    "pinned_reserve_segment_size_mb": _unsigned_to_nothing,
    "pinned_max_round_threshold_mb": _unsigned_to_nothing,
    "pinned_max_cached_size_mb": _unsigned_to_nothing,
    "pinned_use_background_threads": _flag("_pinned_use_background_threads"),
    "pinned_free_catch_all": _flag("_pinned_free_catch_all"),
}


def parse_conf(text: str, previous: AllocatorConf | None = None) -> AllocatorConf:
    """Parse options as ``torch._C._accelerator_setAllocatorSettings`` does.

    Args:
        text: ``"max_split_size_mb:128,expandable_segments:True"``.
        previous: The current options, for a change at run time: torch then resets the split, rounding and garbage
            collection options and keeps the others.

    Raises:
        ValueError: An option is unknown or its value is not allowed (torch's message).
        RuntimeError: The text ends where a value was expected (torch's message).
        VirtualDeviceError: The virtual device does not model the option.
    """
    before = previous if previous is not None else AllocatorConf()
    values: _Values = before._asdict() | {
        "text": text,
        "max_split_size": UNLIMITED,
        "max_non_split_rounding": None,
        "garbage_collection_threshold": 0.0,
        "roundup_power2_divisions": _NO_ROUNDUP,
    }
    tokens = _Tokens(text)
    for i, word in enumerate(tokens.tokens):
        if word == "large_segment_size_mb":  # read first, wherever it is in the text: it bounds other options
            _large_segment(tokens, i + 2, values)
    i = 0
    while i < len(tokens.tokens):
        if tokens[i] not in _READERS:
            raise ValueError(f"Unrecognized key '{tokens[i]}' in Accelerator allocator config.")
        i = _READERS[tokens[i]](tokens, i + 2, values) + 2  # past the value and the comma
    if values["max_non_split_rounding"] is None:
        values["max_non_split_rounding"] = values["large_segment_size"]
    return AllocatorConf(**{field: values[field] for field in AllocatorConf._fields})  # type: ignore[arg-type]


def conf_from_environment(environ: Mapping[str, str]) -> AllocatorConf:
    """Return the options in the environment: PYTORCH_CUDA_ALLOC_CONF, else PYTORCH_ALLOC_CONF.

    Raises:
        VirtualDeviceError: PYTORCH_NO_CUDA_MEMORY_CACHING is set, to any value.
    """
    if "PYTORCH_NO_CUDA_MEMORY_CACHING" in environ:
        raise VirtualDeviceError(
            "PYTORCH_NO_CUDA_MEMORY_CACHING disables the caching allocator, which a virtual device models; unset it "
            "before the device starts, or run on a real GPU."
        )
    return parse_conf(environ.get("PYTORCH_CUDA_ALLOC_CONF", environ.get("PYTORCH_ALLOC_CONF", "")))


# Interfaces between the caching allocator and the virtual device: host, fence, recorded action.

PoolId = tuple[int, int]
DEFAULT_POOL: PoolId = (0, 0)


class Fence(Protocol):
    """An event recorded on a stream."""

    def is_done(self) -> bool:
        """Return whether the stream has reached it at the host's current time (cudaEventQuery)."""
        ...

    def wait(self) -> None:
        """Block the host until the stream has reached it (cudaEventSynchronize)."""
        ...


class Host(Protocol):
    """What the allocator of one device needs from the virtual device."""

    def fence(self, stream: int) -> Fence:
        """Record an event on the stream now."""
        ...

    def now_us(self) -> int:
        """Return the virtual time in microseconds."""
        ...

    def is_capturing(self) -> bool:
        """Return whether a CUDA graph is being captured on this device.

        During a capture, frees of blocks that other streams used are deferred.
        """
        ...

    def on_segment(self, action: str, address: int, num_bytes: int) -> None:
        """Notify that device memory was allocated or freed. A segment_free returns when the device is idle.

        Args:
            action: segment_alloc, segment_free, segment_map or segment_unmap.
            address: The first byte.
            num_bytes: The size.
        """
        ...


class Action(NamedTuple):
    """One action of the allocator, with the fields of torch's TraceEntry.

    Attributes:
        kind: alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap,
            snapshot, annotate or oom.
        address: The first byte; for oom, the free bytes of the device; for snapshot, 0.
        num_bytes: For alloc and free, the requested size; for oom, the rounded size; for snapshot, the active bytes.
        stream: The stream's handle.
        time_us: The virtual time.
        pool_id: The memory pool; (0, 0) is the default pool.
        stack: Its stack frames; None if none were recorded.
        block_bytes: For alloc and free, the rounded size of the block; 0 otherwise.
    """

    kind: str
    address: int
    num_bytes: int
    stream: int
    time_us: int
    pool_id: PoolId
    stack: object
    block_bytes: int = 0

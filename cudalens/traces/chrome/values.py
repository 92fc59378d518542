"""Decode the ``args`` of Chrome trace entries into typed columns; categories and the missing integer of the readers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from cudalens.frames import GPU_CATEGORIES, WORK_ELSEWHERE
from cudalens.frames.catalog_frames import KINETO_ARGS
from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import SYNTAX_ERRORS, decode_fields, decoder
from cudalens.frames.limits import Problems

#: A missing integer inside the readers; it becomes <NA> in a frame.
MISSING: Final = -(1 << 63)

#: Times are below this, ns.
MAX_NS: Final = 1 << 62


#: The category in a Trace, by its name in traces of 2021 and of other devices.
CURRENT_CATEGORY: Final = {
    "Operator": "cpu_op",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Runtime": "cuda_runtime",
    "Driver": "cuda_driver",
    "User Annotation": "user_annotation",
    "GPU User Annotation": "gpu_user_annotation",
    "Python": "python_function",
    "Overhead": "overhead",
    # Nodes of a graph that are no work of the device: a function on the host, and the record of an event.
    "graph_host_node": "gpu_user_annotation",
    "graph_event_node": "gpu_user_annotation",
} | WORK_ELSEWHERE

#: Category of entries that are only for viewers and are not events.
MARK: Final = "cudalens_mark"

#: Category of CUPTI's counters for a range or a kernel.
COUNTED: Final = "cuda_profiler_range"

#: Category of an event without one in the file.
UNKNOWN: Final = "unknown"


class Kind(Enum):
    """How the args of an event are interpreted, by its category."""

    OP = "operator or range on a host thread"
    CALL = "runtime or driver call on a host thread"
    DEVICE = "on a device stream"
    PLAIN = "on a host thread, without args of interest"
    OTHER = "unknown category: its args decide"


_OPS: Final = frozenset({"cpu_op", "user_annotation"})
_PLAIN: Final = frozenset({"python_function", "overhead", "Trace", "cpu_instant_event"})


def kind_of(cat: str) -> Kind:
    """Return the kind of a category, given its current name.

    An argument alone never makes an event device work: host calls have ``stream`` arguments too.
    """
    if cat in GPU_CATEGORIES:
        return Kind.DEVICE
    if cat in _OPS:
        return Kind.OP
    if cat.endswith(("_runtime", "_driver")):
        return Kind.CALL
    return Kind.PLAIN if cat in _PLAIN else Kind.OTHER


# The ``args`` of each kind of entry as typed structs.

_Int = int | None
_Float = float | None
_NAN: Final = float("nan")
_UNSET: Final = msgspec.Raw(b"")
_MAX_INT: Final = (1 << 63) - 1
#: Kineto's names for the fields of the structs below; fields with the prefix ``old_`` are from earlier layouts.
_NAMES: Final = {
    **KINETO_ARGS,
    "old_external_id": "external id",
    "old_shapes": "Input dims",
    "old_flops": "flops",
    "old_occupancy_pct": "theoretical occupancy %",
    "copy_kind": "copy kind",
    "source_kind": "src kind",
    "target_kind": "dst kind",
    "memory_kind": "memory kind",
}


class _CallArgs(msgspec.Struct, gc=False, rename=_NAMES):
    external_id: _Int = MISSING
    old_external_id: _Int = MISSING
    correlation: _Int = MISSING


class _OpArgs(
    msgspec.Struct,
    gc=False,
    rename=_NAMES,
):
    external_id: _Int = MISSING
    sequence_nr: _Int = MISSING
    fwd_tid: _Int = MISSING
    shapes: msgspec.Raw = _UNSET
    old_shapes: msgspec.Raw = _UNSET
    dtypes: msgspec.Raw = _UNSET
    flops: _Int = MISSING
    old_flops: _Int = MISSING
    stack: str | None = None
    module: str | None = None
    collective: str | None = None
    process_group: str | None = None
    in_elements: _Int = MISSING
    out_elements: _Int = MISSING
    message_dtype: str | None = None
    group_size: _Int = MISSING
    collective_seq: _Int = MISSING
    src_rank: _Int = MISSING
    dst_rank: _Int = MISSING
    group_ranks: msgspec.Raw = _UNSET
    process_group_description: str | None = None
    in_split_sizes: msgspec.Raw = _UNSET
    out_split_sizes: msgspec.Raw = _UNSET
    concrete_inputs: msgspec.Raw = _UNSET
    kernel_backend: str | None = None
    kernel_hash: str | None = None


class _DeviceArgs(
    msgspec.Struct,
    gc=False,
    rename=_NAMES,
):
    device: _Int = MISSING
    stream: _Int = MISSING
    correlation: _Int = MISSING
    external_id: _Int = MISSING
    old_external_id: _Int = MISSING
    graph_id: _Int = MISSING
    graph_node_id: _Int = MISSING
    wait_stream: _Int = MISSING
    wait_record_id: _Int = MISSING
    num_bytes: _Int = MISSING
    registers: _Int = MISSING
    shared_memory_bytes: _Int = MISSING
    blocks_per_sm: _Float = _NAN
    warps_per_sm: _Float = _NAN
    occupancy_pct: _Float = _NAN
    old_occupancy_pct: _Float = _NAN
    grid: msgspec.Raw = _UNSET
    block_dim: msgspec.Raw = _UNSET
    collective: str | None = None
    process_group: str | None = None
    in_elements: _Int = MISSING
    out_elements: _Int = MISSING
    message_dtype: str | None = None
    group_size: _Int = MISSING
    collective_seq: _Int = MISSING
    src_rank: _Int = MISSING
    dst_rank: _Int = MISSING
    group_ranks: msgspec.Raw = _UNSET
    process_group_description: str | None = None
    in_split_sizes: msgspec.Raw = _UNSET
    out_split_sizes: msgspec.Raw = _UNSET
    # Of PyTorch's writer after Kineto: where work of a graph is on a logical lane, its stream; and kinds of copies.
    original_stream: _Int = MISSING
    copy_kind: str | None = None
    source_kind: str | None = None
    target_kind: str | None = None
    memory_kind: str | None = None


class MemoryArgs(
    msgspec.Struct,
    gc=False,
    rename={
        "device_type": "Device Type",
        "device": "Device Id",
        "addr": "Addr",
        "num_bytes": "Bytes",
        "allocated_bytes": "Total Allocated",
        "reserved_bytes": "Total Reserved",
    },
):
    """The args of a ``[memory]`` instant."""

    device_type: _Int = MISSING
    device: _Int = MISSING
    addr: _Int = MISSING
    num_bytes: _Int = MISSING
    allocated_bytes: _Int = MISSING
    reserved_bytes: _Int = MISSING


class LabelArgs(msgspec.Struct, gc=False):
    """The args of a metadata entry."""

    name: str | None = None
    labels: str | None = None


class _OtherArgs(
    _OpArgs,
    gc=False,
    rename=_NAMES,
):
    device: _Int = MISSING
    stream: _Int = MISSING
    correlation: _Int = MISSING
    old_external_id: _Int = MISSING
    num_bytes: _Int = MISSING


SPECS: Final[dict[Kind, type[msgspec.Struct]]] = {
    Kind.CALL: _CallArgs,
    Kind.OP: _OpArgs,
    Kind.DEVICE: _DeviceArgs,
    Kind.OTHER: _OtherArgs,
}


def decode_args(
    raw: Sequence[msgspec.Raw], spec: Any, problems: Problems, where: str
) -> tuple[list[Any], frozenset[str]]:
    """Decode each of `raw` as a `spec`, and return the structs and the names of the fields that any of them may have.

    Bad values are counted and dropped. Columns are made of the named fields only: most fields are rare, and searching
    for a text is cheap.
    """
    joined = b"[" + b",".join(raw) + b"]"
    present: set[str] = set()
    for searched, fields in _searched_texts(spec):
        if searched in joined:
            present.update(fields)
    try:
        return decoder(list[spec]).decode(joined), frozenset(present)
    except SYNTAX_ERRORS:
        return [decode_fields(bytes(one), spec, problems, where) for one in raw], frozenset(present)


#: The text to search for, of fields that share one search; of other fields it is the quoted key.
_SHARED_TEXTS: Final = {
    "flops": b'lops"',
    "old_flops": b'lops"',
    "graph_id": b'"graph ',
    "graph_node_id": b'"graph ',
    "wait_stream": b'"wait_on_',
    "wait_record_id": b'"wait_on_',
    "in_elements": b' msg nelems"',
    "out_elements": b' msg nelems"',
    "process_group": b"Group ",
    "group_size": b"Group ",
    "group_ranks": b"Group ",
    "process_group_description": b"Group ",
    "in_split_sizes": b" split size",
    "out_split_sizes": b" split size",
    "kernel_backend": b'"kernel_',
    "kernel_hash": b'"kernel_',
}


@cache
def _searched_texts(spec: Any) -> tuple[tuple[bytes, tuple[str, ...]], ...]:
    """Return the texts to search for, and the fields that may be present if a text is found."""
    fields_of: dict[bytes, tuple[str, ...]] = {}
    for field in msgspec.structs.fields(spec):
        searched = _SHARED_TEXTS.get(field.name, f'"{field.encode_name}"'.encode())
        fields_of[searched] = (*fields_of.get(searched, ()), field.name)
    return tuple(fields_of.items())


def integers(decoded: Sequence[Any], field: str) -> tuple[Ints, int]:
    """Column `field` as int64, `MISSING` where unknown; and the number of values that do not fit into 64 bits."""
    get = attrgetter(field)
    try:
        return np.fromiter(map(get, decoded), np.int64, len(decoded)), 0
    except (TypeError, OverflowError):  # null, or larger than 64 bits
        values = [get(one) for one in decoded]
    column = np.full(len(values), MISSING, np.int64)
    num_too_large = 0
    for row, value in enumerate(values):
        if value is None or value == MISSING:
            continue
        if abs(value) > _MAX_INT:
            num_too_large += 1
        else:
            column[row] = value
    return column, num_too_large


def numbers(decoded: Sequence[Any], field: str) -> NDArray[np.float64]:
    """Column `field` as float64, NaN where missing."""
    get = attrgetter(field)
    try:
        return np.fromiter(map(get, decoded), np.float64, len(decoded))
    except TypeError:  # null
        values = [get(one) for one in decoded]
    return np.array([_NAN if value is None else value for value in values], np.float64)


#: With more keys, or more groups of entries that bring a new key or a bad value, each group is searched for its fields.
_MAX_KEYS: Final = 64
_MAX_FAILURES: Final = 32


class Layouts:
    """The keys of the arguments of a file so far.

    Entries are decoded into structs of exactly these keys. A key that is none of them is an error, after which it is
    added. `decode_args` returns the same rows, but searches each text for every field that may occur.
    """

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._keys: dict[Any, frozenset[str]] = {}
        self._num_failures = 0

    def decode(self, raw: Sequence[msgspec.Raw], spec: Any, where: str) -> tuple[list[Any], frozenset[str]]:
        """Each of `raw` with the fields of `spec` that occur, and their names; bad values are counted and dropped."""
        keys = self._keys.get(spec, frozenset())
        if len(keys) > _MAX_KEYS or self._num_failures > _MAX_FAILURES:
            return decode_args(raw, spec, self._problems, where)
        joined = b"[" + b",".join(raw) + b"]"
        try:
            decoder_of_keys, names = _struct_of(spec, keys)
            return decoder_of_keys.decode(joined), names
        except (*SYNTAX_ERRORS, ValueError):  # a ValueError: a key that no struct can have
            self._num_failures += 1

        # A new key or a bad value: add the keys of these entries, for the entries that follow.
        try:
            entries = decoder(list[dict[str, msgspec.Raw]]).decode(joined)
        except SYNTAX_ERRORS:
            return decode_args(raw, spec, self._problems, where)
        self._keys[spec] = keys.union(*entries)
        decoded, _ = decode_args(raw, spec, self._problems, where)
        return decoded, _names_of(spec, self._keys[spec])


def _names_of(spec: Any, keys: frozenset[str]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(spec) if field.encode_name in keys)


@lru_cache(64)
def _struct_of(spec: Any, keys: frozenset[str]) -> tuple[msgspec.json.Decoder[list[Any]], frozenset[str]]:
    """Return the decoder of lists of structs with exactly `keys`, and which fields of `spec` these are.

    Keys that `spec` does not have become fields that are not decoded: without them each would be an error.
    """
    wanted = [field for field in msgspec.structs.fields(spec) if field.encode_name in keys]
    rest = keys.difference(field.encode_name for field in wanted)
    fields: list[Any] = [(field.name, field.type, field.default) for field in wanted]
    names = {field.name: field.encode_name for field in wanted}
    for number, key in enumerate(sorted(rest)):
        fields.append((f"_{number}", msgspec.Raw, msgspec.Raw(b"")))
        names[f"_{number}"] = key
    made = msgspec.defstruct("Args", fields, rename=names, gc=False, forbid_unknown_fields=True)
    return msgspec.json.Decoder(list[made]), _names_of(spec, keys)  # type: ignore[valid-type]

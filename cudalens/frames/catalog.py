"""The column catalog: every column of every frame of a Trace, in one place.

Empty frames, validation at the edges and the table in ``docs/frames.md`` are made from it. No sentinels: what is
unknown is missing (``<NA>``), and `Column.missing` says what missing means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True)
class Column:
    """One column of a frame.

    Attributes:
        name: Column name; a suffix carries the unit where it is not nanoseconds.
        dtype: The pandas dtype by name. ``int64`` and ``bool`` are never missing; ``Int64``, ``Int32``, ``Float32``
            (pandas' masked arrays) and ``category`` may be.
        unit: Physical unit, or "" for a plain number or text.
        meaning: What the value says.
        missing: What ``<NA>`` means, or "never".
        source: Where a Kineto trace carries it.
        names: The frame whose row numbers the values are ("events"), "stacks" for ids of stacks, or "".
        since: Version of saved files that has it first; read from an older file, all its values are missing.
    """

    name: str
    dtype: str
    unit: str
    meaning: str
    missing: str = "never"
    source: str = "computed"
    names: str = ""
    since: int = 1


_NOT_GPU = "not device work"
_NO_SIZE = "not a collective, or not recorded"
_NOT_HOST = "device work has no host thread"

EVENTS: Final = (
    Column("ts", "int64", "ns", "start, from the epoch or from the file's own zero", source="ts"),
    Column("dur", "int64", "ns", "duration; 0 for an instant", source="dur"),
    Column("is_instant", "bool", "", "a point in time, not an interval", source="ph"),
    Column("name", "category", "", "operator, kernel, runtime call or range", source="name"),
    Column("cat", "category", "", "Kineto's category: cpu_op, user_annotation, cuda_runtime, kernel …", source="cat"),
    Column("device", "Int32", "", "device index", _NOT_GPU, "args.device, pid"),
    Column("stream", "Int64", "", "device stream (or queue)", _NOT_GPU, "args.stream, tid"),
    Column("pid", "Int64", "", "process", _NOT_HOST, "pid"),
    Column("tid", "Int64", "", "host thread", "device work, or a lane that has only a label", "tid"),
    Column("thread", "category", "", "label of the host thread or lane", "the trace names none", "thread_name, tid"),
    Column(
        "correlation_id",
        "Int64",
        "",
        "joins a runtime call with the device work that it launched",
        "neither",
        "args.correlation",
    ),
    Column("external_id", "Int64", "", "joins with the operator that was running", "not recorded", "args.External id"),
    Column("sequence_nr", "Int64", "", "autograd sequence number", "no autograd op", "args.Sequence number"),
    Column("fwd_tid", "Int64", "", "torch's id of the forward op's thread", "no backward op", "args.Fwd thread id"),
    Column("graph_id", "Int64", "", "CUDA graph that replayed it", "not from a graph", "args.graph id"),
    Column("graph_node_id", "Int64", "", "node in that graph", "not from a graph", "args.graph node id"),
    Column(
        "parent",
        "Int64",
        "",
        "row of the enclosing event on the same host thread",
        "a root, or device work",
        names="events",
    ),
    Column("depth", "int32", "", "number of ancestors; 0 for a root and for device work"),
    Column("self_dur", "int64", "ns", "dur less that of the children; dur for device work; 0 for asynchronous ranges"),
    Column(
        "launch",
        "Int64",
        "",
        "row of the runtime or driver call that launched it",
        "host work, or not recorded",
        names="events",
    ),
    Column(
        "forward",
        "Int64",
        "",
        "row of the forward operator whose backward this is",
        "no backward function, or its forward was not recorded",
        names="events",
        since=4,
    ),
    Column(
        "wait_stream",
        "Int64",
        "",
        "stream of the CUDA event that is waited for",
        "no wait for a CUDA event, or not recorded",
        "args.wait_on_stream",
        since=4,
    ),
    Column(
        "wait_record_id",
        "Int64",
        "",
        "correlation id of the call that recorded the CUDA event that is waited for",
        "no wait for a CUDA event, or not recorded",
        "args.wait_on_cuda_event_record_corr_id",
        since=4,
    ),
    Column("step", "Int64", "", "profiler step", "outside any step", "ProfilerStep#N"),
    Column("num_bytes", "Int64", "bytes", "moved by a copy, set by a memset", "not a copy", "args.bytes"),
    Column(
        "flops",
        "Int64",
        "",
        "floating-point operations by torch's formulas",
        "no formula or not asked for",
        "args.Flops",
    ),
    Column("shapes", "category", "", "input shapes as JSON text", "not recorded", "args.Input Dims"),
    Column("dtypes", "category", "", "input dtypes as JSON text", "not recorded", "args.Input type"),
    Column("stack", "Int64", "", "id in the stack table", "not recorded", "args.Call stack", "stacks"),
    Column(
        "module",
        "category",
        "",
        "path of nn.Modules that were running",
        "none, or not recorded",
        "args.Module Hierarchy, nn.Module: …",
    ),
    Column("grid", "category", "", "launch grid, as [x,y,z]", "not a kernel", "args.grid"),
    Column("block_dim", "category", "", "thread block, as [x,y,z]", "not a kernel", "args.block"),
    Column("registers", "Int32", "", "registers per thread", "not a kernel", "args.registers per thread"),
    Column("shared_memory_bytes", "Int64", "bytes", "per block", "not a kernel", "args.shared memory"),
    Column("blocks_per_sm", "Float32", "", "blocks over multiprocessors", "not a kernel", "args.blocks per SM"),
    Column("warps_per_sm", "Float32", "", "warps over multiprocessors", "not a kernel", "args.warps per SM"),
    Column(
        "occupancy_pct",
        "Float32",
        "%",
        "estimated achieved occupancy",
        "not a kernel",
        "args.est. achieved occupancy %",
    ),
    Column("collective", "category", "", "collective operation", "not a collective", "args.Collective name"),
    Column("process_group", "category", "", "process group", "not a collective", "args.Process Group Name"),
    Column("in_elements", "Int64", "", "elements that a rank puts in", _NO_SIZE, "args.In msg nelems", since=4),
    Column("out_elements", "Int64", "", "elements that a rank gets out", _NO_SIZE, "args.Out msg nelems", since=4),
    Column("message_dtype", "category", "", "dtype of these", _NO_SIZE, "args.dtype", since=4),
    Column("group_size", "Int64", "", "ranks of the process group", _NO_SIZE, "args.Group size", since=4),
)


def _since(version: int, *columns: Column) -> tuple[Column, ...]:
    return tuple(replace(column, since=version) for column in columns)


def _pool_id(missing: str) -> tuple[Column, Column]:
    """The two numbers of torch's pool id, which graphs and ``torch.cuda.MemPool`` call (first, second)."""
    return (
        Column(
            "pool_id_first",
            "Int64",
            "",
            "first number of the pool's id: not 0 for a pool that a graph capture made; (0, 0) is the usual pool",
            missing,
        ),
        Column(
            "pool_id_second",
            "Int64",
            "",
            "second number: not 0 for a pool that the program made (MemPool, graph_pool_handle)",
            missing,
        ),
    )


MEMORY: Final = (
    Column("ts", "int64", "ns", "when, on the events' clock", source="ts"),
    Column(
        "action",
        "category",
        "",
        "alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap, oom, snapshot",
    ),
    Column("device_type", "category", "", "cpu, cuda, …", "not recorded", "args.Device Type"),
    Column("device", "Int32", "", "device index", "host memory", "args.Device Id"),
    Column("addr", "UInt64", "", "address", "not recorded", "args.Addr"),
    Column(
        "num_bytes",
        "int64",
        "bytes",
        "size of the action, never negative; in a snapshot's history the requested size, not the block's",
        source="args.Bytes",
    ),
    Column("allocated_bytes", "Int64", "bytes", "allocated after it", "not recorded", "args.Total Allocated"),
    Column("reserved_bytes", "Int64", "bytes", "reserved after it", "not recorded", "args.Total Reserved"),
    Column("pid", "Int64", "", "process", "not recorded", "pid"),
    Column("tid", "Int64", "", "host thread", "not recorded", "tid"),
    Column(
        "event", "Int64", "", "row of the innermost event running on that thread", "none was running", names="events"
    ),
    *_since(
        3,
        Column("stream", "Int64", "", "torch.cuda.Stream.cuda_stream; 0 is the default stream", "not recorded"),
        *_pool_id("not recorded, and no segment of the snapshot holds the address"),
        Column("active_bytes", "Int64", "bytes", "allocated, or waiting for a stream, after it", "not recorded"),
        Column("requested_bytes", "Int64", "bytes", "active after it, less what sizes are rounded by", "not recorded"),
        Column("device_free_bytes", "Int64", "bytes", "free on the device when an allocation failed", "no oom"),
        Column("user_metadata", "category", "", "text that the program set for it", "none, or not recorded"),
        Column("compile_context", "category", "", "frame that torch.compile compiled", "none, or not recorded"),
        Column("stack", "Int64", "", "id of its call stack", "not recorded", names="stacks"),
        Column("extra", "category", "", "fields unknown to cudalens, as JSON text", "none"),
    ),
)

BLOCKS: Final = _since(
    3,
    Column("device_type", "category", "", "cuda, …", "not recorded"),
    Column("device", "Int32", "", "device index", "not recorded"),
    Column("segment_addr", "UInt64", "", "address of its segment, which names the segment", "not recorded"),
    Column("segment_bytes", "int64", "bytes", "size of its segment"),
    Column("segment_type", "category", "", "small or large: which of the two block pools", "not recorded"),
    *_pool_id("not recorded"),
    Column("is_expandable", "bool", "", "its segment is expandable"),
    Column("segment_stack", "Int64", "", "id of the call stack that made the segment", "not recorded", names="stacks"),
    Column("stream", "Int64", "", "torch.cuda.Stream.cuda_stream of its segment", "not recorded"),
    Column("addr", "UInt64", "", "address", "not recorded"),
    Column("num_bytes", "int64", "bytes", "size of the block"),
    Column("requested_bytes", "Int64", "bytes", "size that the program requested", "inactive, or not recorded"),
    Column("state", "category", "", "active_allocated, active_pending_free (waits for a stream), inactive", "unknown"),
    Column("allocated_ns", "Int64", "ns", "when it was allocated", "inactive, before history began, or no times"),
    Column("alloc", "Int64", "", "row of its allocation", "inactive, or before history began", names="memory"),
    Column("stack", "Int64", "", "id of the call stack that allocated it", "not recorded", names="stacks"),
    Column(
        "category",
        "category",
        "",
        "parameter, gradient, optimizer state, activation, input, temporary, graph pool, workspace",
        "unknown",
    ),
    Column("names", "category", "", "variables that hold tensors in it, as a JSON list of text", "none known"),
    Column("num_tensors", "Int64", "", "live tensors in it", "not looked for"),
    Column("graph", "category", "", "CUDA graphs whose private pool holds it", "none known"),
    Column("cell", "category", "", "notebook cell that allocated it, as In[7]", "not recorded"),
    Column("user_metadata", "category", "", "text that the program set when it was allocated", "none, or not recorded"),
    Column("extra", "category", "", "fields unknown to cudalens, as JSON text", "none"),
)

#: States of a block, by torch's names; older documentation writes active_awaiting_free for the second.
BLOCK_STATES: Final = ("active_allocated", "active_pending_free", "inactive")

#: What a block may be there for; missing where it cannot be told.
BLOCK_CATEGORIES: Final = (
    "parameter",
    "gradient",
    "optimizer state",
    "activation",
    "input",
    "temporary",
    "graph pool",
    "workspace",
)

STACKS: Final = (
    Column("stack", "int64", "", "id of the stack; the rows of one stack are consecutive"),
    Column("position", "int32", "", "0 is the innermost stack frame"),
    Column("file", "category", "", "source file or notebook cell"),
    Column("line", "Int32", "", "line number", "native code"),
    Column("function", "category", "", "function", "not recorded"),
    *_since(3, Column("extra", "category", "", "further fields (an FX node, for example), as JSON text", "nothing")),
)

_NO_SHAPE = "not known"
_NO_STREAM = "the host, or a line of work that is not a torch stream"


def _access(side: str, which: str) -> tuple[Column, ...]:
    """Columns of one of the two accesses of a race."""
    return (
        Column(f"{side}_op", "category", "", f"operator of the {which} access", "not recorded"),
        Column(f"{side}_argument", "category", "", "its argument that is the tensor", "not recorded"),
        Column(f"{side}_is_write", "bool", "", "it writes"),
        Column(f"{side}_device", "Int32", "", "device index", "the host"),
        Column(f"{side}_stream", "Int64", "", "torch.cuda.Stream.cuda_stream; 0 is the default stream", _NO_STREAM),
        Column(f"{side}_stream_name", "category", "", "the stream as reports call it"),
        Column(f"{side}_tensor", "category", "", "the tensor as reports call it"),
        Column(f"{side}_shape", "category", "", "its shape as JSON text", _NO_SHAPE),
        Column(f"{side}_stride", "category", "", "its strides in elements as JSON text", f"contiguous, or {_NO_SHAPE}"),
        Column(f"{side}_dtype", "category", "", "its dtype", _NO_SHAPE),
        Column(f"{side}_low_byte", "int64", "bytes", "first byte touched, from the start of its block"),
        Column(f"{side}_high_byte", "int64", "bytes", "last byte touched, from the start of its block"),
        Column(f"{side}_place", "category", "", "user's place, as In[7]:3 or file:line", "not recorded"),
        Column(f"{side}_source", "category", "", "that line of source", "not to be had"),
        Column(f"{side}_stack", "Int64", "", "id of its call stack", "not recorded", names="stacks"),
    )


RACES: Final = (
    Column("ts", "Int64", "ns", "when it was first seen, on the events' clock", "not recorded"),
    Column("kind", "category", "", "read after write, write after read, use after free, host access …"),
    Column("count", "int64", "", "how often it was seen"),
    Column("is_suppressed", "bool", "", "a suppression fits it"),
    *_access("first", "earlier"),
    *_access("second", "later"),
    Column("overlap_low_byte", "int64", "bytes", "first byte that both touch, from the start of the second's block"),
    Column("overlap_high_byte", "int64", "bytes", "last byte that both touch"),
    Column("overlap_bytes", "Int64", "bytes", "number of bytes that both touch", "strided beyond counting"),
    Column("block_bytes", "Int64", "bytes", "size of the second's block", "not recorded"),
    Column("block_name", "category", "", "its name", "it has none"),
    *(
        column
        for act, meaning in (("alloc", "the second's block was allocated"), ("free", "the first's block was freed"))
        for column in (
            Column(f"{act}_place", "category", "", f"where {meaning}", "not recorded"),
            Column(f"{act}_source", "category", "", "that line of source", "not to be had"),
            Column(f"{act}_stack", "Int64", "", "id of the call stack there", "not recorded", names="stacks"),
        )
    ),
    Column("between", "category", "", "what happened on both streams from first to second, as JSON", "not recorded"),
    Column("fix", "category", "", "what to do, in words; checked on the recorded run", "none was found"),
    Column("fix_diff", "category", "", "that as a unified diff of the source", "it cannot be written as one"),
    *_since(
        4,
        Column(
            "value_verdict", "category", "", "whether it shows in values: confirmed, benign, unknown", "not explored"
        ),
        Column(
            "num_schedules", "Int64", "", "orders that were tried with its accesses the other way round", "not explored"
        ),
        Column("differs", "category", "", "values that differ in the order that confirms it, as JSON", "none does"),
        Column("schedule", "category", "", "that order: its seed and tasks, as JSON", "there is none"),
    ),
)

_NO_GRAPH = "not a recording"

GRAPHS: Final = (
    Column(
        "kind",
        "category",
        "",
        "function, recording (a CUDA graph), path (a way that calls took), skip, rerecord, warning",
    ),
    Column("function", "category", "", "name of the function"),
    Column("function_id", "int64", "", "number of the function within its manager"),
    Column("variant", "category", "", "the shapes and values of arguments that it is specialised on", "a function"),
    Column("node", "Int64", "", "number of the recording", _NO_GRAPH),
    Column("parent", "Int64", "", "number of the recording that comes before it", "a root, or not a recording"),
    Column("depth", "Int64", "", "number of recordings above it", _NO_GRAPH),
    Column("mode", "category", "", "inference, forward or backward", "not known"),
    Column("state", "category", "", "eager, warm, recorded; of a recording: current, on the path, idle", "an event"),
    Column("count", "int64", "", "calls of a function, replays of a recording, times of the rest"),
    Column("num_warmups", "Int64", "", "calls that warmed up", "not a function"),
    Column("num_recordings", "Int64", "", "calls that recorded", "not a function"),
    Column("num_replays", "Int64", "", "calls that replayed", "not a function"),
    Column("num_eager", "Int64", "", "calls that ran without a graph", "not a function"),
    Column("reason", "category", "", "why: a cudalens.graphs.Reason", "nothing kept it from replaying"),
    Column("detail", "category", "", "that in a sentence, with names and numbers", "nothing to say"),
    Column("advice", "category", "", "what to do about it", "nothing to do"),
    Column("place", "category", "", "the line that caused it, as In[7]:3 or file:line", "not to be had"),
    Column("source", "category", "", "that line of source", "not to be had"),
    Column("path", "category", "", "recordings from root to end as a JSON list", "not a path"),
    Column("device", "Int32", "", "device index", "never called"),
    Column("pool", "category", "", "id of the memory pool, as [a, b]", "no pool yet"),
    Column("pool_bytes", "Int64", "bytes", "handed out in the pool when it had been recorded", _NO_GRAPH),
    Column("reserved_bytes", "Int64", "bytes", "reserved by the whole pool now", "no pool yet"),
    Column("num_kernels", "Int64", "", "operators that launch work, seen while it was recorded", _NO_GRAPH),
    Column("num_static_inputs", "Int64", "", "tensors that it uses where they lie", _NO_GRAPH),
    Column("num_copied_inputs", "Int64", "", "tensors that each replay copies into its buffers", _NO_GRAPH),
    Column("copied_bytes", "Int64", "bytes", "size of those", _NO_GRAPH),
    Column("num_outputs", "Int64", "", "tensors that it returns", _NO_GRAPH),
    Column("num_live_outputs", "Int64", "", "number of those that are still referenced", "not on the current path"),
    Column("record_ns", "Int64", "ns", "host time of the recording", _NO_GRAPH),
    Column("eager_ns", "Int64", "ns", "device time of a call without a graph", "not measured"),
    Column("replay_ns", "Int64", "ns", "device time of a call that replays, median", "not measured"),
    Column("is_equal", "boolean", "", "a replay gave bit by bit what a call without a graph gives", "not checked"),
    Column("max_abs_diff", "Float64", "", "largest difference of the two", "not checked, or equal in kind only"),
    Column("first_diff", "category", "", "the first element that differs, with both values", "equal, or not checked"),
)

SYNCS: Final = (
    Column("ts", "int64", "ns", "when the host began to wait, on the events' clock"),
    Column("dur", "Int64", "ns", "until it went on", "the end was not recorded"),
    Column(
        "gpu_dur", "Int64", "ns", "of it, while the GPU was at work on what had been issued", "no device work recorded"
    ),
    Column("kind", "category", "", "what it waited in: a cudalens.frames.SyncKind"),
    Column("op", "category", "", "operator that the program called, e.g. aten::item", "no operator"),
    Column("call", "category", "", "runtime calls that blocked", "not recorded"),
    Column("place", "category", "", "user's place, as In[7]:3 or file:line", "not recorded"),
    Column("source", "category", "", "that line of source", "not to be had"),
    Column("expression", "category", "", "the very expression in it", "not to be had"),
    Column("stack", "Int64", "", "id of the call stack", "not recorded", names="stacks"),
    Column("device", "Int32", "", "device index", "not recorded"),
    Column(
        "stream", "Int64", "", "stream that was waited for, as in the events", "a device or an event, or not recorded"
    ),
    Column("num_bytes", "Int64", "bytes", "copied", "no copy, or not recorded"),
    Column("pid", "Int64", "", "process", "not recorded"),
    Column("tid", "Int64", "", "host thread that waited", "not recorded"),
    Column("event", "Int64", "", "row of the runtime call that took longest", "not recorded", names="events"),
    Column("seen_by", "category", "", "who saw it: callback, warning (torch's sync debug mode), runtime"),
)

_NOT_TOLD = "not reported by the GPU or its driver, or not permitted"
METRICS: Final = (
    Column("ts", "int64", "ns", "when it was read, on the events' clock"),
    Column("device", "Int32", "", "device index", "a GPU that the program does not see"),
    Column("physical_index", "Int32", "", "number of the GPU in NVML's order, before CUDA_VISIBLE_DEVICES"),
    Column(
        "gpu_busy_pct", "Float32", "%", "share of time in which a kernel ran (NVML: the last 1/6 to 1 s)", _NOT_TOLD
    ),
    Column("memory_busy_pct", "Float32", "%", "share of time in which device memory was read or written", _NOT_TOLD),
    Column("memory_used_bytes", "Int64", "bytes", "memory in use, by all processes", _NOT_TOLD),
    Column("temperature_celsius", "Float32", "°C", "of the GPU", _NOT_TOLD),
    Column("power_watts", "Float32", "W", "what it draws", _NOT_TOLD),
    Column("clock_mhz", "Int32", "MHz", "clock of the multiprocessors", _NOT_TOLD),
    Column("memory_clock_mhz", "Int32", "MHz", "clock of the memory", _NOT_TOLD),
    Column("slowed_by", "category", "", 'what holds the clocks down: power cap, heat …; "" for nothing', _NOT_TOLD),
)

FRAMES: Final[Mapping[str, tuple[Column, ...]]] = {
    "events": EVENTS,
    "memory": MEMORY,
    "stacks": STACKS,
    "races": RACES,
    "graphs": GRAPHS,
    "blocks": BLOCKS,
    "syncs": SYNCS,
    "metrics": METRICS,
}

#: Version of saved files that has a frame first; 1 for the others.
FRAMES_SINCE: Final[Mapping[str, int]] = {"races": 2, "blocks": 3, "graphs": 3, "metrics": 3, "syncs": 3}


#: Columns of the events that a Kineto trace carries in ``args``, and its names for them; for readers and writers.
KINETO_ARGS: Final[Mapping[str, str]] = {
    c.name: c.source.removeprefix("args.").split(", ")[0] for c in EVENTS if c.source.startswith("args.")
}


def columns_of(frame: str) -> tuple[Column, ...]:
    """Columns of the frame named `frame`, in order."""
    return FRAMES[frame]

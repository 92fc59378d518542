"""The column catalog: every column of every frame of a Trace, in one place.

Empty frames, validation and the tables in ``docs/frames.md`` are made from it. There are no sentinels: what is unknown
is missing (``<NA>``), and `Column.missing` is what missing means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

_UNITS: Final = {
    "ts": "ns",
    "dur": "ns",
    "ns": "ns",
    "bytes": "bytes",
    "byte": "bytes",
    "pct": "%",
    "celsius": "°C",
    "watts": "W",
    "mhz": "MHz",
}


@dataclass(frozen=True)
class Column:
    """One column of a frame.

    Attributes:
        name: Column name; a suffix carries the unit where it is not nanoseconds.
        dtype: The pandas dtype by name. ``int64`` and ``bool`` are never missing; ``Int64``, ``Int32``, ``Float32``
            (pandas' masked arrays) and ``category`` may be.
        meaning: What the value is.
        missing: What ``<NA>`` means, or "never".
        source: Where a Kineto trace carries it.
        names: The frame whose row numbers the values are ("events"), "stacks" for ids of stacks, or "".
        since: First version of saved files that has it; read from an older file, all its values are missing.
    """

    name: str
    dtype: str
    meaning: str
    missing: str = "never"
    source: str = "computed"
    names: str = ""
    since: int = 1

    @property
    def unit(self) -> str:
        """Physical unit, by the name's suffix; "" for a plain number or text."""
        return _UNITS.get(self.name.rpartition("_")[2], "")


_NOT_GPU = "not device work"
_NO_SIZE = "not a collective, or not recorded"
_NOT_HOST = "device work has no host thread"
_NO_WAIT = "not a wait for a CUDA event, or not recorded"

EVENTS: Final = (
    Column("ts", "int64", "start, from the epoch or from the file's own zero", source="ts"),
    Column("dur", "int64", "duration; 0 for an instant", source="dur"),
    Column("is_instant", "bool", "a point in time, not an interval", source="ph"),
    Column("name", "category", "operator, kernel, runtime call or range", source="name"),
    Column("cat", "category", "Kineto's category: cpu_op, user_annotation, cuda_runtime, kernel …", source="cat"),
    Column("device", "Int32", "device index", _NOT_GPU, "args.device, pid"),
    Column("stream", "Int64", "device stream (or queue)", _NOT_GPU, "args.stream, tid"),
    Column("pid", "Int64", "process", _NOT_HOST, "pid"),
    Column("tid", "Int64", "host thread", "device work, or a thread with a label only", "tid"),
    Column("thread", "category", "label of the host thread", "not recorded", "thread_name, tid"),
    Column(
        "correlation_id",
        "Int64",
        "joins a runtime call with the device work that it launched",
        "neither",
        "args.correlation",
    ),
    Column("external_id", "Int64", "joins with the operator that was running", "not recorded", "args.External id"),
    Column("sequence_nr", "Int64", "autograd sequence number", "no autograd op", "args.Sequence number"),
    Column("fwd_tid", "Int64", "torch's id of the forward op's thread", "no backward op", "args.Fwd thread id"),
    Column("graph_id", "Int64", "CUDA graph that replayed it", "not from a graph", "args.graph id"),
    Column("graph_node_id", "Int64", "node in that graph", "not from a graph", "args.graph node id"),
    Column("parent", "Int64", "row of the enclosing event of the thread", "a root, or device work", names="events"),
    Column("depth", "int32", "number of ancestors; 0 for a root and for device work"),
    Column("self_dur", "int64", "dur minus that of the children; dur for device work; 0 for asynchronous ranges"),
    Column(
        "launch", "Int64", "row of the runtime or driver call that launched it", "host work, or unknown", names="events"
    ),
    Column(
        "forward",
        "Int64",
        "row of the forward operator of this backward function",
        "not a backward function, or not recorded",
        names="events",
        since=4,
    ),
    Column(
        "wait_stream", "Int64", "stream of the CUDA event that is waited for", _NO_WAIT, "args.wait_on_stream", since=4
    ),
    Column(
        "wait_record_id",
        "Int64",
        "correlation id of the call that recorded that CUDA event",
        _NO_WAIT,
        "args.wait_on_cuda_event_record_corr_id",
        since=4,
    ),
    Column("step", "Int64", "profiler step", "outside any step", "ProfilerStep#N"),
    Column("num_bytes", "Int64", "moved by a copy, set by a memset", "not a copy", "args.bytes"),
    Column("flops", "Int64", "floating-point operations, by torch's formulas", "no formula, or unknown", "args.Flops"),
    Column("shapes", "category", "input shapes as JSON text", "not recorded", "args.Input Dims"),
    Column("dtypes", "category", "input dtypes as JSON text", "not recorded", "args.Input type"),
    Column("stack", "Int64", "id in the stack table", "not recorded", "args.Call stack", "stacks"),
    Column(
        "module", "category", "path of the running nn.Modules", "not recorded", "args.Module Hierarchy, nn.Module: …"
    ),
    Column("grid", "category", "launch grid, as [x,y,z]", "not a kernel", "args.grid"),
    Column("block_dim", "category", "thread block, as [x,y,z]", "not a kernel", "args.block"),
    Column("registers", "Int32", "registers per thread", "not a kernel", "args.registers per thread"),
    Column("shared_memory_bytes", "Int64", "per block", "not a kernel", "args.shared memory"),
    Column("blocks_per_sm", "Float32", "thread blocks per multiprocessor", "not a kernel", "args.blocks per SM"),
    Column("warps_per_sm", "Float32", "warps per multiprocessor", "not a kernel", "args.warps per SM"),
    Column(
        "occupancy_pct", "Float32", "estimated achieved occupancy", "not a kernel", "args.est. achieved occupancy %"
    ),
    Column("collective", "category", "collective operation", "not a collective", "args.Collective name"),
    Column("process_group", "category", "process group", "not a collective", "args.Process Group Name"),
    Column("in_elements", "Int64", "input elements of a rank", _NO_SIZE, "args.In msg nelems", since=4),
    Column("out_elements", "Int64", "output elements of a rank", _NO_SIZE, "args.Out msg nelems", since=4),
    Column("message_dtype", "category", "dtype of these elements", _NO_SIZE, "args.dtype", since=4),
    Column("group_size", "Int64", "ranks in the process group", _NO_SIZE, "args.Group size", since=4),
    Column("collective_seq", "Int64", "number of the collective in its process group", _NO_SIZE, "args.Seq", since=5),
    Column("src_rank", "Int64", "rank that sends", "not a send or receive", "args.Src Rank", since=5),
    Column("dst_rank", "Int64", "rank that receives", "not a send or receive", "args.Dst Rank", since=5),
    Column(
        "group_ranks", "category", "ranks of the process group, as JSON", _NO_SIZE, "args.Process Group Ranks", since=5
    ),
)


def _since(version: int, *columns: Column) -> tuple[Column, ...]:
    return tuple(replace(column, since=version) for column in columns)


def _pool_id(missing: str) -> tuple[Column, Column]:
    """The two numbers of torch's pool id, which graphs and ``torch.cuda.MemPool`` call (first, second)."""
    return (
        Column(
            "pool_id_first",
            "Int64",
            "first number of the pool's id: not 0 for the pool of a graph capture; (0, 0) is the default pool",
            missing,
        ),
        Column(
            "pool_id_second",
            "Int64",
            "second number: not 0 for a pool that the program created (MemPool, graph_pool_handle)",
            missing,
        ),
    )


MEMORY: Final = (
    Column("ts", "int64", "time, on the events' clock", source="ts"),
    Column(
        "action",
        "category",
        "alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap, oom, snapshot",
    ),
    Column("device_type", "category", "cpu, cuda, …", "not recorded", "args.Device Type"),
    Column("device", "Int32", "device index", "host memory", "args.Device Id"),
    Column("addr", "UInt64", "address", "not recorded", "args.Addr"),
    Column(
        "num_bytes",
        "int64",
        "size of the action, never negative; in a snapshot's history the requested size, not the block's",
        source="args.Bytes",
    ),
    Column("allocated_bytes", "Int64", "allocated after it", "not recorded", "args.Total Allocated"),
    Column("reserved_bytes", "Int64", "reserved after it", "not recorded", "args.Total Reserved"),
    Column("pid", "Int64", "process", "not recorded", "pid"),
    Column("tid", "Int64", "host thread", "not recorded", "tid"),
    Column("event", "Int64", "row of the innermost event running on that thread", "none was running", names="events"),
    *_since(
        3,
        Column("stream", "Int64", "torch.cuda.Stream.cuda_stream; 0 is the default stream", "not recorded"),
        *_pool_id("not recorded, and no segment of the snapshot holds the address"),
        Column(
            "active_bytes", "Int64", "active after it: allocated, or freed and waiting for a stream", "not recorded"
        ),
        Column("requested_bytes", "Int64", "requested sizes of the active blocks after it", "not recorded"),
        Column("device_free_bytes", "Int64", "free on the device when an allocation failed", "not an oom"),
        Column("user_metadata", "category", "text that the program set for it", "none, or not recorded"),
        Column("compile_context", "category", "stack frame that torch.compile compiled", "none, or not recorded"),
        Column("stack", "Int64", "id of its call stack", "not recorded", names="stacks"),
        Column("extra", "category", "fields unknown to cudalens, as JSON text", "none"),
    ),
)

BLOCKS: Final = _since(
    3,
    Column("device_type", "category", "cuda, …", "not recorded"),
    Column("device", "Int32", "device index", "not recorded"),
    Column("segment_addr", "UInt64", "address of its segment, which identifies the segment", "not recorded"),
    Column("segment_bytes", "int64", "size of its segment"),
    Column("segment_type", "category", "block pool: small or large", "not recorded"),
    *_pool_id("not recorded"),
    Column("is_expandable", "bool", "its segment is expandable"),
    Column("segment_stack", "Int64", "id of the call stack that allocated the segment", "not recorded", names="stacks"),
    Column("stream", "Int64", "torch.cuda.Stream.cuda_stream of its segment", "not recorded"),
    Column("addr", "UInt64", "address", "not recorded"),
    Column("num_bytes", "int64", "size of the block"),
    Column("requested_bytes", "Int64", "size that the program requested", "inactive, or not recorded"),
    Column("state", "category", "active_allocated, active_pending_free (waits for a stream), inactive", "unknown"),
    Column("allocated_ns", "Int64", "when it was allocated", "inactive, before history began, or no times"),
    Column("alloc", "Int64", "row of its allocation", "inactive, or before history began", names="memory"),
    Column("stack", "Int64", "id of the call stack that allocated it", "not recorded", names="stacks"),
    Column(
        "category",
        "category",
        "parameter, gradient, optimizer state, activation, input, temporary, graph pool, workspace",
        "unknown",
    ),
    Column("names", "category", "variables that hold tensors in it, as a JSON list of text", "none known"),
    Column("num_tensors", "Int64", "live tensors in it", "not determined"),
    Column("graph", "category", "CUDA graphs whose private pool it is in", "none known"),
    Column("cell", "category", "notebook cell that allocated it, as In[7]", "not recorded"),
    Column("user_metadata", "category", "text that the program set when it was allocated", "none, or not recorded"),
    Column("extra", "category", "fields unknown to cudalens, as JSON text", "none"),
)

#: States of a block, by torch's names; older documentation writes active_awaiting_free for the second.
BLOCK_STATES: Final = ("active_allocated", "active_pending_free", "inactive")

#: Uses of a block; missing if unknown.
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
    Column("stack", "int64", "id of the stack; the rows of one stack are consecutive"),
    Column("position", "int32", "0 is the innermost stack frame"),
    Column("file", "category", "source file or notebook cell"),
    Column("line", "Int32", "line number", "native code"),
    Column("function", "category", "function", "not recorded"),
    *_since(3, Column("extra", "category", "further fields (an FX node, for example), as JSON text", "nothing")),
)

_NO_SHAPE = "not known"
_NO_STREAM = "the host, or not a torch stream"


def _access(side: str, which: str) -> tuple[Column, ...]:
    """Columns of one of the two accesses of a race."""
    return (
        Column(f"{side}_op", "category", f"operator of the {which} access", "not recorded"),
        Column(f"{side}_argument", "category", "argument of the operator", "not recorded"),
        Column(f"{side}_is_write", "bool", "whether it writes"),
        Column(f"{side}_device", "Int32", "device index", "the host"),
        Column(f"{side}_stream", "Int64", "torch.cuda.Stream.cuda_stream; 0 is the default stream", _NO_STREAM),
        Column(f"{side}_stream_name", "category", "name of the stream in reports"),
        Column(f"{side}_tensor", "category", "name of the tensor in reports"),
        Column(f"{side}_shape", "category", "its shape as JSON text", _NO_SHAPE),
        Column(f"{side}_stride", "category", "its strides in elements as JSON text", f"contiguous, or {_NO_SHAPE}"),
        Column(f"{side}_dtype", "category", "its dtype", _NO_SHAPE),
        Column(f"{side}_low_byte", "int64", "first byte touched, from the start of its block"),
        Column(f"{side}_high_byte", "int64", "last byte touched, from the start of its block"),
        Column(f"{side}_place", "category", "line of the user's code, as In[7]:3 or file:line", "not recorded"),
        Column(f"{side}_source", "category", "that line of source", "source not available"),
        Column(f"{side}_stack", "Int64", "id of its call stack", "not recorded", names="stacks"),
    )


RACES: Final = (
    Column("ts", "Int64", "time of its first occurrence, on the events' clock", "not recorded"),
    Column("kind", "category", "read after write, write after read, use after free, host access …"),
    Column("count", "int64", "number of occurrences"),
    Column("is_suppressed", "bool", "a suppression matches it"),
    *_access("first", "earlier"),
    *_access("second", "later"),
    Column("overlap_low_byte", "int64", "first byte that both touch, from the start of the second's block"),
    Column("overlap_high_byte", "int64", "last byte that both touch"),
    Column("overlap_bytes", "Int64", "number of bytes that both touch", "strided, too many to count"),
    Column("block_bytes", "Int64", "size of the second's block", "not recorded"),
    Column("block_name", "category", "its name", "it has no name"),
    *(
        column
        for act, meaning in (("alloc", "the second's block was allocated"), ("free", "the first's block was freed"))
        for column in (
            Column(f"{act}_place", "category", f"where {meaning}", "not recorded"),
            Column(f"{act}_source", "category", "that line of source", "source not available"),
            Column(f"{act}_stack", "Int64", "id of the call stack there", "not recorded", names="stacks"),
        )
    ),
    Column("between", "category", "what happened on both streams from first to second, as JSON", "not recorded"),
    Column("fix", "category", "how to fix it, in words; verified on the recorded run", "no fix was found"),
    Column("fix_diff", "category", "the fix as a unified diff of the source", "it cannot be written as a diff"),
    *_since(
        4,
        Column("value_verdict", "category", "whether it changes values: confirmed, benign, unknown", "not explored"),
        Column("num_schedules", "Int64", "tested orders in which its accesses are reversed", "not explored"),
        Column("differs", "category", "values that differ in the order that confirms it, as JSON", "no value differs"),
        Column("schedule", "category", "that order: its seed and tasks, as JSON", "no order confirms it"),
    ),
)

_NO_GRAPH = "not a recording"

GRAPHS: Final = (
    Column(
        "kind",
        "category",
        "function, recording (a CUDA graph), path (a sequence of recordings), skip, rerecord, warning",
    ),
    Column("function", "category", "name of the function"),
    Column("function_id", "int64", "number of the function within its manager"),
    Column("variant", "category", "the shapes and values of arguments that it is specialised on", "a function"),
    Column("node", "Int64", "number of the recording", _NO_GRAPH),
    Column("parent", "Int64", "number of the recording before it", "a root, or not a recording"),
    Column("depth", "Int64", "number of recordings before it", _NO_GRAPH),
    Column("mode", "category", "inference, forward or backward", "not known"),
    Column("state", "category", "eager, warm, recorded; of a recording: current, on the path, idle", "an event"),
    Column("count", "int64", "calls of a function, replays of a recording, occurrences of the others"),
    Column("num_warmups", "Int64", "warm-up calls", "not a function"),
    Column("num_recordings", "Int64", "calls that recorded", "not a function"),
    Column("num_replays", "Int64", "calls that replayed", "not a function"),
    Column("num_eager", "Int64", "calls that ran without a graph", "not a function"),
    Column("reason", "category", "why it did not replay: a cudalens.graphs.Reason", "nothing prevents replay"),
    Column("detail", "category", "the reason in a sentence, with names and numbers", "no detail"),
    Column("advice", "category", "how to fix it", "no advice"),
    Column("place", "category", "the line that caused it, as In[7]:3 or file:line", "source not available"),
    Column("source", "category", "that line of source", "source not available"),
    Column("path", "category", "recordings from root to end as a JSON list", "not a path"),
    Column("device", "Int32", "device index", "never called"),
    Column("pool", "category", "id of the memory pool, as [a, b]", "no pool yet"),
    Column("pool_bytes", "Int64", "allocated in the pool after the recording", _NO_GRAPH),
    Column("reserved_bytes", "Int64", "reserved by the whole pool now", "no pool yet"),
    Column("num_kernels", "Int64", "operators that launched work during the recording", _NO_GRAPH),
    Column("num_static_inputs", "Int64", "inputs that it reads at fixed addresses", _NO_GRAPH),
    Column("num_copied_inputs", "Int64", "inputs that each replay copies into its buffers", _NO_GRAPH),
    Column("copied_bytes", "Int64", "size of the copied inputs", _NO_GRAPH),
    Column("num_outputs", "Int64", "tensors that it returns", _NO_GRAPH),
    Column("num_live_outputs", "Int64", "outputs that are still referenced", "not on the current path"),
    Column("record_ns", "Int64", "host time of the recording", _NO_GRAPH),
    Column("eager_ns", "Int64", "device time of a call without a graph", "not measured"),
    Column("replay_ns", "Int64", "device time of a call that replays, median", "not measured"),
    Column("is_equal", "boolean", "a replay and a call without a graph gave the same bits", "not checked"),
    Column("max_abs_diff", "Float64", "largest absolute difference between the two", "not checked, or not numbers"),
    Column("first_diff", "category", "the first element that differs, with both values", "equal, or not checked"),
)

SYNCS: Final = (
    Column("ts", "int64", "when the host began to wait, on the events' clock"),
    Column("dur", "Int64", "duration of the wait", "the end was not recorded"),
    Column("gpu_dur", "Int64", "part of it during which the GPU ran work issued before", "no device work recorded"),
    Column("kind", "category", "kind of wait: a cudalens.frames.SyncKind"),
    Column("op", "category", "operator that the program called, e.g. aten::item", "no operator"),
    Column("call", "category", "runtime calls that blocked", "not recorded"),
    Column("place", "category", "line of the user's code, as In[7]:3 or file:line", "not recorded"),
    Column("source", "category", "that line of source", "source not available"),
    Column("expression", "category", "expression in that line", "source not available"),
    Column("stack", "Int64", "id of the call stack", "not recorded", names="stacks"),
    Column("device", "Int32", "device index", "not recorded"),
    Column("stream", "Int64", "stream that was waited for, as in the events", "a device or an event, or not recorded"),
    Column("num_bytes", "Int64", "size of the copy", "not a copy, or not recorded"),
    Column("pid", "Int64", "process", "not recorded"),
    Column("tid", "Int64", "host thread that waited", "not recorded"),
    Column("event", "Int64", "row of the runtime call that took longest", "not recorded", names="events"),
    Column("seen_by", "category", "what recorded it: callback, warning (torch's sync debug mode), runtime"),
)

_NOT_REPORTED = "not reported by the GPU or its driver, or not permitted"
METRICS: Final = (
    Column("ts", "int64", "when it was read, on the events' clock"),
    Column("device", "Int32", "device index", "a GPU that is not visible to the program"),
    Column("physical_index", "Int32", "number of the GPU in NVML's order, before CUDA_VISIBLE_DEVICES"),
    Column("gpu_busy_pct", "Float32", "share of time in which a kernel ran (NVML: the last 1/6 to 1 s)", _NOT_REPORTED),
    Column("memory_busy_pct", "Float32", "share of time in which device memory was read or written", _NOT_REPORTED),
    Column("memory_used_bytes", "Int64", "memory in use, by all processes", _NOT_REPORTED),
    Column("temperature_celsius", "Float32", "temperature of the GPU", _NOT_REPORTED),
    Column("power_watts", "Float32", "power draw", _NOT_REPORTED),
    Column("clock_mhz", "Int32", "clock of the multiprocessors", _NOT_REPORTED),
    Column("memory_clock_mhz", "Int32", "clock of the memory", _NOT_REPORTED),
    Column("slowed_by", "category", 'why the clocks are reduced: power cap, heat …; "" for no reason', _NOT_REPORTED),
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

#: First version of saved files that has a frame; 1 for the others.
FRAMES_SINCE: Final[Mapping[str, int]] = {"races": 2, "blocks": 3, "graphs": 3, "metrics": 3, "syncs": 3}


#: Columns of the events that a Kineto trace carries in ``args``, and its names for them; for readers and writers.
KINETO_ARGS: Final[Mapping[str, str]] = {
    c.name: c.source.removeprefix("args.").split(", ")[0] for c in EVENTS if c.source.startswith("args.")
}


def columns_of(frame: str) -> tuple[Column, ...]:
    """Columns of the frame named `frame`, in order."""
    return FRAMES[frame]

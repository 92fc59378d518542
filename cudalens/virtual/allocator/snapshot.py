"""Build the memory snapshot that ``torch._C._cuda_memorySnapshot`` returns, in its schema (torch 2.13)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cudalens.virtual.allocator.block_pools import Block, Segment
from cudalens.virtual.allocator.conf import AllocatorConf
from cudalens.virtual.allocator.sizes import UNLIMITED

if TYPE_CHECKING:
    from cudalens.virtual.allocator.caching import CachingAllocator
    from cudalens.virtual.allocator.conf import PoolId

Record = dict[str, object]


def combine(
    allocators: Iterable[CachingAllocator],
    *,
    pool_id: PoolId | None = None,
    include_traces: bool = True,
    annotations: Sequence[Mapping[str, object]] = (),
) -> Record:
    """Return the snapshot of several devices.

    Args:
        allocators: The allocators of device 0, 1, ...
        pool_id: Only the segments of this memory pool; None for all.
        include_traces: Whether the history is included.
        annotations: The annotations recorded by ``global_record_annotations``, in torch's format.
    """
    segments: list[object] = []
    traces: list[object] = []
    settings: object = {}
    for allocator in allocators:
        part = allocator.snapshot(include_traces=include_traces, pool_id=pool_id)
        segments.extend(part["segments"])  # type: ignore[arg-type]
        traces.append(part["trace"])
        settings = part["allocator_settings"]
    return {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": settings,
        "external_annotations": [dict(annotation) for annotation in annotations],
    }


def segment_records(segments: Iterable[Segment], device: int, pool_id: PoolId | None) -> Iterator[Record]:
    """One record per segment in address order; for expandable segments, one per mapped range."""
    for segment in sorted(segments, key=lambda segment: segment.address):
        if pool_id in (None, segment.head.pool_id):
            for run in _mapped_runs(segment):
                yield _segment_record(run, device)


def _mapped_runs(segment: Segment) -> Iterator[list[Block]]:
    run: list[Block] = []
    for block in segment.blocks():
        if block.mapped:
            run.append(block)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _segment_record(blocks: list[Block], device: int) -> Record:
    head = blocks[0]
    active = [block for block in blocks if block.is_active]
    return {
        "device": device,
        "address": head.address,
        "total_size": sum(block.size for block in blocks),
        "allocated_size": sum(block.size for block in active if block.is_allocated),
        "active_size": sum(block.size for block in active),
        "requested_size": sum(block.requested_size for block in active),
        "stream": head.stream,
        "segment_type": "small" if head.pool.is_small else "large",
        "segment_pool_id": head.pool_id,
        "is_expandable": head.segment.is_expandable,
        "frames": _frames(head.segment_stack),
        "blocks": [_block_record(block) for block in blocks],
    }


def _block_record(block: Block) -> Record:
    state = "active_pending_free" if block.is_active else "inactive"
    if block.is_allocated:
        state = "active_allocated"
    return {
        "address": block.address,
        "size": block.size,
        "requested_size": block.requested_size,
        "state": state,
        "frames": _frames(block.stack),
    }


def _frames(stack: object) -> object:
    return [] if stack is None else stack


def settings_record(conf: AllocatorConf) -> Record:
    """Return the options in the format of the snapshot."""
    return {
        "PYTORCH_CUDA_ALLOC_CONF": conf.text,
        "max_split_size": -1 if conf.max_split_size == UNLIMITED else conf.max_split_size,
        "garbage_collection_threshold": conf.garbage_collection_threshold,
        "expandable_segments": conf.expandable_segments,
        "pinned_num_register_threads": conf.pinned_num_register_threads,
        "release_lock_on_cudamalloc": conf.release_lock_on_cudamalloc,
        "pinned_use_cuda_host_register": conf.pinned_use_cuda_host_register,
        "graph_capture_record_stream_reuse": conf.graph_capture_record_stream_reuse,
        "roundup_power2_divisions": {str(1 << i): parts for i, parts in enumerate(conf.roundup_power2_divisions)},
    }

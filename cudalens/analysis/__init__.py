"""Frames in, frames and findings out: pure, without torch, the same for live runs and for files."""

from cudalens.analysis.averages import folded, key_averages
from cudalens.analysis.device_time import device_time
from cudalens.analysis.memory import fragmentation, memory_totals, pool_totals, segments_of
from cudalens.analysis.memory_holders import memory_categories, memory_holders, memory_leaks
from cudalens.analysis.memory_replay import block_lifetimes, blocks_at, memory_peak, running_totals
from cudalens.analysis.memory_segments import segment_lifetimes
from cudalens.analysis.memory_stacks import bytes_by_stack, memory_diff, stack_texts
from cudalens.analysis.summary import Summary, TopCost, summarize
from cudalens.analysis.sync_advice import SyncAdvice
from cudalens.analysis.sync_groups import SyncSummary, summarize_syncs, syncs

__all__ = [
    "Summary",
    "SyncAdvice",
    "SyncSummary",
    "TopCost",
    "block_lifetimes",
    "blocks_at",
    "bytes_by_stack",
    "device_time",
    "folded",
    "fragmentation",
    "key_averages",
    "memory_categories",
    "memory_diff",
    "memory_holders",
    "memory_leaks",
    "memory_peak",
    "memory_totals",
    "pool_totals",
    "running_totals",
    "segment_lifetimes",
    "segments_of",
    "stack_texts",
    "summarize",
    "summarize_syncs",
    "syncs",
]

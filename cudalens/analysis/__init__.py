"""Frames in, frames and findings out: pure, without torch, the same for live runs and for files."""

from cudalens.analysis.assertions import Assertion, check, parse_assertion
from cudalens.analysis.compare.runs import Change, Differences, differences
from cudalens.analysis.critical_path.path import CriticalPath, critical_path
from cudalens.analysis.critical_path.replay import WhatIf
from cudalens.analysis.findings import Finding, findings, idle_ledger
from cudalens.analysis.memory.holders import (
    bytes_by_stack,
    memory_categories,
    memory_diff,
    memory_holders,
    memory_leaks,
    stack_texts,
)
from cudalens.analysis.memory.replay import block_lifetimes, blocks_at, memory_peak, running_totals
from cudalens.analysis.memory.totals import fragmentation, memory_totals, pool_totals, segment_lifetimes, segments_of
from cudalens.analysis.queries import query
from cudalens.analysis.summary import Summary, TopCost, summarize
from cudalens.analysis.time.attribution import attribution
from cudalens.analysis.time.averages import folded, key_averages, total_average
from cudalens.analysis.time.call_tree import call_tree, flame_graph
from cudalens.analysis.time.idle import idle_causes, idle_time
from cudalens.analysis.time.launch import launch_statistics, launch_summary, queue_lengths
from cudalens.analysis.time.overlap import (
    collectives,
    communication_overlap,
    device_time,
    kernel_breakdown,
    op_breakdown,
    temporal_breakdown,
)
from cudalens.analysis.time.roofline import copy_rates, memcpy_bandwidth, roofline
from cudalens.analysis.time.sequences import kernel_sequences
from cudalens.analysis.time.sync_advice import SyncAdvice, SyncSummary, summarize_syncs, syncs
from cudalens.analysis.trust.check import TrustReport, repaired, trust, trust_findings
from cudalens.frames.info import Ceilings

__all__ = [
    "Assertion",
    "Ceilings",
    "Change",
    "CriticalPath",
    "Differences",
    "Finding",
    "Summary",
    "SyncAdvice",
    "SyncSummary",
    "TopCost",
    "TrustReport",
    "WhatIf",
    "attribution",
    "block_lifetimes",
    "blocks_at",
    "bytes_by_stack",
    "call_tree",
    "check",
    "collectives",
    "communication_overlap",
    "copy_rates",
    "critical_path",
    "device_time",
    "differences",
    "findings",
    "flame_graph",
    "folded",
    "fragmentation",
    "idle_causes",
    "idle_ledger",
    "idle_time",
    "kernel_breakdown",
    "kernel_sequences",
    "key_averages",
    "launch_statistics",
    "launch_summary",
    "memcpy_bandwidth",
    "memory_categories",
    "memory_diff",
    "memory_holders",
    "memory_leaks",
    "memory_peak",
    "memory_totals",
    "op_breakdown",
    "parse_assertion",
    "pool_totals",
    "query",
    "queue_lengths",
    "repaired",
    "roofline",
    "running_totals",
    "segment_lifetimes",
    "segments_of",
    "stack_texts",
    "summarize",
    "summarize_syncs",
    "syncs",
    "temporal_breakdown",
    "total_average",
    "trust",
    "trust_findings",
]

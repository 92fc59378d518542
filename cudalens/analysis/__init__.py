"""Frames in, frames and findings out: pure, without torch, the same for live runs and for files."""

from cudalens.analysis.averages import folded, key_averages
from cudalens.analysis.device_time import device_time
from cudalens.analysis.summary import Summary, TopCost, summarize

__all__ = ["Summary", "TopCost", "device_time", "folded", "key_averages", "summarize"]

"""Frames in, frames and findings out: pure, without torch, the same for live runs and for files."""

from cudalens.analysis.averages import folded, key_averages
from cudalens.analysis.summary import Summary, TopCost, summarize

__all__ = ["Summary", "TopCost", "folded", "key_averages", "summarize"]

"""Readers and writers of trace files. No torch."""

from cudalens.traces.loading import load
from cudalens.traces.ranks import load_ranks

__all__ = ["load", "load_ranks"]

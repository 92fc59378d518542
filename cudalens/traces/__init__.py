"""Readers and writers of trace files. No torch."""

from cudalens.traces.loading import load

__all__ = ["load"]

"""Numbers as people read them: what `cudalens.analysis.units` writes, under the name that views know it by."""

from cudalens.analysis.units import count, duration, percent, plural, shorten, size

__all__ = ["count", "duration", "percent", "plural", "shorten", "size"]

"""Counts the damage that a reader survives."""

from cudalens.frames.problems import Problems

__all__ = ["Problems"]

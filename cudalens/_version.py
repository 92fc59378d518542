"""The version of cudalens, in a module that every package may import."""

__version__ = "0.1.0"

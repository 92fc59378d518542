"""The live CUDA allocator: its snapshot and history as frames, the memory that each cell left, and who holds it."""

from cudalens.memory.collector import MemoryCollector

__all__ = ["MemoryCollector"]

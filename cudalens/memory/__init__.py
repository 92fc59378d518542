"""The live allocator: its snapshot and history as frames, what each cell left alive, and which names hold it."""

from cudalens.memory.collector import MemoryCollector

__all__ = ["MemoryCollector"]

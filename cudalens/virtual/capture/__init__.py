"""CUDA graph capture and replay, and the memory of graphs."""

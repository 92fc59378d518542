"""Queries of a Trace's frames, filtered by a small language."""

"""Shared parts of the readers of CUPTI's SQLite tables."""

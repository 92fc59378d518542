"""Assertions about a Trace, such as ``idle < 20%``."""

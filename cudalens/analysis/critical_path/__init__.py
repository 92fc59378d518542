"""The critical path and what-if estimates on it."""

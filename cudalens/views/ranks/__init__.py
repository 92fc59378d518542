"""The view of a job's ranks."""

"""Views of a job that makes no progress."""

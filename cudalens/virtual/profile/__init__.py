"""The virtual device as a collector: its records as rows of the frames."""

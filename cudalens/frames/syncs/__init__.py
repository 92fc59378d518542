"""The ``syncs`` frame: a row per wait of the host for the GPU."""

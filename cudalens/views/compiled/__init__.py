"""The view of `cudalens.compile_report`."""

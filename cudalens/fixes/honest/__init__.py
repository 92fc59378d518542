"""A benchmark of two functions that checks what it measures: values, inputs, streams, threads, settings and bounds."""

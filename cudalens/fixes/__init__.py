"""Fixes for findings: rewrites of the user's source, runs of both versions, and the comparison of time and values.

`rewrites` change source text, `state` copies and restores what a program can change, `trying` runs both versions in
turns, and `honest` is the benchmark of two functions with its checks for benchmarks that do not measure the work.
"""

"""Measure the kernels of a GPU, and virtual devices with its times: `calibrate` and `calibrated`."""

"""The GPUs of this machine, as torch, NVML, amdsmi and the environment describe them."""

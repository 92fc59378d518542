"""Tensors on a virtual device: residency, device arguments, copies."""

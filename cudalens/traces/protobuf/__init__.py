"""Readers of traces that are protocol buffers: XPlane (JAX, TensorFlow) and Perfetto."""

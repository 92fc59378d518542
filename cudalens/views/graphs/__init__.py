"""The view of CUDA-graph trees."""

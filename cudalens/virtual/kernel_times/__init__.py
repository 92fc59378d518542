"""Models of kernel times, with constants fitted to measured times of real GPUs."""

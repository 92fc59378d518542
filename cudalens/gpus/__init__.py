"""GPUs: their specifications, and models of kernel times with fitted constants. No torch, no pandas."""

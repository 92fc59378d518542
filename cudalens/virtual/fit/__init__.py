"""Whether a program fits on a GPU, which it has not: memory by category, the largest batch, what would help."""

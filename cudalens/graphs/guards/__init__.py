"""Guards: the Python values that a graphed function reads, and whether they are still those of its recording."""

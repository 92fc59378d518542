"""Guards: the Python values that a graphed function reads, compared before each replay with those of its recording."""

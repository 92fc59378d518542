"""Find out whether a program fits on a GPU: memory by category, the largest batch, and changes that save memory."""

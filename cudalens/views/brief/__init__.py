"""A brief of a Trace for language models and CI, sized to a number of tokens."""

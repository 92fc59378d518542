"""A virtual device without values: operators compute shapes only (``device("h100", values=False)``)."""

"""The public verbs: each module composes collectors, readers, analysis and views into one call."""

"""Fixes for races: edits of the user's source that are tried on the recorded run."""

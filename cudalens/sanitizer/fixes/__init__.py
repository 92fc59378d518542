"""Fixes for races: edits of the user's source that are checked on the recorded run."""

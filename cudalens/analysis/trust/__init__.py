"""Checks that find errors in a recorded trace, and their repair."""

"""A watched run as data: its steps, changes and recordings; and the local socket of its viewers."""

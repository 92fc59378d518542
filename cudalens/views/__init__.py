"""Traces as text, pictures, live widgets: frames in, something to look at out. No torch, no collector."""

"""Traces as text, pictures and live widgets. No torch, no collector."""

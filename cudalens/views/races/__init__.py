"""The view of stream races."""

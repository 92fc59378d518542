"""The contents of a device's memory over time."""

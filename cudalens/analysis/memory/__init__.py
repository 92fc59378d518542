"""Who held a device's memory, and when."""

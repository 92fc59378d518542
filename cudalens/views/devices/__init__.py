"""The views of this machine's GPUs: cards and live gauges."""

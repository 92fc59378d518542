"""The model of time: streams, engines, and the duration of each operator."""

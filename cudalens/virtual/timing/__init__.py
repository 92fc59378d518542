"""The timing model: streams, engines, and the duration of each operator."""

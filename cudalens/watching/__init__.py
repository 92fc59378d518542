"""Watch a running loop: find its steps, read cheap sources, keep within a budget, choose which recordings to keep."""

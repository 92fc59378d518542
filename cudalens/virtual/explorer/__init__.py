"""The schedule explorer: what a program did on a virtual device, done again in other orders that it allows.

`orders` and `schedules` know which orders there are and choose some; they need no torch. `op_log` notes what a watched
program does, `image` is the memory that it is done in again, `exploring` compares what comes out.
"""

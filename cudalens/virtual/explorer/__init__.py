"""The schedule explorer: reruns the logged work of a program on a virtual device in every order that it allows.

`orders` and `schedules` define and choose orders, without torch. `op_log` logs what a program does, `image` is the
memory for the reruns, `exploring` compares the results.
"""

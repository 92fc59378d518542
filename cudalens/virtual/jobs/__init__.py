"""Simulate a torch.distributed job on many virtual GPUs: run distinct ranks, then let their clocks meet in collectives.

`rank_run` runs the program of one rank, `layout` finds the ranks that do the same, `topology` gives the time of a
collective, `schedule` computes the times of all ranks together.
"""

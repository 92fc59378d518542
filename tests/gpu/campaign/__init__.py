"""Everything that needs a GPU, in one command with a time limit: ``make gpu-campaign OUT=FOLDER``.

Each part runs in a process of its own with a time limit of its own, so that a part that fails or takes too long does
not stop the others. The results are at most eight files. ``tools/fold_campaign.py`` makes test data, benchmark results
and documentation from them. ``--virtual h200`` runs the same on a virtual device.

Needs torch, pandas and pytest, and Triton for the compiled kernels; no other package of cudalens' dependencies.
"""

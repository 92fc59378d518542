"""The ranks of one job: reductions, matched collectives, clocks, stragglers and what they cost."""

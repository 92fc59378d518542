"""Races by value on a real GPU: a program runs again and again, steered toward the order that a race allows.

Needs nothing of who found the races: `cudalens.api.confirm` joins it with the sanitizer.
"""

from cudalens.sanitizer.rerun.confirm import DEFAULT_LIMIT_S, DEFAULT_RUNS, MAX_RACES, Confirmer, Suspect
from cudalens.sanitizer.rerun.program import Program
from cudalens.sanitizer.rerun.tasks import Spot

__all__ = ["DEFAULT_LIMIT_S", "DEFAULT_RUNS", "MAX_RACES", "Confirmer", "Program", "Spot", "Suspect"]

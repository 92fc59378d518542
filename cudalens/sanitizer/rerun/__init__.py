"""Races by value on a real GPU: a program runs again and again, steered toward the order that a race allows.

Needs nothing of who found the races: `cudalens.confirmed` joins it with the sanitizer.
"""

from cudalens.steering.confirming import DEFAULT_LIMIT_S, DEFAULT_RUNS, MAX_RACES, Confirmer, Suspect
from cudalens.steering.program import Program
from cudalens.steering.tasks import Spot

__all__ = ["DEFAULT_LIMIT_S", "DEFAULT_RUNS", "MAX_RACES", "Confirmer", "Program", "Spot", "Suspect"]

"""Races by value on a real GPU: run a program repeatedly, with streams delayed so that its races can occur.

Independent of the detection of races; `cudalens.api.confirm` combines it with the sanitizer.
"""

from cudalens.sanitizer.rerun.confirm import DEFAULT_LIMIT_S, DEFAULT_RUNS, MAX_RACES, Confirmer, Suspect
from cudalens.sanitizer.rerun.program import Program
from cudalens.sanitizer.rerun.tasks import Spot

__all__ = ["DEFAULT_LIMIT_S", "DEFAULT_RUNS", "MAX_RACES", "Confirmer", "Program", "Spot", "Suspect"]

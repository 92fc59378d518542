"""Analyses of a watched run: changes of its step time, the parts of a step, and what caused a change."""

from cudalens.analysis.watching.causes import Before, causes
from cudalens.analysis.watching.change_points import ChangeDetector, Shift
from cudalens.analysis.watching.parts import PARTS, step_parts

__all__ = ["PARTS", "Before", "ChangeDetector", "Shift", "causes", "step_parts"]

"""Find which rank of a job holds up the others, from the collectives that each rank entered."""

from cudalens.analysis.hangs.diagnosis import Culprit as Culprit
from cudalens.analysis.hangs.diagnosis import Hang as Hang
from cudalens.analysis.hangs.diagnosis import diagnose as diagnose

"""The error band of a predicted time, from the errors of its kernels' families on measurements that no fit used.

The band of a program is made from the bands of its families of kernels. A wrong constant moves all kernels of a family
alike, so the errors within a family do not average out; the errors of different families are taken as independent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from cudalens.gpus.constants import accuracy, fit_of
from cudalens.gpus.registry import DeviceSpec

#: Standard deviations on each side of an 80 % band of a normal distribution.
DEVIATIONS_OF_80_PCT: Final = 1.2816

#: Standard deviation of the logarithm over the mean absolute error, for a normal distribution.
DEVIATION_OF_MEAN_ERROR: Final = math.sqrt(math.pi / 2)

#: Standard deviation of the logarithm of times where the constants are those of another GPU. Between measured GPUs of
#: neighbouring generations, the constants of one give times of the other that differ by this much.
OTHER_GPU: Final = 0.30

#: The same of kernels without measurements, whose time is that of their bytes and operations. Recorded reductions,
#: gathers and strided copies are within a factor of two for most operators.
UNMEASURED: Final = 0.54

#: The same of a whole program beside the errors of its kernels: gaps, clocks, other versions of libraries.
PROGRAM: Final = 0.05


class Band(NamedTuple):
    """An 80 % band of a predicted time.

    Attributes:
        low: Lower end as a factor of the predicted time, at most 1.
        high: Upper end as a factor of the predicted time, at least 1.
        unmeasured_share: The part of the time, from 0 to 1, of kernels whose family was not measured on any GPU.
    """

    low: float
    high: float
    unmeasured_share: float

    @property
    def is_wide(self) -> bool:
        """Whether the ends differ by more than a factor of two, so that the middle says little."""
        return self.high > 2 * self.low

    @property
    def error_pct(self) -> float:
        """The distance of the upper end from the predicted time, per cent."""
        return (self.high - 1) * 100

    @property
    def words(self) -> str:
        """The band in words: ``± 9 %``, or ``0.5 to 1.9 times these`` for a wide one."""
        return f"{self.low:.1f} to {self.high:.1f} times these" if self.is_wide else f"± {self.error_pct:.0f} %"


def time_band(spec: DeviceSpec, kernels: Iterable[tuple[str, int]]) -> Band:
    """Return the band of the total time of some kernels.

    Args:
        spec: The GPU.
        kernels: Family (a name of `cudalens.gpus.constants`; any other text is a kernel without measurements) and
            duration (ns) of each kernel.
    """
    by_family: dict[str, int] = defaultdict(int)
    for family, duration_ns in kernels:
        by_family[family] += duration_ns
    total_ns = sum(by_family.values())
    if not total_ns:
        return Band(math.exp(-DEVIATIONS_OF_80_PCT * UNMEASURED), math.exp(DEVIATIONS_OF_80_PCT * UNMEASURED), 1.0)

    measured = accuracy()
    variance = PROGRAM**2
    unmeasured_ns = 0
    for family, duration_ns in by_family.items():
        deviation = family_deviation(spec, family)
        variance += (duration_ns / total_ns * deviation) ** 2
        if family not in measured:
            unmeasured_ns += duration_ns
    half_width = DEVIATIONS_OF_80_PCT * math.sqrt(variance)
    return Band(math.exp(-half_width), math.exp(half_width), unmeasured_ns / total_ns)


def family_deviation(spec: DeviceSpec, family: str) -> float:
    """Return the standard deviation of the logarithm of a family's predicted times on a GPU.

    Args:
        spec: The GPU.
        family: A name of `cudalens.gpus.constants`, or the name of a kind of kernel without measurements.
    """
    families = accuracy()
    if family not in families:
        return UNMEASURED
    if spec.calibration is not None and family in spec.calibration:
        return PROGRAM
    fit = fit_of(spec, family)
    deviation = families[family]["gpus"][fit.gpu]["mean_error_pct"] / 100 * DEVIATION_OF_MEAN_ERROR
    return deviation if fit.gpu == spec.key else math.hypot(deviation, OTHER_GPU)

"""Triton kernels that cudalens launches, each with a reference implementation in plain torch.

The references run for CPU and virtual-device tensors, and if Triton is not installed. cudalens imports this package
only when it is used.
"""

from cudalens.kernels.ceilings import ceilings
from cudalens.kernels.compare import Comparison, PendingComparison, begin_compare, can_compare, compare
from cudalens.kernels.fingerprint import Fingerprint, PendingFingerprint, begin_fingerprint, fingerprint
from cudalens.kernels.hold import Hold, PoisonReport, check_poison, hold, poison

__all__ = [
    "Comparison",
    "Fingerprint",
    "Hold",
    "PendingComparison",
    "PendingFingerprint",
    "PoisonReport",
    "begin_compare",
    "begin_fingerprint",
    "can_compare",
    "ceilings",
    "check_poison",
    "compare",
    "fingerprint",
    "hold",
    "poison",
]

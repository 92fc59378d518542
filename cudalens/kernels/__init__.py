"""Device code that cudalens itself launches: Triton kernels, each beside a plain torch reference.

The references answer for tensors of the CPU and of a virtual device, and where Triton is not installed. Nothing of
cudalens imports this room before it is used.
"""

from cudalens.kernels.ceilings import ceilings
from cudalens.kernels.compare import Comparison, PendingComparison, begin_compare, can_compare, compare
from cudalens.kernels.fingerprint import Fingerprint, PendingFingerprint, begin_fingerprint, fingerprint
from cudalens.kernels.hold import Hold, hold
from cudalens.kernels.poison import PoisonReport, check_poison, poison

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

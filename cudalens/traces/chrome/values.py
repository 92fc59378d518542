"""Values shared by the readers of Chrome traces: arrays of integers, the missing integer, the range of times."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

#: A missing integer inside the readers; it becomes <NA> in a frame.
MISSING: Final = -(1 << 63)

#: Times are below this, ns.
MAX_NS: Final = 1 << 62

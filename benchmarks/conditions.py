"""The conditions of a benchmark's run, which its results state."""

from __future__ import annotations

import os
import platform
import time

import torch


def conditions() -> dict[str, object]:
    """Return the versions, the number of cores, the load average and the date (UTC)."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }

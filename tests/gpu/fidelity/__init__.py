"""Whether a virtual device does what its real twin does: programs, what is observed of a run, and the comparison.

A program is ordinary PyTorch code for ``device="cuda"``. It runs in a process of its own, on a real GPU or on a virtual
one, and leaves an `Observation`. `compare` says what differs between two of them. Observations of real devices are kept
under ``tests/data/fidelity``, so that a machine without a GPU can check the virtual device against them.

Needs torch and cudalens' device and virtual rooms; no pandas, no IPython.
"""

from __future__ import annotations

from fidelity.comparison import Difference, compare, predicted_over_measured
from fidelity.observation import DeviceFacts, Observation
from fidelity.programs import PROGRAMS, Program
from fidelity.recordings import DATA, load_all, save
from fidelity.runs import run_real, run_virtual, twin_of

__all__ = [
    "DATA",
    "PROGRAMS",
    "DeviceFacts",
    "Difference",
    "Observation",
    "Program",
    "compare",
    "load_all",
    "predicted_over_measured",
    "run_real",
    "run_virtual",
    "save",
    "twin_of",
]

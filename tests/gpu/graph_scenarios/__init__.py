"""What CUDA-graph trees have to do, as scenarios that run on a virtual device and, unchanged, on a real one.

Each is written from the behaviour that users are promised, and judges by what users see: values, errors, the ``graphs``
frame, the allocator's statistics. ``tests/unit/graphs`` runs them on the virtual device, ``tests/gpu`` on a real one.
"""

from __future__ import annotations

from typing import Any

from graph_scenarios.stage import Scenario, play, undisturbed

__all__ = ["Scenario", "play", "scenarios_of", "undisturbed"]


def scenarios_of(*modules: Any) -> dict[str, Scenario]:
    """The scenarios of some modules, by name."""
    return {name: value for module in modules for name, value in vars(module).items() if isinstance(value, Scenario)}

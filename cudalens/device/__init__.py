"""What this machine and this torch can do: facts about versions and devices, and checks that say what works and why."""

from __future__ import annotations

from cudalens.device.checks import Check, run_checks
from cudalens.device.facts import accelerator_build, devices, driver, torch_or_reason, versions

__all__ = ["Check", "accelerator_build", "devices", "driver", "run_checks", "torch_or_reason", "versions"]

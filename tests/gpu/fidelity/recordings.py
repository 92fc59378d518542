"""Observations of real devices, kept as files: ``tests/data/fidelity/<device>/<program>.json``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from fidelity.observation import Observation

DATA: Final = Path(__file__).parents[2] / "data" / "fidelity"


def save(directory: Path, observation: Observation) -> Path:
    """Write an observation where `load_all` finds it; an older one of the same device and program is replaced.

    Raises:
        ValueError: It is of a virtual device: a recording is what a real one said.
    """
    if observation.device.is_virtual:
        raise ValueError(
            f"{observation.program} ran on a virtual {observation.device.name}; only real devices are recorded"
        )
    path = directory / slug(observation.device.name) / f"{observation.program}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(observation.to_json(), encoding="utf-8")
    return path


def load_all(directory: Path = DATA) -> dict[str, Observation]:
    """All recordings, by "device/program"; none where nothing was recorded."""
    paths = sorted(directory.glob("*/*.json"))
    return {f"{p.parent.name}/{p.stem}": Observation.from_json(p.read_text(encoding="utf-8")) for p in paths}


def slug(name: str) -> str:
    """A device's name as a folder: "NVIDIA H200" is "nvidia-h200"."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")

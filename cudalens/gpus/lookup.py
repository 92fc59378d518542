"""Find the specification of a recorded GPU."""

from __future__ import annotations

from typing import Final

from cudalens.gpus.registry import SPECS, DeviceSpec

#: Cards of one model differ by this share of their memory (driver, ECC).
_MEMORY: Final = 0.03


def spec_of(capability: str | None, num_sms: int | None, total_memory_bytes: int | None) -> DeviceSpec | None:
    """Return the first known specification with these facts; None if there is none, or a fact is not known.

    Names are not compared: cards of one chip have many, and they contain no more than these facts.

    Args:
        capability: Compute capability, as "9.0".
        num_sms: Multiprocessors.
        total_memory_bytes: Size of the memory.
    """
    for spec in SPECS.values():
        same = (capability, num_sms) == (".".join(map(str, spec.compute_capability)), spec.num_sms)
        if same and abs((total_memory_bytes or 0) / spec.total_memory_bytes - 1) <= _MEMORY:
            return spec
    return None

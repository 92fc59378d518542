"""The hash of one word at its position, as used by `fingerprint`: constants for the kernels and the reference.

With z = word ^ (i * PLACE + SEED), all in 64 bits that wrap around:

.. code-block:: text

    h = z * FIRST;   h ^= h >> 32;   h *= SECOND          (h: the word's part of the first sum)
    g = (h ^ h >> 29) * THIRD                             (g: its part of the second)

with logical shifts. Each step is invertible, so one changed word always changes both sums. Sums do not depend on the
order, so any number of programs may share the work. The scheme is the multiply and xor-shift of SplitMix64 (Steele, Lea
and Flood, "Fast splittable pseudorandom number generators", 2014), which is also the source of the odd constants.
"""

from __future__ import annotations

from typing import Final


def _signed(value: int) -> int:
    """`value` as a signed 64-bit number, as torch and Triton require."""
    return value - (1 << 64) if value >> 63 else value


PLACE: Final = _signed(0x9E3779B97F4A7C15)
FIRST: Final = _signed(0xBF58476D1CE4E5B9)
SECOND: Final = _signed(0x94D049BB133111EB)
THIRD: Final = _signed(0xD6E8FEB86659FD93)
#: The first 64 bits of the fractional part of pi.
SEED: Final = 0x243F6A8885A308D3

"""The hash of one word in its place, as `fingerprint` defines it; kernels and reference read the constants here.

With z = word ^ (i * PLACE + SEED), all in 64 bits that wrap around:

.. code-block:: text

    h = z * FIRST;   h ^= h >> 32;   h *= SECOND          (h: the word's part of the first sum)
    g = (h ^ h >> 29) * THIRD                             (g: its part of the second)

with logical shifts. Each step can be undone, so that one changed word always changes both sums. Sums know no order, so
that any number of programs may share the work. The scheme is the multiply and xor-shift of SplitMix64 (Steele, Lea and
Flood, "Fast splittable pseudorandom number generators", 2014), of which the odd constants are.
"""

from __future__ import annotations

from typing import Final


def _signed(value: int) -> int:
    """As a signed 64-bit number, which is what torch and Triton take."""
    return value - (1 << 64) if value >> 63 else value


#: The first digits of pi after the point.
PLACE: Final = _signed(0x9E3779B97F4A7C15)
FIRST: Final = _signed(0xBF58476D1CE4E5B9)
SECOND: Final = _signed(0x94D049BB133111EB)
THIRD: Final = _signed(0xD6E8FEB86659FD93)
SEED: Final = 0x243F6A8885A308D3

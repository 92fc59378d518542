"""`Ceilings`: the most that a device can do, measured or by its data sheet; what a roofline is drawn against."""

from __future__ import annotations

from typing import Final

import msgspec

#: Where ``trace.info.extra`` keeps them, as JSON.
CEILINGS_KEY: Final = "ceilings"


class Ceilings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The most that a device can do.

    Attributes:
        device: Its name.
        source: Where the numbers come from: ``measured``, or ``spec:<name>`` for a data sheet's.
        date: Day of the measurement (ISO 8601), or None.
        driver: Version of the driver at the time, or None.
        copy_bytes_per_s: Device memory read and written by a copy, both counted.
        read_bytes_per_s: Device memory read.
        write_bytes_per_s: Device memory written.
        flops_per_s: Floating-point operations of matrix products by dtype: ``float64``, ``float32``, ``tf32``,
            ``float16``, ``bfloat16``, ``float8``; a multiply-add counts two.
    """

    device: str
    source: str
    date: str | None = None
    driver: str | None = None
    copy_bytes_per_s: float | None = None
    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None
    flops_per_s: dict[str, float] = {}

    @property
    def is_measured(self) -> bool:
        """Whether a clock told them."""
        return self.source == "measured"

    def to_json(self) -> str:
        """As JSON text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Ceilings:
        """From what `to_json` wrote.

        Raises:
            msgspec.ValidationError: It is something else.
        """
        return msgspec.json.decode(text, type=cls)

"""`Ceilings`: the peak rates of a device, measured or by its data sheet, for rooflines."""

from __future__ import annotations

from typing import Final

import msgspec

#: Key of ``trace.info.extra`` that holds them, as JSON.
CEILINGS_KEY: Final = "ceilings"


class Ceilings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The peak rates of a device.

    Attributes:
        device: Its name.
        source: Source of the numbers: ``measured``, or ``spec:<name>`` for a data sheet.
        date: Day of the measurement (ISO 8601), or None.
        driver: Version of the driver at that time, or None.
        copy_bytes_per_s: Device memory read and written by a copy, both counted.
        read_bytes_per_s: Device memory read.
        write_bytes_per_s: Device memory written.
        flops_per_s: Floating-point operations of matrix products by dtype: ``float64``, ``float32``, ``tf32``,
            ``float16``, ``bfloat16``, ``float8``; a multiply-add counts as two.
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
        """Whether they are measured."""
        return self.source == "measured"

    def to_json(self) -> str:
        """As JSON text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Ceilings:
        """From the text that `to_json` returned.

        Raises:
            msgspec.ValidationError: The text is something else.
        """
        return msgspec.json.decode(text, type=cls)

"""What a device can do at most: the ceilings of a roofline, handed over or carried by a Trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from cudalens.frames import RunInfo

KEY: Final = "ceilings"
"""Name in `RunInfo.extra` under which a Trace carries ceilings: JSON, an object of `Ceilings` by device index."""


@dataclass(frozen=True)
class Ceilings:
    """What a device can do at most.

    Attributes:
        flops_per_s: Peak floating-point operations per second by dtype: ``float64``, ``float32``, ``tf32`` (float32
            matrix products on tensor cores), ``float16``, ``bfloat16``, ``float8``; dense.
        bytes_per_s: Peak traffic of device memory, bytes per second; None where not known.
        source: Where the numbers are from: a data sheet, a measurement.
        date: When they were measured or published, or None.
    """

    flops_per_s: Mapping[str, float] = field(default_factory=dict)
    bytes_per_s: float | None = None
    source: str = ""
    date: str | None = None


def ceilings_of(info: RunInfo) -> dict[int, Ceilings]:
    """The ceilings by device index that ``info.extra["ceilings"]`` holds; empty where it holds none.

    Raises:
        ValueError: What stands there is no such JSON; the message says what is wrong where.
    """
    if (text := info.extra.get(KEY)) is None:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[int, Ceilings])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(
            f"info.extra[{KEY!r}] of '{info.name}' holds no ceilings ({error}); expected JSON like "
            '{"0": {"flops_per_s": {"float32": 6e13}, "bytes_per_s": 3e12, "source": "data sheet"}}. '
            "Pass ceilings=… to do without it."
        ) from error


def to_json(ceilings: Mapping[int, Ceilings]) -> str:
    """Ceilings by device index as the text that `ceilings_of` reads."""
    return msgspec.json.encode(dict(ceilings)).decode()

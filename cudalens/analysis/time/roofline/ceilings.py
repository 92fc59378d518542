"""The ceilings of a roofline, by device: as given, or as in the run info."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cudalens.frames import RunInfo
from cudalens.frames.ceilings import CEILINGS_KEY, Ceilings


def ceilings_of(info: RunInfo) -> Ceilings | dict[int, Ceilings] | None:
    """The ceilings of ``info.extra["ceilings"]``: for all devices, or by device index; None if there are none.

    Raises:
        ValueError: It is neither; says what is wrong.
    """
    if (text := info.extra.get(CEILINGS_KEY)) is None:
        return None
    try:
        return Ceilings.from_json(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        try:
            return msgspec.json.decode(text, type=dict[int, Ceilings])
        except (msgspec.MsgspecError, RecursionError):
            raise ValueError(
                f"info.extra[{CEILINGS_KEY!r}] of '{info.name}' holds no ceilings ({error}); expected the text of "
                "Ceilings.to_json(), or an object of them by device index. Pass ceilings=… instead."
            ) from error


def by_device(ceilings: Ceilings | Mapping[int, Ceilings] | None, devices: list[int]) -> list[Ceilings | None]:
    """The ceilings of each of `devices`, None if unknown."""
    if ceilings is None or isinstance(ceilings, Ceilings):
        return [ceilings] * len(devices)
    return [ceilings.get(device) for device in devices]


def peak_bytes_per_s(ceilings: Ceilings | None) -> float | None:
    """The largest known rate of device memory, bytes per second."""
    if ceilings is None:
        return None
    rates = (ceilings.copy_bytes_per_s, ceilings.read_bytes_per_s, ceilings.write_bytes_per_s)
    return max((rate for rate in rates if rate), default=None)


def peak_flops_per_s(ceilings: Ceilings | None, dtype: object) -> float | None:
    """The peak operations per second with `dtype`."""
    return None if ceilings is None else ceilings.flops_per_s.get(str(dtype))

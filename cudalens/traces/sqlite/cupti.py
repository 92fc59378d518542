"""Kineto's names for CUPTI's numbers: ids of API calls, kinds of copies, of memory and of waits.

The numbers are defined in cupti_activity.h; see https://docs.nvidia.com/cupti/.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Final

from cudalens.traces.chrome.values import MISSING, Ints
from cudalens.traces.sqlite.activities import Texts

#: Kinds of copies; those of unified memory are nsys's own numbers.
COPY_KINDS: Final = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "HtoD (Unified)",
    12: "DtoH (Unified)",
    13: "DtoD (Unified)",
}

MEMORY_KINDS: Final = {
    1: "Pageable",
    2: "Pinned",
    3: "Device",
    4: "Array",
    5: "Managed",
    6: "Device Static",
    7: "Managed Static",
}
SYNC_KINDS: Final = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
#: CUPTI's number for no stream, no context and no event; nvprof writes it as -1.
NO_ID: Final = 0xFFFFFFFF

_VERSION: Final = re.compile(r"_v\d{4,}\Z")
_DRIVER: Final = re.compile(r"cu[A-Z0-9]")


@cache
def _names() -> dict[str, list[str]]:
    text = files("cudalens.traces.sqlite").joinpath("cupti_names.json").read_text("utf-8")
    return json.loads(text)


def call_name(kind: str, number: int) -> str:
    """Name of the API call with CUPTI's callback id `number`; `kind` is ``runtime`` or ``driver``."""
    names = _names()[kind]
    name = names[number] if 0 <= number < len(names) else ""
    return name or f"{kind} call {'without an id' if number == MISSING else number}"


def plain_call(name: str) -> str:
    """Return an API call's name without the CUDA version that nsys and CUPTI append (``cudaMalloc_v3020``)."""
    return _VERSION.sub("", name)


def is_driver_call(name: str) -> bool:
    """Return whether a name is from the driver API: ``cuLaunchKernel`` is, ``cudaLaunchKernel`` is not."""
    return _DRIVER.match(name) is not None


def copy_names(kind: Ints, source: Ints, target: Ints, memory_kinds: dict[int, str]) -> Texts:
    """Names of copies, as Kineto writes them: ``Memcpy HtoD (Pageable -> Device)``."""

    def name(kind: int, source: int, target: int) -> str:
        ends = (memory_kinds.get(end, "Unknown") for end in (source, target))
        return f"Memcpy {COPY_KINDS.get(kind, 'of unknown kind')} ({' -> '.join(ends)})"

    return Texts.joined([kind, source, target], name)


def memset_names(kind: Ints, memory_kinds: dict[int, str]) -> Texts:
    """Names of memsets, as Kineto writes them: ``Memset (Device)``."""
    return Texts.joined([kind], lambda kind: f"Memset ({memory_kinds.get(kind, 'Unknown')})")


def triple(x: Ints, y: Ints, z: Ints) -> Texts:
    """Return a grid or block size as JSON text, ``[x,y,z]``; missing if one of the numbers is missing."""
    texts = Texts.joined([x, y, z], lambda *xyz: "" if MISSING in xyz else "[{},{},{}]".format(*xyz))
    return texts.mapped(lambda text: text or None)

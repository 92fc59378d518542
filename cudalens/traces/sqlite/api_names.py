"""Names that readers share: of CUDA API calls and copies by CUPTI's numbers, of HIP calls, and demangled kernels.

The numbers are defined in cupti_activity.h; see https://docs.nvidia.com/cupti/.

The library's ``__cxa_demangle`` has no limits: a crafted name makes it use all memory. The child process has limits of
memory, time and output. A name that it does not demangle stays as it is, as do all names on a system without
``libstdc++`` or without limits of memory (only Linux has both).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from typing import Final

from cudalens.frames.column_arrays import Ints
from cudalens.traces.chrome.values import MISSING
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


_COPIES: Final = {
    "HOST_TO_DEVICE": "Memcpy HtoD (Host -> Device)",
    "DEVICE_TO_HOST": "Memcpy DtoH (Device -> Host)",
    "DEVICE_TO_DEVICE": "Memcpy DtoD (Device -> Device)",
    "HOST_TO_HOST": "Memcpy HtoH (Host -> Host)",
    "HOSTTODEVICE": "Memcpy HtoD (Host -> Device)",
    "DEVICETOHOST": "Memcpy DtoH (Device -> Host)",
    "DEVICETODEVICE": "Memcpy DtoD (Device -> Device)",
}


def call_category(kind: str) -> str:
    """Kineto's category of a host range, by the name of its domain (``HIP_RUNTIME_API``)."""
    upper = kind.upper()
    if "HIP" in upper:
        return "hip_runtime"
    if "HSA" in upper:
        return "hip_driver"
    if any(word in upper for word in ("MARKER", "ROCTX", "RANGE")):
        return "user_annotation"
    return kind.lower().removesuffix("_api") or "unknown"


def copy_name(text: str) -> str:
    """Kineto's name of a copy, for ``MEMORY_COPY_HOST_TO_DEVICE`` and ``CopyHostToDevice``; else `text`."""
    upper = text.upper()
    return next((name for word, name in _COPIES.items() if upper.endswith(word)), text)


_MAX_MANGLED: Final = 1 << 14
_TIMEOUT_S: Final = 20

#: Reads a name a line, writes a demangled name a line, in the same order; an empty line if it cannot be demangled.
_CHILD: Final = """
import ctypes, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
library, libc = ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL(None)
demangle, free = library.__cxa_demangle, libc.free
demangle.restype, free.argtypes, free.restype = ctypes.c_void_p, (ctypes.c_void_p,), None
demangle.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
room = 1 << 26
for name in sys.stdin.buffer:
    pointer = demangle(name.rstrip(b"\\n"), None, None, None)
    text = ctypes.string_at(pointer) if pointer else b""
    free(pointer)
    text = text if len(text) <= min(1 << 16, room) and b"\\n" not in text else b""
    room -= len(text)
    sys.stdout.buffer.write(text + b"\\n")
    sys.stdout.buffer.flush()
"""


def demangler(names: Iterable[str]) -> Callable[[str], str]:
    """Return a function from a name to its demangled form, for any of `names`; other names stay as they are."""
    mangled = [name for name in dict.fromkeys(names) if _is_mangled(name)]
    plain = {name: text for name, text in zip(mangled, _run(mangled), strict=False) if text} if mangled else {}
    return lambda name: plain.get(name, name)


def _is_mangled(name: str) -> bool:
    return name.startswith("_Z") and len(name) <= _MAX_MANGLED and name.isascii() and name.isprintable()


def _run(names: list[str]) -> list[str]:
    """Return a line for each name; fewer if the child process ended early."""
    try:
        child = subprocess.run(  # noqa: S603  a fixed program; the names are its input
            [sys.executable, "-I", "-S", "-c", _CHILD],
            input="\n".join(names).encode(),
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    *lines, _ = child.stdout.decode("utf-8", "replace").split("\n")
    return lines

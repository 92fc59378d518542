"""Demangle C++ names of kernels with the C++ runtime library, in a child process with limits.

The library's ``__cxa_demangle`` has no limits: a crafted name makes it use all memory. The child process has limits of
memory, time and output. A name that it does not demangle stays as it is, as do all names on a system without
``libstdc++`` or without limits of memory (only Linux has both).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Final

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

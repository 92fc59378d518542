"""Calls that read what no guard can compare (clocks, random numbers, files, the environment), and calls that print."""

from __future__ import annotations

import io
import random
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final

import torch

from cudalens.device.stacks import place
from cudalens.graphs.reasons import Finding, Reason

_CLOCKS: Final = (
    "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
    "process_time_ns", "thread_time", "localtime", "gmtime",
)  # fmt: skip
_READS: Final = frozenset(
    [*(("time", name) for name in _CLOCKS), ("io", "open"), ("_io", "open"), ("builtins", "input")]
)
_STDLIB: Final = ("<frozen ", sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
_OWN: Final = (torch.__file__.rpartition("__init__")[0], __file__.rpartition("graphs")[0])
_ENVIRONMENT: Final = frozenset({"getenv", "__getitem__", "get"})


class OutsideCalls:
    """Finds such calls in one run of a function, by a profile function and by the states of random generators.

    Args:
        values: That the function reads: random generators of NumPy may be among them.

    Attributes:
        findings: One for each reason, the first first.
    """

    def __init__(self, values: Sequence[Any] = ()) -> None:
        self.findings: list[Finding] = []
        self._generators = [value for value in values if hasattr(value, "bit_generator")]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While it is entered, calls of this thread are looked at; not where something else profiles them."""
        before = self._random_states()
        is_free = sys.getprofile() is None
        if is_free:
            sys.setprofile(self._on_event)
        try:
            yield
        finally:
            if is_free:
                sys.setprofile(None)
        if self._random_states() != before and not self.findings:
            self.findings.append(Finding(Reason.OUTSIDE_VALUE, "random numbers of Python or NumPy"))

    def _on_event(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            found = self._of_c_call(arg)
        elif event == "call" and frame.f_code.co_name in _ENVIRONMENT and frame.f_globals.get("__name__") == "os":
            found = Reason.OUTSIDE_VALUE, "os.environ"
        else:
            return
        if found is not None and _is_users(frame) and all(known.reason is not found[0] for known in self.findings):
            self.findings.append(Finding(*found, place(2)))

    def _random_states(self) -> Any:
        """The states of the random generators of Python and, where it is imported, of NumPy."""
        own = [repr(generator.bit_generator.state) for generator in self._generators]
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random is None:
            return random.getstate(), own
        state = numpy_random.get_state(legacy=False)
        return random.getstate(), own, state["state"]["pos"], state["state"]["key"].tobytes(), state["has_gauss"]

    @staticmethod
    def _of_c_call(function: Any) -> tuple[Reason, str] | None:
        module, name = getattr(function, "__module__", None), function.__name__
        owner = getattr(function, "__self__", None)
        if (module, name) in _READS:
            return Reason.OUTSIDE_VALUE, f"{str(module).strip('_')}.{name}"
        if name == "print" and module == "builtins":
            return Reason.SIDE_EFFECT, "it prints"
        if owner is None:
            return None
        if isinstance(owner, random.Random):
            return Reason.OUTSIDE_VALUE, f"random.{name}"
        if type(owner).__module__.startswith("numpy.random"):
            return Reason.OUTSIDE_VALUE, f"numpy.random, {name}"
        if isinstance(owner, ContextVar) and name == "get":
            return Reason.OUTSIDE_VALUE, f"the context variable {owner.name!r}"
        if isinstance(owner, type) and name in ("now", "utcnow", "today"):
            return Reason.OUTSIDE_VALUE, f"{owner.__name__}.{name}"
        return _of_file(owner, name)


def _of_file(owner: Any, name: str) -> tuple[Reason, str] | None:
    if isinstance(owner, io.IOBase) and name.startswith("write"):
        return Reason.SIDE_EFFECT, "it writes to a file"
    if isinstance(owner, io.IOBase) and name.startswith("read"):
        return Reason.OUTSIDE_VALUE, "a file"
    return None


def _is_users(frame: FrameType | None) -> bool:
    """Whether the caller is neither torch, nor this package, nor an import; the standard library is passed over."""
    first = None
    while frame is not None and not frame.f_code.co_filename.startswith(_OWN):
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return False
        if first is None and ("site-packages" in file or not file.startswith(_STDLIB)):
            first = file
        frame = frame.f_back
    return first is not None

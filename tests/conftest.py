"""What holds for all tests: none fails because a machine is busy, none hears of what an earlier one left on."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress

import pytest

with suppress(ImportError):  # the tests that need a GPU run where hypothesis may not be
    from hypothesis import HealthCheck, settings

    UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("quick", **UNTIMED, max_examples=40)
    settings.register_profile("thorough", **UNTIMED, max_examples=1_000)
    settings.load_profile(os.environ.get("CUDALENS_HYPOTHESIS", "quick"))

INTERPRETS = "TRITON_INTERPRET" not in os.environ
os.environ.setdefault("TRITON_INTERPRET", "1")  # settled when Triton is imported, which a conftest beside tests may do


def pytest_configure(config):
    """Threads of a worker are bounded, Triton interprets but for a GPU's tests, Ctrl-C raises as in a terminal."""
    if config.option.markexpr == "gpu" and INTERPRETS:
        os.environ.pop("TRITON_INTERPRET", None)
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported, here and in all child processes
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # what a shell hands to the jobs in its background
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def collections_skip_what_was_there_before():
    """Takes all that is alive before a module's tests out of the garbage collector's work.

    Hundreds of tests collect garbage, and each collection would otherwise look at every object of every module that
    this process has imported.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def torchs_sanitizer_is_deaf():
    """Torch's own sanitizer listens for life once it is imported, slower with each event; here for one test at most."""
    forget_torchs_sanitizer()
    yield
    forget_torchs_sanitizer()


def forget_torchs_sanitizer():
    """Take the callbacks of `torch.cuda._sanitizer` out of torch's registries."""
    sanitizer, registries = (sys.modules.get(f"torch.cuda.{name}") for name in ("_sanitizer", "_gpu_trace"))
    for registry in vars(registries).values() if sanitizer and registries else ():
        if isinstance(callbacks := getattr(registry, "callback_list", None), list):
            callbacks[:] = [
                c for c in callbacks if not isinstance(getattr(c, "__self__", None), sanitizer.EventHandler)
            ]

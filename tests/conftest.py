"""For all tests: no test fails because a machine is busy, and none is affected by what an earlier test left on."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from contextlib import suppress

import pytest

with suppress(ImportError):  # the tests that need a GPU run where hypothesis may not be
    from hypothesis import HealthCheck, settings

    UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("quick", **UNTIMED, max_examples=25)
    settings.register_profile("thorough", **UNTIMED, max_examples=1_000)
    settings.load_profile(os.environ.get("CUDALENS_HYPOTHESIS", "quick"))

INTERPRETS = "TRITON_INTERPRET" not in os.environ
os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is imported, which a conftest of a folder may do


def pytest_configure(config):
    """Limit the threads of a worker, let Triton interpret except on a GPU, and let Ctrl-C raise as in a terminal."""
    if config.option.markexpr == "gpu" and INTERPRETS:
        os.environ.pop("TRITON_INTERPRET", None)
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported, here and in all child processes
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # set by shells for background jobs
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def freeze_earlier_objects():
    """Exclude the objects that exist before a module's tests from garbage collection.

    Hundreds of tests collect garbage. Otherwise each collection would visit every object of every imported module.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def keep_precision():
    """Restore TF32 after each test: programs that tests run switch it on, and it changes the times of all products."""
    before = _precision()
    yield
    if before is not None and _precision() != before:
        sys.modules["torch"].set_float32_matmul_precision(before)


def _precision():
    """The precision of float32 products; None without torch, or where torch refuses to tell a mixed state."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


@pytest.fixture(autouse=True)
def no_analysis_fails(request):
    """Fail a test in which an analysis or a view raised, which a user sees as a problem of the Trace only."""
    failed = []
    handler = logging.Handler(logging.DEBUG)
    handler.emit = failed.append
    log = logging.getLogger("cudalens.analysis.cached")
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    yield
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)
    log.propagate = True
    if "plants_failures" not in request.fixturenames:
        assert not failed, "\n".join(map(logging.Formatter().format, failed))


@pytest.fixture
def plants_failures():
    """Mark a test that makes an analysis fail."""


@pytest.fixture(autouse=True)
def remove_torch_sanitizer():
    """Remove torch's own sanitizer: once imported, its callbacks stay registered, and each event makes them slower."""
    remove_callbacks()
    yield
    remove_callbacks()


def remove_callbacks():
    """Remove the callbacks of `torch.cuda._sanitizer` from torch's registries."""
    sanitizer, registries = (sys.modules.get(f"torch.cuda.{name}") for name in ("_sanitizer", "_gpu_trace"))
    for registry in vars(registries).values() if sanitizer and registries else ():
        if isinstance(callbacks := getattr(registry, "callback_list", None), list):
            callbacks[:] = [
                c for c in callbacks if not isinstance(getattr(c, "__self__", None), sanitizer.EventHandler)
            ]

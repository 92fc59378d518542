"""Checks of what works on this machine, with the reason for what does not. Most checks try the operation itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cudalens.device import facts
from cudalens.device.inventory import readings, support
from cudalens.device.inventory.readings import FIELDS, GpuGoneError
from cudalens.errors import MetricsError


@dataclass(frozen=True)
class Check:
    """One operation and whether it works here.

    Attributes:
        name: What it is ("profile the GPU").
        works: Whether it works.
        detail: How it was checked; or why it does not work, and what to do.
    """

    name: str
    works: bool
    detail: str


def run_checks() -> tuple[Check, ...]:
    """Return all checks, in the order in which one depends on another. None raises."""
    return tuple(_checks())


def _checks() -> Iterator[Check]:
    torch, reason = facts.torch_or_reason()
    if torch is None:
        yield Check("profile", False, f"torch cannot be imported: {reason}")
    else:
        yield _cpu(torch)
        yield _gpu(torch)
        yield _kernels(torch)
    yield _gauges()
    yield Check("open and show recorded traces", *_packages("pandas", "pyarrow", "msgspec"))
    yield Check("live widgets", *_widgets())
    yield Check("offline HTML reports", *_packages("plotly"))


def _kernels(torch: Any) -> Check:
    """Return whether our Triton kernels run; otherwise plain torch operators are used, which are slower."""
    name = "Triton kernels of cudalens"
    version = facts.installed("triton")
    instead = "plain torch operators are used, which give the same results"
    if version is None:
        return Check(name, False, f"Triton is not installed (pip install triton); {instead}")
    if support.no_gpu(torch):
        return Check(name, False, f"Triton {version} has no GPU to compile for; {instead}")
    return Check(name, True, f"compiled by Triton {version} when first used")


def _gauges() -> Check:
    """Return whether utilization, memory, temperature and power can be read: tested on the first GPU."""
    name = "read gauges of the GPUs"
    try:
        source = readings.open_source()
    except MetricsError as error:
        return Check(name, False, str(error))
    try:
        gpus = source.gpus()
        read = [field for field in FIELDS if gpus and getattr(source.read(gpus[0].number), field) is not None]
    except GpuGoneError as error:
        return Check(name, False, f"{source.label} responds, but {error}")
    finally:
        source.close()
    missing = ", ".join(field for field in FIELDS if field not in read)
    detail = (
        f"tested: {source.label} reads {gpus[0].name if gpus else 'none'}{f', but not {missing}' if missing else ''}"
    )
    return Check(name, bool(read), detail if gpus else f"{source.label} reports no GPU that responds")


def _packages(*names: str) -> tuple[bool, str]:
    missing = [name for name in names if facts.installed(name) is None]
    if missing:
        return False, f"not installed: {', '.join(missing)} (pip install {' '.join(missing)})"
    return True, "needs no GPU and no torch"


def _cpu(torch: Any) -> Check:
    name = "profile the CPU"
    try:
        count = _recorded(torch, "cpu")
    except Exception as error:
        return Check(name, False, f"torch.profiler failed: {error}")
    return Check(name, count > 0, "tested" if count else "torch.profiler recorded no operator")


def _gpu(torch: Any) -> Check:
    name = "profile the GPU"
    if reason := support.no_gpu(torch):
        return Check(name, False, reason)
    try:
        count = _recorded(torch, "cuda")
    except Exception as error:
        return Check(name, False, f"torch.profiler failed: {error}")
    if count:
        return Check(name, True, f"tested on {torch.cuda.get_device_name()}")
    # Why CUPTI may have delivered nothing although a kernel ran.
    no_kernel = (
        "a kernel ran, but CUPTI delivered no record of it: another tool may use CUPTI (Nsight, DCGM, another "
        "profiler; only one can at a time), or the container forbids profiling. CPU operators are still recorded"
    )
    return Check(name, False, no_kernel)


def _recorded(torch: Any, device: str) -> int:
    """Return how many operators (``cpu``) or kernels (``cuda``) of a small computation torch.profiler records."""
    if getattr(torch.autograd, "_profiler_enabled", bool)():  # a second profiler would end the first
        raise RuntimeError("another profiler is running in this process; it was not affected")
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
        torch.ones(8, device=device)  # creates the context before the profiled window
    with torch.profiler.profile(activities=activities) as profile:
        torch.ones(8, device=device).add_(1)
        if device == "cuda":
            torch.cuda.synchronize()
    wanted = torch.autograd.DeviceType.CUDA if device == "cuda" else torch.autograd.DeviceType.CPU
    return sum(event.device_type == wanted for event in profile.events() or ())


def _widgets() -> tuple[bool, str]:
    works, detail = _packages("anywidget", "ipywidgets")
    if not works:
        return False, f"{detail}; without it a static picture and text are shown"
    front_ends = [f"{name} {facts.installed(name)}" for name in ("jupyterlab", "notebook") if facts.installed(name)]
    here = ", ".join(front_ends) or "no JupyterLab in this environment"
    if front_ends and not _lab_extension("anywidget"):
        return False, f"{here}, but anywidget's extension is not among its extensions (pip install --force anywidget)"
    return True, (
        f"{here}. Also in VS Code and Colab. If the front end runs in another environment, install anywidget "
        "there. GitHub, nbconvert and saved notebooks show a static picture, a terminal shows text"
    )


def _lab_extension(name: str) -> bool:
    folders: tuple[Callable[[], str], ...] = (lambda: sys.prefix, lambda: str(Path.home() / ".local"))
    return any(Path(folder(), "share/jupyter/labextensions", name).is_dir() for folder in folders)

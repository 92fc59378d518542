"""`fit`: whether a program fits on GPUs that are not there, the largest batch, and what would make it fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from cudalens.errors import VirtualDeviceError
from cudalens.views.memory import fit_section
from cudalens.views.sections.shown import Shown
from cudalens.views.sections.unknown_values import DEFAULT, UnknownValues

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec
    from cudalens.virtual.fit.runs import Program, Run

_DEVICES: Final = ("l4", "a100-40gb", "h100")
_ALL: Final = ("checkpoint the blocks", "8-bit Adam", "all in bfloat16")


class Fit(Shown):
    """Whether a program fits; prints as text, and shows as tables in a notebook.

    Attributes:
        devices: A row for each device: ``device``, ``batch``, ``fits``, ``total_bytes`` (with the CUDA context),
            ``capacity_bytes``, bytes at the peak by category (``parameters_bytes`` ... ``cache_bytes``), ``line`` and
            ``operator`` at the peak, ``largest_batch`` (missing if the program takes no batch), ``stopped_by`` (the
            error that ended the search for it, after which it is the largest one found so far), ``step_ns`` and
            its 80 % band ``step_low_ns``, ``step_high_ns`` (`cudalens.gpus.predict`), ``is_calibrated``.
        changes: A row for each device on which it does not fit and each change: ``device``, ``change``,
            ``saves_bytes``, ``total_bytes``, ``fits``, ``step_ns``, and ``error`` where the program fails with it.
        read_at: The program's lines that read a value that is not known, each as place and text; they got `default`.
        unwritten: By path, place and text of the line that would have written unknown values to a file.
    """

    def __init__(self, devices: pd.DataFrame, changes: pd.DataFrame, unknown: UnknownValues) -> None:
        self.devices, self.changes = devices, changes
        self.read_at, self.unwritten = unknown.read_at, unknown.unwritten
        super().__init__(fit_section.section(devices, changes, unknown))


def fit(
    step: Callable[..., Any],
    devices: Sequence[str | DeviceSpec] = _DEVICES,
    batch: int = 1,
    *,
    default: float | None = DEFAULT,
    default_count: int | None = None,
) -> Fit:
    """Find out whether a program fits on GPUs, without a GPU and without computing values.

    Every figure comes from runs on a virtual device without values (``values=False``): the largest batch from a search,
    and what a change saves from a run with the change. A program fits if it runs beside the CUDA context and the
    workspaces of the libraries.

    ::

        def step(batch):
            model = torch.nn.Linear(4096, 4096).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            x = torch.randn(batch, 4096, device="cuda")

            def train():
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()

            return train

        cudalens.fit(step, devices=["l4"], batch=4096)

    Args:
        step: A function that makes the model and its data, with ``device="cuda"``, and runs a step; or returns a
            function that runs a step, which is then called twice. If it takes an argument, that is the batch size.
        devices: The GPUs, of ``cudalens.virtual.SPECS``.
        batch: The batch size to report.
        default: The number that the program reads where a value is unknown, such as ``loss.item()``; the result names
            these lines. Values are taken as finite: ``torch.isfinite(loss)`` is true. None raises an error that names
            the line. Files with values (`torch.save`) are not written, and the result names them too.
        default_count: The number of results of operators whose size depends on values (``nonzero``).

    Raises:
        VirtualDeviceError: A device is unknown; a virtual device is active; or the program needs a number of results
            with `batch`, and there is no `default_count`.
        ValueError: `batch` is below 1, or `devices` is empty.
    """
    from cudalens.gpus.registry import parse_device
    from cudalens.virtual import active
    from cudalens.virtual.fit.runs import Program, quick_collections
    from cudalens.virtual.shapes.reading import Defaults

    if batch < 1 or not devices:
        raise ValueError(f"fit() needs a batch of at least 1 and a device; got batch={batch!r}, devices={devices!r}.")
    if active() is not None:
        raise VirtualDeviceError(
            "fit() enables its own virtual devices, and one is active. Leave its block first (in a notebook: "
            "%cudadevice off)."
        )
    defaults = Defaults(default, default_count, skips_files=True)
    program = Program(step, defaults)
    specs = [parse_device(device)[0] for device in devices]
    with quick_collections():
        reports = [_report(program, spec, batch) for spec in specs]
        changes = [change for row in reports if not row["fits"] for change in _changes(program, row, batch)]
    columns = ["device", "change", "saves_bytes", "total_bytes", "fits", "step_ns", "error"]
    rows = [{key: value for key, value in row.items() if key not in ("spec", "run")} for row in reports]
    frame = pd.DataFrame(rows).astype({"largest_batch": "Int64"})
    unknown = UnknownValues(default or DEFAULT, list(defaults.read_at), dict(defaults.unwritten))
    return Fit(frame, pd.DataFrame(changes, columns=columns), unknown)


def _report(program: Program, spec: DeviceSpec, batch: int) -> dict[str, Any]:
    """Return the row of one device, with its `Run` and `DeviceSpec`."""
    from cudalens.gpus.constants import is_calibrated
    from cudalens.gpus.predict import time_band

    unlimited = program.measure(spec, batch)
    fitting = _fitting(program, spec, unlimited, batch)
    run = fitting or unlimited
    band = time_band(spec, run.kernels)
    largest_batch, stopped_by = _largest(program, spec, unlimited, batch) if program.takes_batch else (None, "")
    return {
        "device": spec.key,
        "batch": batch,
        "fits": fitting is not None,
        "total_bytes": run.total_bytes,
        "capacity_bytes": spec.total_memory_bytes,
        **{f"{name}_bytes": num_bytes for name, num_bytes in run.categories.items()},
        "cache_bytes": run.reserved_bytes - run.allocated_bytes,
        "context_bytes": run.context_bytes,
        "line": run.line,
        "operator": run.operator,
        "largest_batch": largest_batch,
        "stopped_by": stopped_by,
        "step_ns": run.step_ns,
        "step_low_ns": round(run.step_ns * band.low),
        "step_high_ns": round(run.step_ns * band.high),
        "is_calibrated": is_calibrated(spec),
        "run": run,
        "spec": spec,
    }


def _fitting(program: Program, spec: DeviceSpec, run: Run, batch: int, change: Any = None) -> Run | None:
    """Return the run on the device, or None if the program does not fit.

    Args:
        program: The program.
        spec: The device.
        run: The same on a device with unlimited memory. If it reserves more than the device has, the allocator frees
            its cached memory there, and a run on the device finds out whether that is enough.
        batch: The batch size.
        change: Makes the change to the program.
    """
    if run.total_bytes <= spec.total_memory_bytes:
        return run
    if not _may_fit(spec, run):
        return None
    return program.run_within(spec, batch, None if change is None else change())


def _largest(program: Program, spec: DeviceSpec, run: Run, batch: int) -> tuple[int | None, str]:
    """Return the largest batch, searched with a run for each batch that is tried, and the error that ended the search.

    With some batch, a program may read a value that is unknown: then the largest of the batches that fit so far counts.
    """
    from cudalens.virtual.fit.runs import guess_of, largest, largest_beyond

    known = {batch: run}

    def measured(size: int) -> Run:
        if size not in known:
            known[size] = program.measure(spec, size)
        return known[size]

    def fits(size: int) -> bool:
        return _fitting(program, spec, measured(size), size) is not None

    try:
        guess = guess_of(lambda size: measured(size).total_bytes, spec.total_memory_bytes, batch)
        return largest_beyond(fits, lambda size: _may_fit(spec, measured(size)), largest(fits, guess)), ""
    except VirtualDeviceError as error:
        return next((size for size in sorted(known, reverse=True) if fits(size)), None), str(error)


def _may_fit(spec: DeviceSpec, run: Run) -> bool:
    return run.requested_bytes + run.context_bytes <= spec.total_memory_bytes


def _changes(program: Program, row: dict[str, Any], batch: int) -> list[dict[str, Any]]:
    """Return what each change saves on a device on which the program does not fit; all together if none is enough."""
    from cudalens.virtual.fit.runs import CHANGES, combined

    found = [_change(program, row, batch, name, make) for name, make in CHANGES.items()]
    if not any(change["fits"] for change in found):
        together = lambda: combined([CHANGES[name] for name in _ALL])  # noqa: E731
        found.append(_change(program, row, batch, " + ".join(_ALL), together))
    if program.takes_batch and 0 < row["largest_batch"] < batch:
        smaller = int(row["largest_batch"])
        found.append(_change(program, row, smaller, f"a batch of {smaller:,}", None))
    return sorted(found, key=lambda change: (not change["fits"], -(change["saves_bytes"] or 0)))


def _change(program: Program, row: dict[str, Any], batch: int, name: str, make: Any) -> dict[str, Any]:
    spec, before = row["spec"], row["run"]
    try:
        unlimited = program.measure(spec, batch, None if make is None else make())
        fitting = _fitting(program, spec, unlimited, batch, make)
    except Exception as problem:  # the program does not support the change
        facts = {"saves_bytes": None, "total_bytes": None, "fits": False, "step_ns": None}
        return {"device": spec.key, "change": name, **facts, "error": f"{type(problem).__name__}: {problem}"}
    run = fitting or unlimited
    return {
        "device": spec.key,
        "change": name,
        "saves_bytes": before.total_bytes - unlimited.total_bytes,
        "total_bytes": run.total_bytes,
        "fits": fitting is not None,
        "step_ns": run.step_ns,
        "error": "",
    }

"""``%cudadevice``: shows the devices, reads their gauges live, and enables a virtual CUDA device."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError

from cudalens.errors import MetricsError, VirtualDeviceError
from cudalens.magics.base import Magic, verb
from cudalens.magics.cells import display
from cudalens.magics.options import NoOptions, file, flag, number, option, place, rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.gpus.registry import DeviceSpec
    from cudalens.views.gauges_widget import GaugesWidget
    from cudalens.virtual import device

_NO_METRICS: Final = "%cudadevice live: {} `%cudadevice virtual h100` models a GPU."
_HINT: Final = "Live gauges need a notebook with a kernel; these are the current readings."
_MAX_NAMES: Final = 8

#: Families of kernels whose bands `%cudadevice specs` shows, and their titles.
_SHOWN_FAMILIES: Final = {"matrix_half": "half products", "attention": "attention", "convolution_half": "convolutions"}


@dataclass(frozen=True, kw_only=True)
class LiveOptions(NoOptions):
    """Options of ``%cudadevice live``."""

    rate: float | None = option("--rate", metavar="HZ", type=rate, help="Readings per second (2).")


@dataclass(frozen=True, kw_only=True)
class VirtualOptions(NoOptions):
    """Options of ``%cudadevice virtual``."""

    spec: str = place("SPEC", "A device of `specs`, or several, such as h100x4 (default: h100).", "h100")
    alloc_conf: str | None = option(
        "--alloc-conf", metavar="TEXT", help="Settings of the allocator, as in PYTORCH_CUDA_ALLOC_CONF."
    )
    calibration: Path | None = file("--calibration", "Times that cudalens.virtual.calibrate() wrote; SPEC is any name.")
    no_values: bool = flag("--no-values", help="Compute no values: large models run without memory of the host.")
    default: float | None = option(
        "--default", metavar="NUMBER", type=float, help="With --no-values: what the program reads for unknown values."
    )
    default_count: int | None = option(
        "--default-count", metavar="N", type=int, help="With --no-values: the results of nonzero, x[mask] and the like."
    )
    measure_host: bool = flag("--measure-host", help="Real time between calls advances the virtual clock.")
    job: str | None = option(
        "--job",
        metavar="FUNCTION",
        help="Run this program of a rank on all of them without values, and end; `job` can compute values, too.",
    )


@dataclass(frozen=True, kw_only=True)
class FitOptions(NoOptions):
    """Options of ``%cudadevice fit``."""

    step: str = place(
        "STEP", "A function of the notebook: step(batch) makes a model and runs, or returns, a step.", "step"
    )
    devices: str = option(
        "--devices", metavar="LIST", help="Devices of `specs` (l4,a100,h100).", default="l4,a100,h100"
    )
    batch: int = number("--batch", "Batch size to report (1).", default=1)
    default: float = option(
        "--default",
        metavar="NUMBER",
        type=float,
        help="What the program reads for unknown values, such as loss.item() (0).",
        default=0.0,
    )


@dataclass(frozen=True, kw_only=True)
class JobOptions(NoOptions):
    """Options of ``%cudadevice job``."""

    function: str = place("FUNCTION", "A function of the notebook: the program of a rank.", "function")
    gpus: str = option(
        "--gpus", metavar="GPUS", help="The GPU and the number of all of them (h100x8).", default="h100x8"
    )
    nodes: int | None = option("--nodes", metavar="N", type=int, help="The number of nodes; by default one for 8 GPUs.")
    values: bool = flag("--values", help="Compute values, on at most 8 ranks, each in a process.")
    default: float | None = option(
        "--default",
        metavar="NUMBER",
        type=float,
        help="What the program reads for unknown values, such as loss.item() (0).",
    )


class Cudadevice(Magic):
    """``%cudadevice``."""

    name = "cudadevice"
    about = """Show the CUDA devices, or put a virtual CUDA device in place for the following cells.

``%cudadevice`` shows a card for each device; without a device it says why there is none and what to do. After
``%cudadevice virtual h100``, code with ``device="cuda"`` runs in this notebook without a GPU: with real values, on the
CPU, while streams, memory and time are modelled. With ``--no-values`` nothing is computed, so that models of any size
run. ``%cudadevice off`` ends it; tensors that are left become CPU tensors.
``%cudadevice live`` shows utilization, memory, power, temperature and clocks while later cells run, until
``%cudadevice live stop`` or until the page is closed. ``%cudadevice fit step`` answers on which devices a program fits,
with which batch, and what would make it fit. ``%cudadevice job train --gpus h100x64`` runs a torch.distributed program
on many virtual GPUs."""
    default = "status"

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.gauges: NotebookGauges | None = None

    def end(self) -> None:
        """End the live gauges and a virtual device of a cell, when the extension is unloaded."""
        self._end_gauges()
        if "cudalens.virtual.context" in sys.modules:
            from cudalens.virtual import active

            on = active()
            if on is not None and on.is_from_notebook:
                self._disable(on)

    @verb("status")
    def _status(self, options: NoOptions) -> None:
        """Show the devices."""
        import cudalens
        from cudalens.virtual import active

        if (on := active()) is not None:
            print(_described(on))  # noqa: T201
        display(self.shell, cudalens.devices())

    @verb("live", LiveOptions)
    def _live(self, options: LiveOptions) -> None:
        """Show gauges that follow the readings of the devices while later cells run."""
        from cudalens.views.notebook import is_live

        self._end_gauges()
        if not is_live():
            from cudalens.views.gauges import GaugeFeed, section
            from cudalens.views.sections.write_text import to_text

            feed = GaugeFeed()
            try:
                feed.start()
            except MetricsError as error:
                raise UsageError(_NO_METRICS.format(error)) from None
            feed.stop("read once")
            print(f"{to_text(section(feed))}\n{_HINT}")  # noqa: T201
            return
        from cudalens.views.gauges import DEFAULT_HZ

        self.gauges = NotebookGauges(self.shell, options.rate or DEFAULT_HZ)
        display(self.shell, self.gauges.widget)

    @verb("live stop")
    def _live_stop(self, options: NoOptions) -> None:
        """End the live gauges; their last readings stay as a picture."""
        was_on = self.gauges is not None and self.gauges.widget.is_running
        self._end_gauges()
        if not was_on:
            print("No live gauges were on.")  # noqa: T201

    @verb("virtual", VirtualOptions)
    def _virtual(self, options: VirtualOptions) -> None:
        """Put a virtual device in place; one that an earlier cell put in place ends."""
        from cudalens.virtual import active, device

        if options.job is not None:
            if options.alloc_conf or options.calibration or options.default_count is not None or options.measure_host:
                raise UsageError("%cudadevice virtual: --job takes only --default and --no-values besides the GPUs.")
            self._show_job(options.job, options.spec, None, options.default, values=False)
            return
        before = active()
        try:
            wanted = device(
                options.spec,
                alloc_conf=options.alloc_conf,
                calibration=options.calibration,
                values=not options.no_values,
                default=options.default,
                default_count=options.default_count,
                measure_host=options.measure_host,
            )
            if before is not None and before.is_from_notebook:
                self._disable(before)
            wanted.is_from_notebook = True
            wanted.enable()
        except (VirtualDeviceError, ValueError) as error:
            raise UsageError(f"%cudadevice virtual: {error}") from None
        print(_described(wanted))  # noqa: T201

    @verb("fit", FitOptions)
    def _fit(self, options: FitOptions) -> None:
        """Find out whether a program fits on devices that are not there, and what would make it fit."""
        import cudalens

        step = self.shell.user_ns.get(options.step)
        if not callable(step):
            raise UsageError(
                f"%cudadevice fit: {options.step!r} is not a function of this notebook. Define step(batch)."
            )
        names = [name.strip() for name in options.devices.split(",") if name.strip()]
        try:
            found = cudalens.fit(step, devices=names, batch=options.batch, default=options.default)
        except (VirtualDeviceError, ValueError) as error:
            raise UsageError(f"%cudadevice fit: {error}") from None
        display(self.shell, found)

    @verb("job", JobOptions)
    def _job(self, options: JobOptions) -> None:
        """Run a torch.distributed program on many virtual GPUs."""
        self._show_job(options.function, options.gpus, options.nodes, options.default, values=options.values)

    def _show_job(self, name: str, gpus: str, nodes: int | None, default: float | None, *, values: bool) -> None:
        """Run a function of the notebook as a job, and show the job."""
        from cudalens.api.job import job
        from cudalens.views.sections.unknown_values import DEFAULT

        function = self.shell.user_ns.get(name)
        if not callable(function):
            raise UsageError(f"%cudadevice job: {name!r} is not a function of this notebook. Define what a rank runs.")
        default = DEFAULT if default is None else default
        try:
            found = job(function, gpus, nodes, values=values, default=default, name=name)
        except (VirtualDeviceError, ValueError) as error:
            raise UsageError(f"%cudadevice job: {error}") from None
        display(self.shell, found)

    @verb("off")
    def _off(self, options: NoOptions) -> None:
        """End the virtual device."""
        from cudalens.virtual import active

        before = active()
        if before is None:
            print("No virtual device was on.")  # noqa: T201
        elif not before.is_from_notebook:
            raise UsageError("%cudadevice off: this virtual device belongs to a with statement, which ends it.")
        else:
            self._disable(before)
            print(f"The virtual {before.label} is off.")  # noqa: T201

    @verb("specs")
    def _specs(self, options: NoOptions) -> None:
        """List the devices that can be modelled."""
        from cudalens.gpus.constants import is_calibrated
        from cudalens.virtual import SPECS

        titles = "".join(f"{title:>15}" for title in _SHOWN_FAMILIES.values())
        print(f"{'':47}{titles}  (80 % bands of modelled times; a range is in times of them)")  # noqa: T201
        for spec in sorted(SPECS.values(), key=lambda spec: spec.key):
            note = "" if is_calibrated(spec) else " (times uncalibrated)"
            bands = "".join(f"{_band_of(spec, family):>15}" for family in _SHOWN_FAMILIES)
            print(  # noqa: T201
                f"{spec.key:<12} {spec.total_memory_bytes / 2**30:6.1f} GiB  {spec.num_sms:4} SMs  "
                f"{spec.memory_bandwidth_gbps:6,.0f} GB/s{bands}  {spec.name}{note}"
            )

    def _disable(self, on: device) -> None:
        """Disable a virtual device, and print which tensors become CPU tensors."""
        text = _left_on(on, self.shell.user_ns)
        on.disable()
        if text:
            print(text)  # noqa: T201

    def _end_gauges(self) -> None:
        if self.gauges is not None:
            self.gauges.end()


def _band_of(spec: DeviceSpec, family: str) -> str:
    """Return the 80 % band of a family's kernels of more than 20 us on a GPU: ``± 9 %``, or ``0.7 to 1.5``."""
    from cudalens.gpus.predict import SHORT_NS, time_band

    return time_band(spec, [(family, SHORT_NS + 1)]).words.removesuffix(" times these")


def _described(on: device) -> str:
    """One line on a virtual device: what it is, and its memory in use."""
    assert on.gpus is not None
    used, total = 0, 0
    for gpu in on.gpus.devices:
        free, size = gpu.allocator.memory_info()
        used, total = used + size - free, total + size
    clock_ms = on.gpus.machine.now_ns / 1e6
    without = "" if on.values else ", without values"
    return (
        f"Virtual {on.label} is on (simulated: {on.spec.name}{without}): {used / 2**30:.2f} of {total / 2**30:.1f} GiB "
        f"in use, virtual clock {clock_ms:,.3f} ms."
    )


def _left_on(on: device, namespace: Mapping[str, Any]) -> str:
    """Return which tensors become CPU tensors when a virtual device ends; empty text where it has none."""
    import torch

    from cudalens.analysis import units
    from cudalens.magics.graph_effects import names_on_device

    num_bytes = sum(torch.cuda.memory_allocated(index) for index in range(torch.cuda.device_count()))
    if not num_bytes:
        return ""
    if not on.values:
        return f"The tensors on the virtual {on.label} ({units.size(num_bytes)}) had no values and cannot be used now."
    names = names_on_device(namespace)
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    listed = f": {', '.join(names[:_MAX_NAMES])}{more}" if names else ""
    return (
        f"The tensors on the virtual {on.label} ({units.size(num_bytes)}) are CPU tensors from now on{listed}. "
        "Code that needs them on a device has to create or move them again."
    )


class NotebookGauges:
    """Live gauges in a shell, which follow the beginning and end of its cells.

    Args:
        shell: The shell.
        rate_hz: Readings per second.

    Raises:
        UsageError: There is nothing to read.
    """

    def __init__(self, shell: InteractiveShell, rate_hz: float) -> None:
        from cudalens.views.gauges_widget import GaugesWidget

        self._shell = shell
        try:
            self.widget: GaugesWidget = GaugesWidget(rate_hz, on_end=self._leave)
        except MetricsError as error:
            raise UsageError(_NO_METRICS.format(error)) from None
        self.widget.cell(is_running=True)
        shell.events.register("pre_run_cell", self._cell_begins)
        shell.events.register("post_run_cell", self._cell_ended)

    def end(self) -> None:
        """End the gauges; their last readings stay as a picture. No effect when they have ended."""
        self.widget.stop()

    def _cell_begins(self, info: Any = None) -> None:
        self.widget.cell(is_running=True)

    def _cell_ended(self, result: Any = None) -> None:
        self.widget.cell(is_running=False)
        with suppress(Exception):  # a picture that is out of date is better than an error in the user's cell
            self.widget.refresh()

    def _leave(self) -> None:
        for event, callback in (("pre_run_cell", self._cell_begins), ("post_run_cell", self._cell_ended)):
            with suppress(ValueError):
                self._shell.events.unregister(event, callback)

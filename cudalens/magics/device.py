"""``%cudadevice``: a virtual CUDA device for the cells that follow, and which device there is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from cudalens.magics.arguments import Table, rate, value
from cudalens.magics.blocks import display

if TYPE_CHECKING:
    from cudalens.magics.gauges import NotebookGauges
    from cudalens.virtual import device

_DEFAULT_SPEC: Final = "h100"
_TABLE: Final = Table(
    "%cudadevice",
    (
        value("action", nargs="?", default="status", help="status (the default), live, virtual, off or specs."),
        value("spec", nargs="?", help="For virtual: a device, such as h100 or h100x4. For live: stop."),
        value("--rate", metavar="HZ", type=rate, help="For live: readings per second (2)."),
        value("--alloc-conf", metavar="TEXT", help="For virtual: what PYTORCH_CUDA_ALLOC_CONF would say."),
    ),
)


@magics_class
class CudadeviceMagics(Magics):
    """``%cudadevice``."""

    _gauges: NotebookGauges | None = None

    @_TABLE.documented
    @no_var_expand
    @line_magic
    def cudadevice(self, line: str) -> None:
        """Put a virtual CUDA device in place for the cells that follow, or take it away.

        ``%cudadevice virtual h100`` makes ``device="cuda"`` code run in this notebook without a GPU: with real values,
        on the CPU, while streams, memory and time are modelled. ``%cudadevice off`` ends it; tensors that are left
        become plain CPU tensors. ``%cudadevice specs`` lists what can be modelled. Without a word it shows a card for
        each device, or says why there is none and what to do. ``%cudadevice live`` shows utilization, memory, power,
        temperature and clocks while later cells run, until ``%cudadevice live stop`` or until no page shows them.
        """
        words = SimpleNamespace(**_TABLE.parse(line))
        acts = {
            "status": self._status,
            "live": self._live,
            "virtual": self._virtual,
            "off": self._off,
            "specs": self._specs,
        }
        takes = words.action == "virtual" or (words.action == "live" and words.spec == "stop")
        if words.action not in acts or (words.spec and not takes):
            raise _TABLE.refusal(f"what is {line!r}? Expected status, live, live stop, virtual, off or specs.")
        if (said := acts[words.action](words)) is not None:
            print(said)  # noqa: T201

    def _virtual(self, words: Any) -> str:
        from cudalens.errors import VirtualDeviceError
        from cudalens.virtual import active, device

        before = active()
        try:
            wanted = device(words.spec or _DEFAULT_SPEC, alloc_conf=words.alloc_conf)
            if before is not None and before.is_from_notebook:
                before.disable()
            wanted.is_from_notebook = True
            wanted.enable()
        except (VirtualDeviceError, ValueError) as error:
            raise UsageError(f"%cudadevice: {error}") from None
        return _told(wanted)

    def _off(self, words: Any) -> str:
        from cudalens.virtual import active

        before = active()
        if before is None:
            return "No virtual device was on."
        if not before.is_from_notebook:
            raise UsageError("%cudadevice: this virtual device belongs to a with statement, which ends it.")
        before.disable()
        return f"The virtual {before.label} is off. Tensors that are left are plain CPU tensors."

    def _status(self, words: Any) -> str | None:
        import cudalens
        from cudalens.virtual import active

        if (on := active()) is not None:
            print(_told(on))  # noqa: T201
        assert self.shell is not None
        display(self.shell, cudalens.devices())
        return None

    def _live(self, words: Any) -> str | None:
        from cudalens.magics.gauges import NotebookGauges, readings_now
        from cudalens.views.notebook import is_live

        was_on = self._gauges is not None and self._gauges.widget.is_running
        self.end()
        if words.spec == "stop":
            return None if was_on else "No live gauges were on."
        assert self.shell is not None
        if not is_live():
            return readings_now()
        from cudalens.views.devices.gauges_feed import DEFAULT_HZ

        self._gauges = NotebookGauges(self.shell, words.rate or DEFAULT_HZ)
        display(self.shell, self._gauges.widget)
        return None

    def end(self) -> None:
        """End live gauges, when the extension is unloaded or others take their place."""
        if self._gauges is not None:
            self._gauges.end()

    def _specs(self, words: Any) -> str:
        from cudalens.virtual import SPECS

        rows = [
            f"{spec.key:<12} {spec.total_memory_bytes / 2**30:6.1f} GiB  {spec.num_sms:4} SMs  "
            f"{spec.memory_bandwidth_gbps:6,.0f} GB/s  {spec.name}"
            for spec in sorted(SPECS.values(), key=lambda spec: spec.key)
        ]
        return "\n".join(rows)


def _told(on: device) -> str:
    """One line on a virtual device: what it is, and what it holds."""
    assert on.gpus is not None
    used, total = 0, 0
    for gpu in on.gpus.devices:
        free, size = gpu.allocator.memory_info()
        used, total = used + size - free, total + size
    clock_ms = on.gpus.machine.now_ns / 1e6
    return (
        f"Virtual {on.label} is on (simulated: {on.spec.name}): {used / 2**30:.2f} of {total / 2**30:.1f} GiB in use, "
        f"virtual clock {clock_ms:,.3f} ms."
    )


def end_device() -> None:
    """Take away a virtual device that a cell put in place, when the extension is unloaded."""
    import sys

    if "cudalens.virtual.context" in sys.modules:
        from cudalens.virtual import active

        on = active()
        if on is not None and on.is_from_notebook:
            on.disable()

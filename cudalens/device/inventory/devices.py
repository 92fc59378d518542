"""`Devices`: the facts about this machine's GPUs, as data. No torch; a view of it needs no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU; None for unknown values. `COLUMNS` describes each field."""

    index: int | None
    physical_index: int | None = None
    name: str
    is_simulated: bool = False
    capability: str | None = None
    architecture: str | None = None
    total_memory_bytes: int | None = None
    used_memory_bytes: int | None = None
    num_sms: int | None = None
    max_threads_per_sm: int | None = None
    warp_size: int | None = None
    clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    memory_bus_bits: int | None = None
    memory_bandwidth_gbps: float | None = None
    l2_cache_bytes: int | None = None
    shared_memory_per_sm_bytes: int | None = None
    power_limit_watts: float | None = None
    uuid: str | None = None
    pci: str | None = None
    mig: str | None = None
    is_supported: bool | None = None
    supported_by: str | None = None
    warning: str | None = None
    remedy: str | None = None
    fp16: str | None = None
    bf16: str | None = None
    tf32: str | None = None
    fp8: str | None = None
    fp4: str | None = None

    @property
    def label(self) -> str:
        """``cuda:0``; for a GPU that the program does not see, its physical number: ``GPU 3``."""
        return f"GPU {self.physical_index}" if self.index is None else f"cuda:{self.index}"


#: Facts about the whole machine; each row of the frame repeats them.
_SHARED: Final = ("driver", "driver_cuda", "runtime", "arch_list", "gencode_flags")

#: Dtype and meaning of each column of `Devices.frame`.
COLUMNS: Final[dict[str, tuple[str, str]]] = {
    "index": ("Int32", "index of the `cuda:` device; missing if the program does not see the GPU"),
    "physical_index": ("Int32", "number in the order of NVML and nvidia-smi, before CUDA_VISIBLE_DEVICES"),
    "name": ("str", "product name"),
    "is_simulated": ("bool", "the GPU does not exist: a virtual device models it"),
    "capability": ("str", "compute capability"),
    "architecture": ("str", "architecture of its code: `sm_90`, `gfx942`"),
    "total_memory_bytes": ("Int64", "size of its memory"),
    "used_memory_bytes": ("Int64", "memory in use by all processes at the time of the reading"),
    "num_sms": ("Int32", "multiprocessors (compute units)"),
    "max_threads_per_sm": ("Int32", "maximum number of threads on one"),
    "warp_size": ("Int32", "threads of a warp"),
    "clock_mhz": ("Int32", "highest clock of the multiprocessors"),
    "memory_clock_mhz": ("Int32", "highest clock of the memory"),
    "memory_bus_bits": ("Int32", "width of the memory bus"),
    "memory_bandwidth_gbps": ("Float64", "twice the memory clock times the width: the peak, 10⁹ bytes a second"),
    "l2_cache_bytes": ("Int64", "second-level cache"),
    "shared_memory_per_sm_bytes": ("Int64", "shared memory of a multiprocessor"),
    "power_limit_watts": ("Float64", "the limit that is enforced"),
    "uuid": ("str", "as CUDA_VISIBLE_DEVICES takes it"),
    "pci": ("str", "PCI address"),
    "mig": ("str", "`off`, `on`, or the instance that the program sees; missing if the GPU does not support MIG"),
    "is_supported": ("boolean", "whether this torch has code for it; missing if unknown"),
    "supported_by": ("str", "the entry of the arch list that runs on it; `(JIT)`: the driver compiles it first"),
    "warning": ("str", "what is wrong"),
    "remedy": ("str", "what to do about it"),
    **{
        kind: ("str", f"{text}: `native`, `emulated` or `no`")
        for kind, text in (
            ("fp16", "float16"),
            ("bf16", "bfloat16"),
            ("tf32", "float32 matrix products on tensor cores"),
            ("fp8", "8-bit floating point on tensor cores"),
            ("fp4", "4-bit floating point on tensor cores"),
        )
    },
    "driver": ("str", "version of the driver"),
    "driver_cuda": ("str", "the newest CUDA version that the driver supports"),
    "runtime": ("str", "what torch was built for"),
    "arch_list": ("str", "architectures that torch has code for"),
    "gencode_flags": ("str", "the nvcc options for them"),
}


@dataclass(frozen=True, repr=False, kw_only=True)
class Devices:
    """The GPUs of this machine: their properties, whether this torch can use them, and what to do if it cannot.

    It is shown as text, or as one card per device in a notebook. Iterating yields each visible `Device`.

    Attributes:
        all: Every GPU: those that the program sees in its order, then those that it does not.
        torch: Version of torch, or None if it cannot be imported.
        runtime: What torch was built for ("CUDA 12.8"), or None for a CPU-only build.
        driver: Version of the driver, or None.
        driver_cuda: The newest CUDA version that the driver supports, or None.
        arch_list: Architectures that torch has code for.
        gencode_flags: The nvcc options for them.
        visibility: The effect of CUDA_VISIBLE_DEVICES, in a sentence.
        simulated: The active virtual device ("h100x4"), or None.
        reason: Why the program sees no GPU, and what to do; "" if it sees one.
        notes: Values that could not be read, and warnings.
        access: For each pair of visible devices, whether the first can access the second's memory; None for itself.
    """

    all: tuple[Device, ...] = ()
    torch: str | None = None
    runtime: str | None = None
    driver: str | None = None
    driver_cuda: str | None = None
    arch_list: tuple[str, ...] = ()
    gencode_flags: str = ""
    visibility: str = ""
    simulated: str | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()
    access: tuple[tuple[bool | None, ...], ...] = ()

    @property
    def visible(self) -> tuple[Device, ...]:
        """The GPUs that the program sees, in its order."""
        return tuple(device for device in self.all if device.index is not None)

    @property
    def hidden(self) -> tuple[Device, ...]:
        """The GPUs of the machine that the program does not see."""
        return tuple(device for device in self.all if device.index is None)

    @property
    def frame(self) -> pd.DataFrame:
        """A row per GPU, the visible ones first; `COLUMNS` describes the columns."""
        import pandas as pd

        rows = [self._row(device) for device in self.all]
        return pd.DataFrame(
            {name: pd.array([row[name] for row in rows], dtype=kind) for name, (kind, _) in COLUMNS.items()}
        )

    @property
    def peers(self) -> pd.DataFrame:
        """Whether the device of a row can read and write the memory of the device of a column; `<NA>` for itself."""
        import pandas as pd

        labels = [device.label for device in self.visible]
        columns = {label: pd.array([row[k] for row in self.access], dtype="boolean") for k, label in enumerate(labels)}
        return pd.DataFrame(columns, index=pd.Index(labels, name="device", dtype="str"))

    @property
    def verdict(self) -> str:
        """The result in one line."""
        from cudalens.views.device_cards import verdict

        return verdict(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        devices = [{f.name: getattr(device, f.name) for f in fields(Device)} for device in self.all]
        rest = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("all", "access")}
        return {"devices": devices, **rest, "access": [list(row) for row in self.access]}

    def __iter__(self) -> Iterator[Device]:
        """Return the visible devices."""
        return iter(self.visible)

    def __len__(self) -> int:
        """Return the number of visible devices, as `torch.cuda.device_count`."""
        return len(self.visible)

    def __bool__(self) -> bool:
        """Return whether the program sees a GPU."""
        return bool(self.visible)

    def __getitem__(self, index: int) -> Device:
        """Return the device ``cuda:<index>``."""
        return self.visible[index]

    def __repr__(self) -> str:
        """Return the verdict and the facts about each device, as text."""
        from cudalens.views.device_cards import devices_text

        return devices_text(self)

    def _repr_html_(self) -> str:
        from cudalens.views.device_cards import devices_html

        return devices_html(self)

    def _row(self, device: Device) -> dict[str, Any]:
        row = {f.name: getattr(device, f.name) for f in fields(Device)}
        return row | {name: getattr(self, name) for name in _SHARED} | {"arch_list": " ".join(self.arch_list)}

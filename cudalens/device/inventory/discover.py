"""`devices()`: the facts about this machine's GPUs from torch, the management library and the environment.

Querying the properties of a GPU through torch initializes CUDA in this process, as the first tensor on it does; after
that, forked children cannot use CUDA.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from cudalens.device import facts
from cudalens.device.inventory import readings, support
from cudalens.device.inventory.devices import Device, Devices
from cudalens.device.inventory.readings import Gpu, Source, gpu_of
from cudalens.device.inventory.support import amd_formats, cuda_formats, gencode_flags, releases_for
from cudalens.device.inventory.visible import Visible, parse_visible, variable
from cudalens.errors import MetricsError

_MAX_PEERS: Final = 64


def devices() -> Devices:
    """Return the facts about this machine's GPUs. Missing values raise nothing; `notes` lists them.

    GPUs that the program does not see are included if NVML or amdsmi is available. Initializes CUDA.
    """
    torch, broken = facts.torch_or_reason()
    source, no_source = _source()
    try:
        return _devices(torch, broken, source, no_source)
    finally:
        if source is not None:
            source.close()


def _devices(torch: Any, broken: str, source: Source | None, no_source: str) -> Devices:
    gpus = source.gpus() if source is not None else ()
    is_hip = torch is not None and getattr(torch.version, "hip", None) is not None
    name, text = variable(os.environ, is_hip=is_hip)
    visible = parse_visible(text, [gpu.uuid for gpu in gpus], [m for gpu in gpus for m in gpu.migs], name=name)
    common: dict[str, Any] = {
        "driver": (source.driver if source is not None else None) or facts.driver(),
        "driver_cuda": source.driver_cuda if source is not None else None,
        "simulated": readings.virtual_label(),
        "visibility": visible.note if gpus or text is not None else "",
    }
    if torch is None:
        reason = f"torch cannot be imported: {broken}"
        return Devices(all=tuple(map(hidden, gpus)), reason=reason, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's warnings are in the field `warning`
        found = _visible(torch, source, gpus)
        read = visible if gpus else None
        reason = "" if found else _reason(torch, read)
        access = _access(torch, len(found))
    seen = {device.physical_index for device in found}
    arch_list = arch_list_of(torch)
    return Devices(
        all=(*found, *(hidden(gpu) for gpu in gpus if gpu.number not in seen)),
        torch=str(torch.__version__),
        runtime=facts.accelerator_build(torch),
        arch_list=arch_list,
        gencode_flags=gencode_flags(arch_list),
        reason=reason,
        notes=tuple(_notes(source, no_source, found, visible)),
        access=access,
        **common,
    )


def _source() -> tuple[Source | None, str]:
    try:
        return readings.open_source(), ""
    except MetricsError as error:
        return None, str(error)


def _reason(torch: Any, visible: Visible | None) -> str:
    if readings.virtual_label():
        note = visible.note if visible is not None else "CUDA_VISIBLE_DEVICES"
        return f"{note}; the virtual device reads it when it starts"
    return support.no_gpu(torch, visible) or "torch sees GPUs, but cannot query any of them"


def _visible(torch: Any, source: Source | None, gpus: Sequence[Gpu]) -> list[Device]:
    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        try:
            properties = torch.cuda.get_device_properties(index)
        except Exception as error:  # the other GPUs are still listed
            warning = f"it cannot be queried: {str(error).strip().partition(chr(10))[0]}"
            found.append(Device(index=index, name="GPU that does not respond", warning=warning, is_supported=False))
            continue
        found.append(described(torch, index, properties, gpu_of(properties, gpus), source))
    return found


def _access(torch: Any, count: int) -> tuple[tuple[bool | None, ...], ...]:
    """Peer access of each pair; empty if there is no device, or too many to query all pairs."""
    if not 1 < count <= _MAX_PEERS:
        return ((None,),) if count == 1 else ()
    return tuple(tuple(None if a == b else _can_access(torch, a, b) for b in range(count)) for a in range(count))


def _can_access(torch: Any, device: int, peer: int) -> bool | None:
    try:
        return bool(torch.cuda.can_device_access_peer(device, peer))
    except Exception:
        return None


def _notes(source: Source | None, no_source: str, found: Sequence[Device], visible: Visible) -> list[str]:
    notes = []
    if source is None and found:
        notes.append(no_source)
    notes += [f"{what}: {why}" for what, why in (source.problems.items() if source is not None else ())]
    now = tuple(device.physical_index for device in found)
    if source is not None and found and None not in now and now != visible.gpus:
        which = ", ".join(f"{device.label} is GPU {device.physical_index}" for device in found)
        notes.append(
            f"{visible.note}, but CUDA has it that {which}: the variable was changed after CUDA had started, or CUDA "
            "numbers the fastest GPU first (CUDA_DEVICE_ORDER=PCI_BUS_ID makes it count as nvidia-smi does)"
        )
    return notes


# Describe one GPU: the values of torch and the management library, and whether this build of torch can use it.

_KHZ_PER_MHZ: Final = 1000


def described(torch: Any, index: int, properties: Any, gpu: Gpu | None, source: Source | None) -> Device:
    """Return a GPU that the program sees.

    Args:
        torch: The module.
        index: Index of the ``cuda:`` device.
        properties: Its properties by torch.
        gpu: Its values by the management library; None if there is no library.
        source: The management library.
    """
    is_hip = getattr(torch.version, "hip", None) is not None
    capability = (int(properties.major), int(properties.minor))
    clock, memory_clock, bus = (
        _known(properties, name) for name in ("clock_rate", "memory_clock_rate", "memory_bus_width")
    )
    clock_mhz = clock // _KHZ_PER_MHZ if clock else None
    memory_mhz = memory_clock // _KHZ_PER_MHZ if memory_clock else None
    if gpu is not None:
        clock_mhz = clock_mhz or gpu.clock_mhz
        memory_mhz = memory_mhz or gpu.memory_clock_mhz
    uuid = gpu.uuid if gpu else None
    if not uuid and (own := getattr(properties, "uuid", None)) is not None:
        uuid = f"GPU-{own}"
    return Device(
        index=index,
        physical_index=gpu.number if gpu else None,
        name=str(properties.name),
        is_simulated=readings.virtual_label() is not None,
        capability=None if is_hip else ".".join(map(str, capability)),
        architecture=properties.gcnArchName if is_hip else "sm_{}{}".format(*capability),
        total_memory_bytes=int(properties.total_memory),
        used_memory_bytes=_used(source, gpu),
        num_sms=int(properties.multi_processor_count),
        max_threads_per_sm=_known(properties, "max_threads_per_multi_processor"),
        warp_size=_known(properties, "warp_size"),
        clock_mhz=clock_mhz,
        memory_clock_mhz=memory_mhz,
        memory_bus_bits=bus,
        memory_bandwidth_gbps=round(2 * memory_mhz * bus / 8 / 1000, 1) if memory_mhz and bus else None,
        l2_cache_bytes=_known(properties, "L2_cache_size"),
        shared_memory_per_sm_bytes=_known(properties, "shared_memory_per_multiprocessor"),
        power_limit_watts=gpu.power_limit_watts if gpu else None,
        uuid=uuid,
        pci=_pci(properties) or (gpu.pci if gpu else None),
        mig=_mig(properties, gpu),
        **_supported(torch, index, str(properties.name), capability, is_hip=is_hip),
        **_formats(properties, capability, is_hip=is_hip),
    )


def hidden(gpu: Gpu) -> Device:
    """Return a GPU that the program does not see."""
    major, _, minor = (gpu.capability or "").partition(".")
    capability = (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
    formats: dict[str, Any] = {} if capability is None else {**cuda_formats(capability)}
    return Device(
        index=None,
        physical_index=gpu.number,
        name=gpu.name,
        is_simulated=readings.virtual_label() is not None,
        capability=gpu.capability,
        architecture=None if capability is None else "sm_{}{}".format(*capability),
        total_memory_bytes=gpu.total_memory_bytes,
        clock_mhz=gpu.clock_mhz,
        memory_clock_mhz=gpu.memory_clock_mhz,
        power_limit_watts=gpu.power_limit_watts,
        uuid=gpu.uuid or None,
        pci=gpu.pci,
        mig=_mode(gpu),
        **formats,
    )


def arch_list_of(torch: Any) -> tuple[str, ...]:
    """Architectures that this build has code for; `torch.cuda.get_arch_list` of torch 2.9 hides them without a GPU."""
    if facts.accelerator_build(torch) is None:
        return ()
    with suppress(Exception):
        return tuple(torch._C._cuda_getArchFlags().split())
    return tuple(torch.cuda.get_arch_list())


def _known(properties: Any, name: str) -> int | None:
    """Return a property that some versions of torch and CUDA lack; None if it is missing or 0, which means unknown."""
    value = getattr(properties, name, None)
    return int(value) if value else None


def _used(source: Source | None, gpu: Gpu | None) -> int | None:
    if source is None or gpu is None:
        return None
    try:
        return source.read(gpu.number).memory_used_bytes
    except readings.GpuGoneError:
        return None


def _pci(properties: Any) -> str | None:
    domain, bus, device = (getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device"))
    return None if domain is None or bus is None or device is None else f"{domain:04x}:{bus:02x}:{device:02x}.0"


def _mode(gpu: Gpu) -> str | None:
    if gpu.is_mig is None:
        return None
    return "on" if gpu.is_mig else "off"


def _mig(properties: Any, gpu: Gpu | None) -> str | None:
    """``off``, ``on``, or the instance with the UUID that torch reports."""
    if gpu is None:
        return None
    own = str(getattr(properties, "uuid", ""))
    instance = next((one for one in gpu.migs if own and one.uuid.removeprefix("MIG-") == own), None)
    return _mode(gpu) if instance is None else f"{instance.profile or 'instance'} ({instance.uuid})"


def _formats(properties: Any, capability: tuple[int, int], *, is_hip: bool) -> dict[str, Any]:
    return {**(amd_formats(str(properties.gcnArchName)) if is_hip else cuda_formats(capability))}


def _supported(torch: Any, index: int, name: str, capability: tuple[int, int], *, is_hip: bool) -> dict[str, Any]:
    """Return the fields of `Device` about whether this build has code for the GPU."""
    arch_list = arch_list_of(torch)
    if is_hip or not arch_list:
        return {}  # ROCm's list names chips, not capabilities
    answer = support.support(capability, arch_list)
    if answer.kind == "native":
        return {"is_supported": True, "supported_by": answer.code}
    text = ".".join(map(str, capability))
    if answer.kind == "jit":
        return {
            "is_supported": True,
            "supported_by": f"{answer.code} (JIT)",
            "warning": f"this torch has no compiled code for compute capability {text}: the driver compiles it from "
            f"{answer.code} at the first use, which takes minutes once",
            "remedy": _remedy(torch, capability),
        }
    warning = (
        f"this torch ({torch.__version__}) has no code for compute capability {text} (it has {' '.join(arch_list)}): "
        'the first kernel on it fails with "no kernel image is available for execution on the device"'
    )
    return {"is_supported": False, "warning": warning, "remedy": _remedy(torch, capability)}


def _remedy(torch: Any, capability: tuple[int, int]) -> str:
    """Return which build of torch to install, by torch's table of its releases."""
    table = getattr(torch.cuda, "PYTORCH_RELEASES_CODE_CC", {})
    fitting: list[str] = []
    with suppress(Exception):  # the form depends on the torch version
        machine = torch.cuda._host_arch_key()
        fitting = releases_for(capability, {cuda: codes.get(machine, ()) for cuda, codes in table.items()})
    version = str(torch.__version__).partition("+")[0]
    if not fitting:
        return "install a build of torch that has it (https://pytorch.org/get-started/locally), or use another GPU"
    index = f"https://download.pytorch.org/whl/cu{fitting[0].replace('.', '')}"
    return f"pip install torch=={version} --index-url {index}"

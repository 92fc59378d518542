"""Whether a build of torch has code for a GPU, and which number formats the GPU supports. No torch.

Sources: CUDA C++ programming guide, "Binary compatibility", "PTX compatibility", "Architecture-specific features" and
"Family-specific features"; torch.cuda's own check has the same rules. Number formats: the guide's "Feature support
per compute capability" and PTX ISA, `mma`; for AMD the "Precision support" page of ROCm.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from cudalens.device import facts
from cudalens.device.inventory.visible import Visible, variable

_GET_TORCH: Final = "https://pytorch.org/get-started/locally lists the builds"
_TOO_OLD: Final = "too old"


def no_gpu(torch: Any, visible: Visible | None = None) -> str | None:
    """Why torch sees no GPU, or None if it sees one.

    Args:
        torch: The module.
        visible: The effect of CUDA_VISIBLE_DEVICES, if the machine's GPUs are known.
    """
    build, driver = facts.accelerator_build(torch), facts.driver()
    if build is None:
        seen = f"The driver ({driver}) is there: install" if driver else "For a machine that has a GPU, install"
        return f"this torch ({torch.__version__}) is a CPU-only build. {seen} a CUDA build of torch; {_GET_TORCH}"
    if torch.cuda.is_available():
        return None
    if getattr(torch.cuda, "_is_in_bad_fork", bool)():
        return (
            "this process was forked from one that had used CUDA, which a fork cannot share. Start worker processes "
            "with multiprocessing.set_start_method('spawn')"
        )
    if driver is None and build.startswith("CUDA"):
        return "no NVIDIA driver is loaded on this machine (/proc/driver/nvidia is absent)"
    if hidden := _hidden(build, visible):
        return hidden
    message = _init_message(torch)
    if _TOO_OLD in message:
        return f"{message} Update the driver ({driver}), or install a torch for an older CUDA; {_GET_TORCH}"
    more = f" torch says: {message}" if message else ""
    return (
        f"this torch is built for {build}, but finds no usable GPU; compare its version with the driver's ({driver})."
        f"{more}"
    )


def _hidden(build: str, visible: Visible | None) -> str | None:
    """Return the variable that hides every GPU; None if no variable does."""
    name, text = variable(os.environ, is_hip=build.startswith("ROCm"))
    if text is None:
        return None
    if visible is None:
        return f"{name}={text!r} hides every GPU; unset it before Python starts"
    if visible.gpus:
        return None
    why = f" ({visible.note})" if text.strip() else ""
    return f"{name}={text!r} hides every GPU{why}; unset it before Python starts"


def _init_message(torch: Any) -> str:
    """Return the first line of torch's error when it initializes CUDA; "" if there is none."""
    try:
        torch.cuda.init()
    except Exception as error:
        return str(error).strip().partition("\n")[0]
    return ""


Capability: TypeAlias = tuple[int, int]
Formats: TypeAlias = dict[str, str]

_CODE: Final = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")

#: Embedded and automotive chips: they run only code that is compiled for them, and other chips cannot run it.
_SOLITARY: Final = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (10, 1)})

#: CUDA 13 renamed the capability 10.1 of Thor to 11.0; the code is the same.
_RENAMED: Final = {(10, 1): (11, 0)}

#: Number formats that are reported; every GPU has float32 and float64.
FORMATS: Final = ("fp16", "bf16", "tf32", "fp8", "fp4")

#: First compute capability with hardware for the format.
_CUDA_SINCE: Final[Mapping[str, Capability]] = {
    "fp16": (5, 3),
    "bf16": (8, 0),
    "tf32": (8, 0),
    "fp8": (8, 9),
    "fp4": (10, 0),
}
#: Prefixes of the architectures with hardware for the format.
_AMD: Final[Mapping[str, tuple[str, ...]]] = {
    "fp16": ("gfx",),
    "bf16": ("gfx908", "gfx90a", "gfx94", "gfx95", "gfx11", "gfx12"),
    "tf32": ("gfx94", "gfx95"),
    "fp8": ("gfx94", "gfx95", "gfx12"),
    "fp4": ("gfx95",),
}


@dataclass(frozen=True, slots=True)
class Support:
    """Whether a build has code for a GPU.

    Attributes:
        kind: ``native`` (compiled), ``jit`` (the driver compiles it from PTX at the first launch) or ``none``.
        code: The entry of the build's list that runs, or "".
    """

    kind: Literal["native", "jit", "none"]
    code: str = ""


def support(capability: Capability, arch_list: Iterable[str]) -> Support:
    """Return whether a build has code for a GPU of `capability`.

    Args:
        capability: Major and minor.
        arch_list: As `torch.cuda.get_arch_list` returns it: ``sm_90``, ``sm_90a``, ``sm_100f``, ``compute_90``.
    """
    codes = [(found, code) for code in arch_list if (found := _CODE.fullmatch(code))]
    native = [
        code
        for found, code in codes
        if found[1] == "sm" and _runs((int(found[2]), int(found[3])), capability, found[4])
    ]
    if native:
        return Support("native", native[-1])
    ptx = [
        code
        for found, code in codes
        if found[1] == "compute" and found[4] != "a" and (int(found[2]), int(found[3])) <= capability
    ]
    return Support("jit", ptx[-1]) if ptx else Support("none")


def _runs(code: Capability, device: Capability, feature: str) -> bool:
    """Whether compiled code runs on a device: the same major version, and at least the minor version of the code."""
    if code in _SOLITARY or device in _SOLITARY:
        return code == device or _RENAMED.get(code) == device or _RENAMED.get(device) == code
    if feature == "a":
        return code == device
    return code[0] == device[0] and device[1] >= code[1]


def cuda_formats(capability: Capability) -> Formats:
    """``native``, ``emulated`` or ``no`` by number format, for an NVIDIA GPU."""
    formats = {name: "native" if capability >= since else "no" for name, since in _CUDA_SINCE.items()}
    if formats["bf16"] == "no":
        formats["bf16"] = "emulated"  # torch computes it in float32 and rounds
    return formats


def amd_formats(architecture: str) -> Formats:
    """As `cuda_formats`, for an AMD GPU (``gfx942:sramecc+:xnack-``)."""
    formats = {name: "native" if architecture.startswith(known) else "no" for name, known in _AMD.items()}
    if formats["bf16"] == "no":
        formats["bf16"] = "emulated"
    return formats


def releases_for(capability: Capability, releases: Mapping[str, Iterable[int]]) -> list[str]:
    """CUDA versions of torch's builds that have code for a GPU, newest first.

    Args:
        capability: Major and minor.
        releases: By CUDA version, the capabilities that its build is compiled for, times ten.
    """
    fitting = (
        cuda for cuda, codes in releases.items() if any(_runs(divmod(code, 10), capability, "") for code in codes)
    )
    return sorted(fitting, key=lambda cuda: [int(part) for part in cuda.split(".")], reverse=True)


def gencode_flags(arch_list: Sequence[str]) -> str:
    """Return the nvcc options, as `torch.cuda.get_gencode_flags` writes them; entries of another form are left out."""
    pairs = (code.split("_", 1) for code in arch_list if code.count("_") == 1)
    return " ".join(f"-gencode compute=compute_{arch},code={kind}_{arch}" for kind, arch in pairs)

"""Runs of a program in a process of its own: ``python -m fidelity PROGRAM [--twin NAME ...] --out FILE``."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fidelity.observation import DeviceFacts, Observation
from fidelity.programs import PROGRAMS, Program

ROOT: Final = Path(__file__).parents[3]
TIMEOUT_S: Final = 300
_CONF: Final = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_VARIABLES: Final = (
    "PYTORCH_ALLOC_CONF",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "TORCH_CUBLASLT_UNIFIED_WORKSPACE",
)


def run_real(program: Program) -> Observation:
    """Observe a program on the real device 0.

    Raises:
        RuntimeError: The program failed; with what it printed.
    """
    return _in_process(program, [], {})


def run_virtual(program: Program, device: DeviceFacts) -> Observation:
    """Observe a program on the virtual twin of `device`, with every real GPU hidden.

    Raises:
        RuntimeError: The program failed; with what it printed.
    """
    arguments = [f"--twin={device.name}", f"--memory={device.total_memory_bytes}", f"--sms={device.num_sms}"]
    arguments.append(f"--capability={device.capability[0]}.{device.capability[1]}")
    return _in_process(program, arguments, {"CUDA_VISIBLE_DEVICES": ""})


def twin_of(device: DeviceFacts) -> object:
    """The `cudalens.virtual.DeviceSpec` of a real device: of its name, else of its compute capability, at its size.

    Raises:
        LookupError: No spec comes near it.
    """
    from cudalens.virtual import SPECS

    by_name = [spec for spec in SPECS.values() if spec.name == device.name]
    alike = [spec for spec in SPECS.values() if spec.compute_capability == tuple(device.capability)]
    if not by_name and not alike:
        raise LookupError(f"no spec of a device like {device}; add one to cudalens/gpus/registry.py")
    closest = min(by_name or alike, key=lambda spec: abs(spec.total_memory_bytes - device.total_memory_bytes))
    return closest.replace(name=device.name, total_memory_bytes=device.total_memory_bytes, num_sms=device.num_sms)


def observe_virtual(program: Program, spec: object) -> Observation:
    """Observe a program on a virtual device in this process."""
    import cudalens.virtual
    from fidelity.probe import observe

    with cudalens.virtual.device(spec, alloc_conf=program.alloc_conf):  # type: ignore[arg-type]
        return observe(program, is_virtual=True, note=note(program))


def note(program: Program) -> dict[str, str]:
    """What is recorded, where, when, and with what."""
    import torch

    from cudalens.device import driver

    return {
        "what": f"{program.name}: {(program.run.__doc__ or '').strip()}",
        "where": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "when": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "driver": str(driver()),
        **{name: os.environ[name] for name in _VARIABLES if os.environ.get(name)},
    }


def _in_process(program: Program, arguments: list[str], environment: Mapping[str, str]) -> Observation:
    paths = [str(ROOT), str(ROOT / "tests" / "gpu"), os.environ.get("PYTHONPATH", "")]
    inherited = {key: value for key, value in os.environ.items() if key not in _CONF}
    conf = dict.fromkeys(_CONF, program.alloc_conf) if program.alloc_conf else {}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "observation.json"
        done = subprocess.run(
            [sys.executable, "-m", "fidelity", program.name, f"--out={out}", *arguments],
            env={**inherited, **conf, **environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program.name} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return Observation.from_json(out.read_text(encoding="utf-8"))


def _hide_real_devices() -> None:
    """CUDA reads CUDA_VISIBLE_DEVICES once, and has done so now; a virtual device reads it whenever one begins."""
    import torch

    if torch.cuda.is_available():
        raise RuntimeError("a real device is visible; the twin runs with CUDA_VISIBLE_DEVICES empty")
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)


def main() -> None:
    """Observe one program and write what was seen."""
    from fidelity.probe import observe

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--twin", help="name of the real device to be the virtual twin of; without it a real device")
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--sms", type=int, default=0)
    parser.add_argument("--capability", default="0.0")
    options = parser.parse_args()
    program = PROGRAMS[options.program]
    if options.twin:
        major, minor = (int(part) for part in options.capability.split("."))
        _hide_real_devices()
        facts = DeviceFacts(options.twin, (major, minor), options.memory, options.sms, is_virtual=False)
        seen = observe_virtual(program, twin_of(facts))
    else:
        seen = observe(program, is_virtual=False, note=note(program))
    options.out.write_text(seen.to_json(), encoding="utf-8")

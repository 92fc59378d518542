"""pynvml and amdsmi of machines that one test machine cannot be: they stand behind the boundary, untested."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

NOT_SUPPORTED, NO_PERMISSION, UNINITIALIZED, LOST = 3, 4, 1, 15


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__({3: "Not Supported", 4: "Insufficient Permissions", 15: "GPU is lost"}.get(value, "Error"))
        self.value = value


@dataclass
class FakeGpu:
    """A GPU as NVML has it. `refuses`: error code by the end of the function's name."""

    name: str = "NVIDIA A100-SXM4-80GB"
    uuid: str = "GPU-aaaa"
    bus: str = "00000000:07:00.0"
    capability: tuple[int, int] = (8, 0)
    busy: int = 40
    used: int = 2**33
    total: int = 80 * 2**30
    celsius: int = 50
    milliwatts: int = 250_500
    mhz: int = 1200
    reasons: int = 0
    mig_mode: int | None = None
    migs: list = field(default_factory=list)
    refuses: dict[str, int] = field(default_factory=dict)


class FakeNvml:
    """The part of pynvml that reads devices, with a count of the calls."""

    def __init__(self, *gpus, init_error=None, names_as_bytes=False):
        self.gpus, self.init_error, self.names_as_bytes = list(gpus), init_error, names_as_bytes
        self.calls: dict[str, int] = {}
        self.is_initialised = 0

    def __getattr__(self, name):
        if not name.startswith("nvml") or name == "nvmlDeviceGetCurrentClocksThrottleReasons":
            raise AttributeError(name)
        answer = self._answers().get(name)
        if answer is None:
            raise AttributeError(name)

        def call(*args):
            self.calls[name] = self.calls.get(name, 0) + 1
            if name != "nvmlInit" and not self.is_initialised:
                raise NVMLError(UNINITIALIZED)
            if args and isinstance(args[0], FakeGpu):
                code = next((code for end, code in args[0].refuses.items() if name.endswith(end)), None)
                if code is not None:
                    raise NVMLError(code)
            return answer(*args)

        return call

    def _answers(self):
        text = (lambda value: value.encode()) if self.names_as_bytes else (lambda value: value)
        return {
            "nvmlInit": self._init,
            "nvmlShutdown": self._shutdown,
            "nvmlSystemGetDriverVersion": lambda: text("550.54.15"),
            "nvmlSystemGetCudaDriverVersion": lambda: 12040,
            "nvmlDeviceGetCount": lambda: len(self.gpus),
            "nvmlDeviceGetHandleByIndex": lambda index: self.gpus[index],
            "nvmlDeviceGetName": lambda gpu: text(gpu.name),
            "nvmlDeviceGetUUID": lambda gpu: text(gpu.uuid),
            "nvmlDeviceGetPciInfo": lambda gpu: SimpleNamespace(busId=text(gpu.bus)),
            "nvmlDeviceGetCudaComputeCapability": lambda gpu: gpu.capability,
            "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(total=gpu.total, used=gpu.used),
            "nvmlDeviceGetUtilizationRates": lambda gpu: SimpleNamespace(gpu=gpu.busy, memory=gpu.busy // 2),
            "nvmlDeviceGetTemperature": lambda gpu, sensor: gpu.celsius,
            "nvmlDeviceGetPowerUsage": lambda gpu: gpu.milliwatts,
            "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: 400_000,
            "nvmlDeviceGetClockInfo": lambda gpu, kind: gpu.mhz + kind,
            "nvmlDeviceGetMaxClockInfo": lambda gpu, kind: 1410 + kind,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: gpu.reasons,
            "nvmlDeviceGetMigMode": lambda gpu: (
                [gpu.mig_mode, gpu.mig_mode] if gpu.mig_mode is not None else self._refuse(NOT_SUPPORTED)
            ),
            "nvmlDeviceGetMaxMigDeviceCount": lambda gpu: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": lambda gpu, place: (
                gpu.migs[place] if place < len(gpu.migs) else self._refuse(6)
            ),
            "nvmlDeviceGetGpuInstanceId": lambda mig: mig.busy,
            "nvmlDeviceGetComputeInstanceId": lambda mig: 0,
        }

    def _init(self):
        if self.init_error is not None:
            raise NVMLError(self.init_error)
        self.is_initialised += 1

    def _shutdown(self):
        self.is_initialised -= 1

    def _refuse(self, code):
        raise NVMLError(code)


class FakeAmdsmi:
    """The part of amdsmi that reads devices; `newer` names things as ROCm 7 does."""

    AmdSmiClkType = SimpleNamespace(GFX="gfx", MEM="mem")
    AmdSmiTemperatureType = SimpleNamespace(JUNCTION="junction")
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="current")

    def __init__(self, *, newer=True, broken=False):
        self.newer, self.broken, self.is_open = newer, broken, False

    def amdsmi_init(self):
        if self.broken:
            raise OSError("no amdgpu driver")
        self.is_open = True

    def amdsmi_shut_down(self):
        self.is_open = False

    def amdsmi_get_processor_handles(self):
        return ["first", "second"]

    def amdsmi_get_gpu_driver_info(self, handle):
        return {"driver_name": "amdgpu", "driver_version": "6.8.5"}

    def amdsmi_get_gpu_asic_info(self, handle):
        return {"market_name": "AMD Instinct MI300X", "asic_serial": "0xABCDEF"}

    def amdsmi_get_gpu_device_bdf(self, handle):
        return "0000:05:00.0"

    def amdsmi_get_gpu_activity(self, handle):
        return {"gfx_activity": 77, "umc_activity": "N/A"}

    def amdsmi_get_gpu_vram_usage(self, handle):
        return {"vram_total": 196592, "vram_used": 283}

    def amdsmi_get_power_info(self, handle):
        socket = (
            {"average_socket_power": "N/A", "current_socket_power": 141}
            if self.newer
            else {"average_socket_power": 140}
        )
        return {**socket, "power_limit": 750}

    def amdsmi_get_clock_info(self, handle, kind):
        clock = 2100 if kind == "gfx" else 900
        return {"clk": clock, "max_clk": clock} if self.newer else {"cur_clk": clock, "max_clk": clock}

    def amdsmi_get_temp_metric(self, handle, sensor, metric):
        if handle == "second":
            raise RuntimeError("AMDSMI_STATUS_NOT_SUPPORTED")
        return 44

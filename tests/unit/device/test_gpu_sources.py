"""Readings of GPUs: what NVML and amdsmi report, what they refuse, and the sampler that reads them periodically."""

from __future__ import annotations

import threading

import pytest
from gpu_libraries import LOST, NO_PERMISSION, NOT_SUPPORTED, FakeAmdsmi, FakeGpu, FakeNvml

import cudalens
from cudalens import virtual
from cudalens.device import sampler as sampling
from cudalens.device.inventory import readings
from cudalens.device.inventory.readings import GpuGoneError, open_amdsmi, open_nvml
from cudalens.device.inventory.visible import MigInstance
from cudalens.device.sampler import MetricsCollector, Sampler, samples_frame
from cudalens.errors import MetricsError


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "cudalens-metrics"]


# -- NVML --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names_as_bytes", [False, True])
def test_what_nvml_reports_of_a_gpu(names_as_bytes):
    source = open_nvml(FakeNvml(FakeGpu(), names_as_bytes=names_as_bytes))
    [gpu] = source.gpus()
    assert (source.driver, source.driver_cuda) == ("550.54.15", "12.4")
    assert (gpu.name, gpu.uuid, gpu.pci) == ("NVIDIA A100-SXM4-80GB", "GPU-aaaa", "0000:07:00.0")
    assert (gpu.capability, gpu.total_memory_bytes, gpu.power_limit_watts) == ("8.0", 80 * 2**30, 400.0)
    assert gpu.is_mig is None
    assert not source.problems


def test_a_reading():
    reading = open_nvml(FakeNvml(FakeGpu(reasons=0x1 | 0x4 | 0x20 | 0x40))).read(0)
    assert (reading.gpu_busy_pct, reading.memory_busy_pct, reading.memory_used_bytes) == (40.0, 20.0, 2**33)
    assert (reading.temperature_celsius, reading.power_watts) == (50.0, 250.5)
    assert (reading.clock_mhz, reading.memory_clock_mhz) == (1201, 1202)
    assert reading.slowed_by == "power cap, heat"


def test_what_is_refused_for_good_is_missing_and_asked_for_once():
    gpu = FakeGpu(refuses={"PowerUsage": NOT_SUPPORTED, "Temperature": NO_PERMISSION, "UtilizationRates": 999})
    library = FakeNvml(gpu)
    source = open_nvml(library)
    for _ in range(3):
        reading = source.read(0)
    assert (reading.power_watts, reading.temperature_celsius, reading.gpu_busy_pct) == (None, None, None)
    assert reading.memory_used_bytes == 2**33
    assert library.calls["nvmlDeviceGetPowerUsage"] == library.calls["nvmlDeviceGetTemperature"] == 1
    assert library.calls["nvmlDeviceGetUtilizationRates"] == 3  # an unknown error may pass
    assert "not reported by" in source.problems["power of GPU 0"]
    assert "not permitted" in source.problems["temperature of GPU 0"]


def test_a_lost_gpu():
    gpu = FakeGpu()
    source = open_nvml(FakeNvml(gpu))
    source.read(0)
    gpu.refuses["MemoryInfo"] = LOST
    with pytest.raises(GpuGoneError, match="the GPU is lost"):
        source.read(0)


def test_a_gpu_that_was_lost_before_hides_no_other():
    source = open_nvml(FakeNvml(FakeGpu(refuses={"MemoryInfo": LOST}), FakeGpu(uuid="GPU-b")))
    assert [gpu.number for gpu in source.gpus()] == [1]
    assert source.problems == {"GPU 0": "the GPU is lost"}
    with pytest.raises(GpuGoneError):
        source.read(0)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (12, "no NVIDIA driver is installed here"),
        (9, "not loaded"),
        (18, "different versions"),
        (4, "may not use"),
        (999, "did not start"),
    ],
)
def test_no_nvml_states_why(code, said):
    with pytest.raises(MetricsError, match=said):
        open_nvml(FakeNvml(init_error=code))


def test_nvml_is_shut_down_by_other_code():
    library = FakeNvml(FakeGpu())
    source = open_nvml(library)
    library.is_initialised = 0
    assert source.read(0).gpu_busy_pct == 40.0
    assert not source.problems


def test_closing_gives_the_library_back_once():
    library = FakeNvml(FakeGpu())
    source = open_nvml(library)
    source.close()
    source.close()
    assert library.is_initialised == 0
    assert library.calls["nvmlShutdown"] == 1


def test_mig_instances():
    mig = FakeGpu(name="NVIDIA A100-SXM4-80GB MIG 3g.40gb", uuid="MIG-cccc", busy=2)
    source = open_nvml(FakeNvml(FakeGpu(), FakeGpu(uuid="GPU-bbbb", mig_mode=1, migs=[mig]), FakeGpu(mig_mode=0)))
    plain, cut, whole = source.gpus()
    assert (plain.is_mig, cut.is_mig, whole.is_mig) == (None, True, False)
    assert cut.migs == (MigInstance("MIG-cccc", 1, 2, 0, "3g.40gb"),)


def test_a_library_that_lacks_a_function():
    library = FakeNvml(FakeGpu())
    answers = library._answers()
    del answers["nvmlDeviceGetCurrentClocksEventReasons"], answers["nvmlDeviceGetMigMode"]
    library._answers = lambda: answers
    assert open_nvml(library).gpus()[0].is_mig is None
    assert open_nvml(library).read(0).slowed_by is None


def test_nvml_of_a_virtual_device_reads_as_a_real_one_does():
    """The same source on the virtual device's pynvml: what it does not model is missing, not an error."""
    import sys

    with virtual.device("h100x2"):
        source = open_nvml(sys.modules["pynvml"])
        assert [gpu.name for gpu in source.gpus()] == ["NVIDIA H100 80GB HBM3"] * 2
        assert source.read(1).power_watts == virtual.SPECS["h100"].idle_watts
        assert source.read(1).slowed_by is None


# -- amdsmi ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newer", [True, False])
def test_amdsmi(newer):
    library = FakeAmdsmi(newer=newer)
    source = open_amdsmi(library)
    gpu = source.gpus()[0]
    assert (gpu.name, gpu.uuid, gpu.pci) == ("AMD Instinct MI300X", "GPU-abcdef", "0000:05:00.0")
    assert (gpu.total_memory_bytes, gpu.power_limit_watts, gpu.clock_mhz) == (196592 * 2**20, 750.0, 2100)
    reading = source.read(0)
    assert (reading.gpu_busy_pct, reading.memory_busy_pct) == (77.0, None)
    assert (reading.memory_used_bytes, reading.power_watts) == (283 * 2**20, 141.0 if newer else 140.0)
    assert (reading.clock_mhz, reading.memory_clock_mhz, reading.temperature_celsius) == (2100, 900, 44.0)
    assert source.read(1).temperature_celsius is None
    assert "NOT_SUPPORTED" in source.problems["temperature of GPU 1"]
    source.close()
    assert not library.is_open


def test_rocm_without_its_driver_is_no_source():
    assert open_amdsmi(FakeAmdsmi(broken=True)) is None


# -- the sampler -------------------------------------------------------------------------------------------------------


class Waiter:
    """Lets a test wait until the sampler has read so often."""

    def __init__(self):
        self.batches, self._changed = [], threading.Condition()

    def __call__(self, samples):
        with self._changed:
            self.batches.append(samples)
            self._changed.notify_all()

    def wait_for(self, number):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.batches) >= number, timeout=20)


def test_the_sampler_reads_until_it_is_stopped():
    seen = Waiter()
    sampler = Sampler(500, open_source=lambda: open_nvml(FakeNvml(FakeGpu(), FakeGpu())), on_samples=seen)
    sampler.start()
    assert len(seen.batches) >= 1  # the first is taken at once
    seen.wait_for(4)
    assert sampler.is_running
    sampler.stop()
    assert not sampler.is_running
    number = len(seen.batches)
    assert [sample.number for sample in seen.batches[0]] == [0, 1]
    times = [batch[0].ts for batch in seen.batches]
    assert times == sorted(times)
    sampler.stop()
    assert len(seen.batches) == number


def test_a_stopped_sampler_has_read_at_either_end():
    sampler = Sampler(0.01, open_source=lambda: open_nvml(FakeNvml(FakeGpu())))
    sampler.start()
    sampler.stop()
    assert len(sampler.samples) == 2


def test_a_gpu_that_is_lost_is_reported_and_the_others_go_on():
    first, second, seen = FakeGpu(), FakeGpu(), Waiter()
    sampler = Sampler(500, open_source=lambda: open_nvml(FakeNvml(first, second)), on_samples=seen)
    sampler.start()
    first.refuses["UtilizationRates"] = LOST
    seen.wait_for(len(seen.batches) + 2)
    sampler.stop()
    assert [gpu.number for gpu in sampler.gpus] == [1]
    assert [sample.number for sample in seen.batches[-1]] == [1]
    assert sampler.problems["GPU 0 (NVIDIA A100-SXM4-80GB)"] == "no longer read: the GPU is lost"


def test_when_all_gpus_are_gone_the_thread_ends():
    gpu, seen = FakeGpu(), Waiter()
    sampler = Sampler(500, open_source=lambda: open_nvml(FakeNvml(gpu)), on_samples=seen)
    sampler.start()
    gpu.refuses["UtilizationRates"] = LOST
    sampler._thread.join(20)
    assert not sampler.is_running
    sampler.stop()


def test_a_source_that_raises_what_it_should_not_costs_a_reading():
    class Broken:
        label, is_modelled, driver, driver_cuda = "broken", False, None, None

        def __init__(self):
            self.problems = {}

        def gpus(self):
            return (readings.Gpu(0, "X"),)

        def read(self, number):
            raise ZeroDivisionError("oops")

        def close(self):
            pass

    sampler = Sampler(1, open_source=Broken)
    sampler.start()
    sampler.stop()
    assert sampler.samples == []
    assert sampler.problems == {"a reading of GPU 0": "ZeroDivisionError: oops"}


@pytest.mark.parametrize("rate", [0, -1, 0.001, 2000, float("nan")])
def test_a_rate_of_no_use_is_refused(rate):
    with pytest.raises(ValueError, match=r"expected 0\.01 to 1000"):
        Sampler(rate)


def test_no_gpu_to_read_leaves_no_thread():
    library = FakeNvml()
    with pytest.raises(MetricsError, match="NVML reports no GPU"):
        Sampler(1, open_source=lambda: open_nvml(library)).start()
    assert library.is_initialised == 0


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(sampling, "MAX_SAMPLES", 6)
    sampler = Sampler(0.01, open_source=lambda: open_nvml(FakeNvml(FakeGpu(), FakeGpu())))
    sampler.start()
    for _ in range(20):
        sampler.take()
    assert len(sampler.samples) <= 8
    assert sampler._period_s > 100
    sampler.stop()


def test_nothing_is_read_while_a_virtual_device_is_on():
    sampler = Sampler(0.01, open_source=lambda: open_nvml(FakeNvml(FakeGpu())))
    sampler.start()
    with virtual.device("h100"):
        sampler.take()
        assert len(sampler.samples) == 1
    sampler.take()
    assert len(sampler.samples) == 2
    sampler.stop()


def test_all_are_stopped_at_the_end_of_the_process():
    sampler = Sampler(0.01, open_source=lambda: open_nvml(FakeNvml(FakeGpu())))
    sampler.start()
    sampling.stop_all()
    assert not sampler.is_running


def test_a_forked_child_has_no_sampler():
    sampler = Sampler(0.01, open_source=lambda: open_nvml(FakeNvml(FakeGpu())))
    sampler.start()
    thread, source = sampler._thread, sampler._source
    sampling._after_fork()
    assert not sampler.is_running
    sampler.stop()
    assert len(sampler.samples) == 1
    sampler._stopping.set()
    thread.join()
    source.close()


# -- the frame ---------------------------------------------------------------------------------------------------------


def test_samples_become_rows(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    gpus = [FakeGpu(uuid="GPU-aaaa"), FakeGpu(uuid="GPU-bbbb", refuses={"PowerUsage": NOT_SUPPORTED})]
    sampler = Sampler(0.01, open_source=lambda: open_nvml(FakeNvml(*gpus)))
    sampler.start()
    sampler.stop()
    frame = samples_frame(sampler.samples, sampler.machine)
    assert frame["device"].isna().tolist() == [True, False, True, False]
    assert frame["physical_index"].tolist() == [0, 1, 0, 1]
    assert frame["power_watts"].isna().tolist() == [False, True, False, True]
    cudalens.frames.check_frame("metrics", frame)


def test_the_collector_reads_what_the_program_sees(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setattr(readings, "open_source", lambda: open_nvml(FakeNvml(FakeGpu(), FakeGpu(uuid="GPU-b"))))
    collector = MetricsCollector(100)
    collector.start()
    collector.stop()
    frame = collector.frames()["metrics"]
    assert set(frame["physical_index"]) == {1}
    assert set(frame["device"]) == {0}
    assert collector.problems == ()


def test_a_profile_without_anything_to_read_goes_on_and_reports_it(monkeypatch):
    import torch

    def refuse():
        raise MetricsError("No metrics of a GPU: nothing is here.")

    monkeypatch.setattr(readings, "open_source", refuse)
    with cudalens.profile(metrics=True, keep=False) as p:
        torch.ones(2)
    assert len(p.trace)
    assert p.trace.metrics.empty
    assert [problem.kind for problem in p.trace.info.problems] == ["metrics were requested, but none are available"]


def test_a_profile_with_readings_of_a_real_library(monkeypatch, tmp_path):
    import torch

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    refusing = FakeGpu(uuid="GPU-b", refuses={"PowerUsage": NO_PERMISSION})
    monkeypatch.setattr(readings, "open_source", lambda: open_nvml(FakeNvml(FakeGpu(), refusing)))
    with cudalens.profile(metrics=200, keep=False) as p:
        torch.ones(2)
    metrics, info = p.trace.metrics, p.trace.info
    assert len(metrics) >= 4
    assert metrics["ts"].iloc[-1] >= info.ended_ns >= info.started_ns >= metrics["ts"].iloc[0]
    assert info.options["metrics"] == 200
    assert [problem.where for problem in info.problems] == [
        "power of GPU 1: not permitted; the driver reports it to administrators only"
    ]
    again = cudalens.load(p.trace.save(tmp_path / "run.cudalens"))
    assert again.metrics.equals(metrics)


def test_what_the_sampler_does_is_not_the_programs(monkeypatch):
    """A trace of Python calls follows every thread of the process, ours as well."""
    import torch

    monkeypatch.setattr(readings, "open_source", lambda: open_nvml(FakeNvml(FakeGpu())))
    seen = Waiter()
    sampler = Sampler(500, on_samples=seen)
    sampler.start()
    tid = sampler._thread.native_id
    with cudalens.profile(stacks=True, metrics=500, keep=False) as p:
        seen.wait_for(len(seen.batches) + 5)
        torch.ones(2)
    sampler.stop()
    events = p.trace.events
    assert tid not in set(events["tid"].dropna())
    assert "cudalens-metrics" not in set(events["thread"].dropna())
    assert "aten::ones" in set(events["name"])
    assert events["parent"].notna().any()


def test_a_profile_refuses_a_rate_of_no_use():
    with pytest.raises(ValueError, match="5000 samples per second"):
        cudalens.profile(metrics=5000)

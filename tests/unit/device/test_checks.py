"""Why something does not work here, in the cases that one machine cannot all show."""

from types import SimpleNamespace

import pytest
import torch
from gpu_libraries import LOST, NOT_SUPPORTED, FakeGpu, FakeNvml

from cudalens.device import checks, facts
from cudalens.device.inventory import readings, support
from cudalens.device.inventory.readings import open_nvml
from cudalens.errors import MetricsError

DRIVER_FILE = """NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Wed Jul  9 18:53:22 UTC 2025
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""
OPEN_DRIVER_FILE = DRIVER_FILE.replace("NVIDIA UNIX x86_64 Kernel Module", "NVIDIA UNIX Open Kernel Module for x86_64")


def build(*, cuda=None, hip=None, available=False):
    """A torch of another build, as far as the reasons look at it."""
    return SimpleNamespace(
        __version__="2.13.0",
        version=SimpleNamespace(cuda=cuda, hip=hip),
        cuda=SimpleNamespace(is_available=lambda: available),
    )


@pytest.fixture
def driver(tmp_path, monkeypatch):
    def has(text):
        path = tmp_path / "version"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        monkeypatch.setattr(facts, "_DRIVER_FILE", path)

    has(None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return has


@pytest.mark.parametrize("text", [DRIVER_FILE, OPEN_DRIVER_FILE])
@pytest.mark.parametrize("version", ["575.64.03", "535.54"])
def test_the_driver_is_read_from_either_module(driver, text, version):
    driver(text.format(version))
    assert facts.driver() == version


@pytest.mark.parametrize("text", [None, "", "nothing of the kind", "\xff\x00"])
def test_no_driver(driver, text):
    driver(text)
    assert facts.driver() is None


def test_a_cpu_build_without_and_with_a_driver(driver):
    assert "CPU-only build. For a machine that has a GPU" in support.no_gpu(build())
    driver(DRIVER_FILE.format("575.64"))
    assert "The driver (575.64) is there" in support.no_gpu(build())


def test_a_cuda_build_without_a_driver(driver):
    assert "no NVIDIA driver" in support.no_gpu(build(cuda="13.0"))


def test_gpus_that_are_hidden(driver, monkeypatch):
    driver(DRIVER_FILE.format("575.64"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES='' hides every GPU" in support.no_gpu(build(cuda="13.0"))


def test_a_driver_that_torch_cannot_use(driver):
    driver(DRIVER_FILE.format("450.10"))
    said = support.no_gpu(build(cuda="13.0"))
    assert "CUDA 13.0" in said
    assert "450.10" in said


def test_a_gpu_that_works_needs_no_reason(driver):
    assert support.no_gpu(build(cuda="13.0", available=True)) is None
    assert facts.accelerator_build(build(hip="6.4")) == "ROCm 6.4"


def test_the_cpu_is_really_profiled():
    assert checks._recorded(torch, "cpu") >= 2
    assert not torch.autograd._profiler_enabled()


def test_a_running_profiler_is_a_reason_and_is_not_disturbed():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as foreign:
        check = checks._cpu(torch)
        torch.ones(2)
    assert not check.works
    assert any(event.name == "aten::ones" for event in foreign.events())


def test_what_is_missing_is_named_with_its_remedy():
    assert checks._packages("numpy", "no-such-package") == (
        False,
        "not installed: no-such-package (pip install no-such-package)",
    )


def test_no_check_raises_and_each_explains():
    for check in checks.run_checks():
        assert check.detail
        assert check.name


def test_versions_are_of_what_is_installed():
    import pandas

    versions = facts.versions()
    assert versions["pandas"] == pandas.__version__
    assert "no-such-package" not in versions


def test_whether_gauges_can_be_read(monkeypatch):
    def refuse():
        raise MetricsError("No metrics of a GPU: no driver.")

    monkeypatch.setattr(readings, "open_source", refuse)
    assert checks._gauges() == checks.Check("read gauges of the GPUs", False, "No metrics of a GPU: no driver.")
    gpu = FakeGpu(refuses={"PowerUsage": NOT_SUPPORTED})
    monkeypatch.setattr(readings, "open_source", lambda: open_nvml(FakeNvml(gpu)))
    assert checks._gauges().works
    assert checks._gauges().detail == "tested: NVML reads NVIDIA A100-SXM4-80GB, but not power_watts"
    gpu.refuses["MemoryInfo"] = LOST
    assert checks._gauges() == checks.Check("read gauges of the GPUs", False, "NVML reports no GPU that responds")
    monkeypatch.setattr(readings, "open_source", lambda: open_nvml(FakeNvml()))
    assert checks._gauges() == checks.Check("read gauges of the GPUs", False, "NVML reports no GPU that responds")


def test_without_triton_or_a_gpu_plain_torch_takes_over(monkeypatch, driver):
    monkeypatch.setattr(facts, "installed", lambda name: None)
    check = checks._kernels(build())
    assert not check.works
    assert "pip install triton" in check.detail
    assert "plain torch operators are used" in check.detail
    monkeypatch.setattr(facts, "installed", lambda name: "3.7.1")
    assert "Triton 3.7.1 has no GPU" in checks._kernels(build()).detail

"""`cudalens.devices()`: what it finds with, without and beside GPUs, and how it says so."""

from __future__ import annotations

import json
import warnings
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cudalens
from cudalens import virtual
from cudalens.device.inventory import discover, readings
from cudalens.device.inventory.devices import COLUMNS, Device, Devices
from cudalens.device.inventory.readings import Gpu, GpuGoneError, Reading, visible_numbers
from cudalens.device.inventory.support import amd_formats, cuda_formats, gencode_flags, releases_for, support
from cudalens.device.inventory.visible import MigInstance
from cudalens.errors import MetricsError
from cudalens.views.device_cards import devices_html, devices_text

# -- on the virtual device ---------------------------------------------------------------------------------------------


def test_a_virtual_device_is_described_and_marked():
    with virtual.device("h100x2"):
        found = cudalens.devices()
    assert len(found) == 2
    device = found[1]
    assert (device.index, device.physical_index, device.capability, device.num_sms) == (1, 1, "9.0", 132)
    assert device.is_simulated
    assert device.is_supported
    assert device.supported_by == "sm_90"
    assert device.memory_bandwidth_gbps == pytest.approx(3352, rel=0.001)
    assert (device.bf16, device.fp8, device.fp4) == ("native", "native", "no")
    assert found.simulated == "h100x2"
    assert found.verdict.startswith("[simulated: h100x2] 2 CUDA devices: NVIDIA H100 80GB HBM3, 79.2 GiB each")
    assert "cuda:1  NVIDIA H100 80GB HBM3 (simulated)" in str(found)


def test_the_numbers_are_those_of_torch():
    with virtual.device("a100-80gb"):
        properties = torch.cuda.get_device_properties(0)
        [device] = cudalens.devices()
        assert device.total_memory_bytes == properties.total_memory
        assert device.l2_cache_bytes == properties.L2_cache_size
        assert device.uuid == f"GPU-{properties.uuid}"
        assert cudalens.devices().gencode_flags == torch.cuda.get_gencode_flags()
        tensor = torch.empty(2**28, dtype=torch.uint8, device="cuda")
        free, total = torch.cuda.mem_get_info()
        assert cudalens.devices()[0].used_memory_bytes == total - free
        assert tensor.is_cuda


def test_the_frame_has_a_row_per_gpu_also_for_hidden_ones(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1,junk")
    with virtual.device("t4x4"):
        found = cudalens.devices()
    frame = found.frame
    assert list(frame.columns) == list(COLUMNS)
    assert frame["physical_index"].tolist() == [3, 1, 0, 2]
    assert frame["index"].tolist()[:2] == [0, 1]
    assert frame["index"].isna().tolist() == [False, False, True, True]
    assert frame["capability"].tolist() == ["7.5"] * 4
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == {n: kind for n, (kind, _) in COLUMNS.items()}
    assert len(found) == 2
    assert "entry 3, 'junk', does not begin with a number" in found.visibility
    assert "GPU 2: Tesla T4" in str(found)


def test_peers_are_a_frame_of_their_own():
    with virtual.device(virtual.SPECS["t4"].replace(key="loner", can_access_peer=False)) as on:
        assert cudalens.devices().peers.shape == (1, 1)
        assert on.num_devices == 1
    with virtual.device("h100x3"):
        peers = cudalens.devices().peers
    assert peers.loc["cuda:0", "cuda:2"]
    assert peers.isna().sum().sum() == 3
    assert list(peers.index) == list(peers.columns) == ["cuda:0", "cuda:1", "cuda:2"]


def test_every_gpu_hidden_from_a_virtual_machine(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with virtual.device("h100"):
        found = cudalens.devices()
    assert not found
    assert "'-1', is negative" in found.verdict
    assert len(found.hidden) == 1


def test_plain_values_for_json():
    with virtual.device("h100"):
        result = json.loads(json.dumps(cudalens.devices().to_dict()))
    assert result["devices"][0]["capability"] == "9.0"
    assert result["simulated"] == "h100"


# -- without a GPU, and with one that is not as it should be -----------------------------------------------------------


class Machine:
    """A machine's management library, as far as `readings.Source` goes."""

    label, is_modelled, driver, driver_cuda = "test", False, "550.54", "12.4"

    def __init__(self, *gpus: Gpu) -> None:
        self.problems: dict[str, str] = {}
        self._gpus = gpus

    def gpus(self):
        return self._gpus

    def read(self, number):
        if number == 9:
            raise GpuGoneError("the GPU is lost")
        return Reading(memory_used_bytes=2**30)

    def close(self):
        pass


def properties(**more):
    known = {
        "name": "NVIDIA A100",
        "major": 8,
        "minor": 0,
        "total_memory": 80 * 2**30,
        "multi_processor_count": 108,
        "gcnArchName": "NVIDIA A100",
        "uuid": "aaaa",
    }
    return SimpleNamespace(**(known | more))


def torch_with(*gpus, arch_list=("sm_80", "sm_90"), hip=None, access=lambda a, b: True):
    """A torch that sees GPUs, as far as `discover` asks it; a GPU that is an exception cannot be asked."""

    def get(index):
        if isinstance(gpus[index], Exception):
            raise gpus[index]
        return gpus[index]

    cuda = SimpleNamespace(
        is_available=lambda: bool(gpus),
        device_count=lambda: len(gpus),
        get_device_properties=get,
        get_arch_list=lambda: list(arch_list),
        can_device_access_peer=access,
        PYTORCH_RELEASES_CODE_CC={"12.6": {"x86_64": {50, 60, 70, 80, 90}}, "13.0": {"x86_64": {75, 80, 90}}},
        _host_arch_key=lambda: "x86_64",
    )
    version = SimpleNamespace(cuda=None if hip else "13.0", hip=hip)
    return SimpleNamespace(__version__="2.13.0+cu130", version=version, cuda=cuda)


@pytest.fixture
def machine(monkeypatch):
    """Puts a management library and a torch in place."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)

    def put(module, *gpus):
        monkeypatch.setattr(discover.facts, "torch_or_reason", lambda: (module, "" if module else "ImportError: gone"))
        monkeypatch.setattr(readings, "open_source", lambda: Machine(*gpus))
        return cudalens.devices()

    return put


def test_this_machine_is_described_whatever_it_has():
    found = cudalens.devices()
    assert len(found) == torch.cuda.device_count()
    assert bool(found.reason) is (not found)
    assert found.torch == torch.__version__
    assert found.verdict.split(";")[0] in str(found)


def test_no_torch_still_lists_the_machines_gpus(machine):
    found = machine(None, Gpu(0, "NVIDIA A100", "GPU-aaaa", capability="8.0", total_memory_bytes=2**36))
    assert found.verdict == "No CUDA device; torch cannot be imported: ImportError: gone"
    assert found.hidden[0].bf16 == "native"
    assert found.frame["architecture"].tolist() == ["sm_80"]


def test_without_a_vendor_library_torch_is_the_only_source(machine, monkeypatch):
    machine(torch_with(properties()))

    def refuse():
        raise MetricsError("No metrics of a GPU: no driver.")

    monkeypatch.setattr(readings, "open_source", refuse)
    found = cudalens.devices()
    assert found[0].num_sms == 108
    assert found[0].physical_index is None
    assert found.notes == ("No metrics of a GPU: no driver.",)


def test_devices_are_found_by_uuid_whatever_the_order(machine):
    gpus = [Gpu(0, "A", "GPU-aaaa"), Gpu(1, "B", "GPU-bbbb")]
    found = machine(torch_with(properties(uuid="bbbb"), properties(uuid="aaaa")), *gpus)
    assert [device.physical_index for device in found] == [1, 0]
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in found.notes[0]


def test_devices_are_found_by_their_place_on_the_bus(machine):
    gpus = [Gpu(0, "A", pci="0000:07:00.0"), Gpu(1, "B", pci="0001:0b:00.0")]
    place = {"pci_domain_id": 1, "pci_bus_id": 11, "pci_device_id": 0}
    [device] = machine(torch_with(properties(uuid=None, **place)), *gpus)
    assert device.physical_index == 1
    assert device.pci == "0001:0b:00.0"


def test_a_mig_instance(machine):
    instance = MigInstance("MIG-cccc", 0, 1, 0, "3g.40gb")
    found = machine(torch_with(properties(uuid="cccc")), Gpu(0, "A", "GPU-aaaa", is_mig=True, migs=(instance,)))
    assert found[0].mig == "3g.40gb (MIG-cccc)"
    assert not found.hidden


def test_a_broken_gpu_hides_no_other(machine):
    found = machine(torch_with(RuntimeError("CUDA error: device not ready\nmore"), properties()))
    assert found[0].warning == "it cannot be queried: CUDA error: device not ready"
    assert found[1].num_sms == 108
    assert "cannot run on cuda:0" in found.verdict


def test_a_lost_gpu_has_no_reading(machine):
    assert machine(torch_with(properties()), Gpu(9, "A", "GPU-aaaa"))[0].used_memory_bytes is None


def test_a_gpu_without_code_comes_with_the_build_that_has_it(machine):
    found = machine(torch_with(properties(name="Tesla P100", major=6, minor=0)))
    assert found[0].is_supported is False
    assert "has no code for compute capability 6.0 (it has sm_80 sm_90)" in found[0].warning
    assert found[0].remedy == "pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cu126"
    assert found.verdict.startswith("1 CUDA device: this torch cannot run on it; this torch (2.13.0+cu130) has no code")


def test_code_that_the_driver_must_compile_first(machine):
    found = machine(torch_with(properties(major=12, minor=0), arch_list=("sm_90", "compute_90")))
    assert found[0].is_supported
    assert found[0].supported_by == "compute_90 (JIT)"
    assert "takes minutes once" in found[0].warning


def test_an_amd_gpu(machine):
    found = machine(torch_with(properties(gcnArchName="gfx942:sramecc+:xnack-"), hip="6.4"))
    assert (found[0].architecture, found[0].capability) == ("gfx942:sramecc+:xnack-", None)
    assert (found[0].bf16, found[0].fp8, found[0].fp4) == ("native", "native", "no")
    assert found[0].is_supported is None
    assert found.runtime == "ROCm 6.4"


def test_peer_access_that_cannot_be_asked_is_unknown(machine):
    def refuse(a, b):
        raise RuntimeError("no")

    found = machine(torch_with(properties(), properties(uuid="b"), access=refuse))
    assert found.peers.isna().all().all()
    assert "no access between" in machine(torch_with(*[properties()] * 3, access=lambda a, b: a + b != 3)).__repr__()


def test_warnings_of_torch_are_reported_and_not_printed(machine):
    module = torch_with(properties())
    ask = module.cuda.get_device_properties

    def loud(index):
        warnings.warn("GPU is too old", stacklevel=2)
        return ask(index)

    module.cuda.get_device_properties = loud
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert machine(module)


# -- showing -----------------------------------------------------------------------------------------------------------


def test_foreign_text_is_escaped():
    evil = "<script>alert(1)</script>"
    device = Device(index=0, name=evil, warning=evil, remedy=evil, pci=evil, uuid=evil, mig=evil)
    page = devices_html(
        Devices(all=(device, Device(index=None, physical_index=1, name=evil)), torch=evil, notes=(evil,))
    )
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 7


def test_the_picture_needs_nothing_from_outside():
    with virtual.device("h100x4"):
        page = cudalens.devices()._repr_html_()
    assert "simulated: h100x4" in page
    assert "://" not in page
    assert page.count("<article") == 4


def test_many_devices_are_shown_in_part_and_counted():
    many = Devices(all=tuple(Device(index=k, name="X") for k in range(100)), torch="2.13.0", runtime="CUDA 13.0")
    assert "and 68 more in .frame" in devices_text(many)
    assert devices_html(many).count("<article") == 32


# -- what a build has code for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "arch_list", "expected"),
    [
        ((8, 0), ["sm_80"], ("native", "sm_80")),
        ((8, 6), ["sm_80"], ("native", "sm_80")),
        ((8, 6), ["sm_80", "sm_86"], ("native", "sm_86")),
        ((8, 0), ["sm_86"], ("none", "")),
        ((9, 0), ["sm_80"], ("none", "")),
        ((9, 0), ["sm_80", "compute_80"], ("jit", "compute_80")),
        ((7, 5), ["sm_80", "compute_80"], ("none", "")),
        ((9, 0), ["sm_90a"], ("native", "sm_90a")),
        ((10, 3), ["sm_100a"], ("none", "")),
        ((10, 3), ["sm_100f"], ("native", "sm_100f")),
        ((12, 1), ["sm_120"], ("native", "sm_120")),
        ((10, 0), ["compute_90a"], ("none", "")),
        ((8, 7), ["sm_80", "sm_86"], ("none", "")),
        ((8, 7), ["sm_87"], ("native", "sm_87")),
        ((11, 0), ["sm_101"], ("native", "sm_101")),
        ((8, 0), ["gfx90a", "", "sm_x"], ("none", "")),
    ],
)
def test_which_code_runs_where(capability, arch_list, expected):
    found = support(capability, arch_list)
    assert (found.kind, found.code) == expected


@pytest.mark.skipif(not hasattr(torch.cuda, "_code_compatible_with_device"), reason="this torch judges otherwise")
@given(
    st.sampled_from(sorted(getattr(torch.cuda, "DEVICE_REQUIREMENT", [80]))),
    st.sampled_from([50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121]),
)
def test_compiled_code_runs_where_torch_states(code, device):
    ours = support(divmod(device, 10), [f"sm_{code}"]).kind == "native"
    assert ours == torch.cuda._code_compatible_with_device(device, code) or (code, device) == (110, 101)


def test_formats_by_capability():
    assert cuda_formats((7, 5)) == {"fp16": "native", "bf16": "emulated", "tf32": "no", "fp8": "no", "fp4": "no"}
    assert cuda_formats((8, 9))["fp8"] == "native"
    assert set(cuda_formats((12, 0)).values()) == {"native"}
    assert amd_formats("gfx906")["bf16"] == "emulated"
    assert amd_formats("gfx950")["fp4"] == "native"


def test_releases_and_flags():
    assert releases_for((7, 5), {"12.6": {50, 75}, "12.10": {75}, "13.0": {80}}) == ["12.10", "12.6"]
    assert releases_for((3, 5), {"12.6": {50}}) == []
    assert gencode_flags(["sm_80", "compute_90"]) == (
        "-gencode compute=compute_80,code=sm_80 -gencode compute=compute_90,code=compute_90"
    )


def test_which_gpus_are_seen_without_starting_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    assert visible_numbers([Gpu(k, "X", f"GPU-{k}") for k in range(3)]) == {2: 0, 0: 1}

"""The device specs: their numbers, compared with each other and with recorded ones, and their names."""

import gzip
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalens import VirtualDeviceError
from cudalens.gpus import registry as specs
from cudalens.gpus.constants import label_of
from cudalens.gpus.device_spec import MIB
from cudalens.gpus.registry import MAX_DEVICES, PEAK_KEYS, SPECS, DeviceSpec, parse_device, register, spec_of

RECORDED = Path(__file__).parents[4] / "shared" / "recorded"
EVERY = pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.key)
#: CUDA C++ programming guide, arithmetic instructions: float32 results per clock and SM.
FLOAT32_CORES = dict.fromkeys([(6, 0), (7, 0), (7, 5), (8, 0)], 64) | dict.fromkeys(
    [(6, 1), (8, 6), (8, 9), (9, 0), (9, 4), (10, 0), (10, 3), (12, 0)], 128
)


def test_the_issued_models_are_there():
    required = {
        "v100",
        "t4",
        "a10",
        "a100",
        "a100-80gb",
        "l4",
        "l40s",
        "rtx3090",
        "rtx4090",
        "h100",
        "h100-pcie",
        "h200",
    }
    others = {"a40", "a6000", "l40", "h20", "gh200", "rtx3080", "rtx4080", "mi300x"}
    assert required | others | {"b200", "b300", "gb200", "rtx-pro-6000", "p100", "p4"} <= set(SPECS)
    assert all(key == spec.key for key, spec in SPECS.items())


@EVERY
def test_bandwidth_is_what_clock_and_bus_give(spec):
    """Twice per clock (double data rate), as in deviceQuery's formula."""
    computed = 2 * spec.memory_clock_mhz * 1e6 * spec.memory_bus_bits / 8 / 1e9
    assert spec.memory_bandwidth_gbps == pytest.approx(computed, rel=0.03)


@EVERY
def test_float32_peak_is_what_clock_and_cores_give(spec):
    cores = FLOAT32_CORES[spec.compute_capability] * spec.num_sms
    assert spec.peak_tflops["float32"] == pytest.approx(2 * cores * spec.clock_mhz * 1e6 / 1e12, rel=0.06)


@EVERY
def test_peaks_are_ordered_as_the_hardware_is(spec):
    peak = spec.peak_tflops
    assert set(peak) == set(PEAK_KEYS)
    assert peak["float64"] <= peak["float32"] <= peak["tf32"] <= peak["float16"]
    assert peak["bfloat16"] in (peak["float16"], peak["float32"])
    assert peak["bfloat16"] <= peak["float8"]
    assert peak["float8"] <= peak["int8"] or spec.compute_capability == (10, 3)  # few int8 units


@EVERY
def test_links_and_limits_are_plausible(spec):
    assert spec.pageable_h2d_gbps < spec.pinned_h2d_gbps < spec.memory_bandwidth_gbps
    assert spec.pageable_d2h_gbps < spec.pinned_d2h_gbps < spec.memory_bandwidth_gbps
    assert spec.peer_gbps < spec.memory_bandwidth_gbps
    assert spec.idle_watts < spec.max_watts
    assert spec.idle_celsius < spec.busy_celsius
    assert spec.shared_memory_per_block_bytes <= spec.shared_memory_per_block_optin_bytes
    assert spec.shared_memory_per_block_optin_bytes <= spec.shared_memory_per_sm_bytes
    assert spec.sources
    assert spec.max_resident_threads == spec.num_sms * spec.max_threads_per_sm


@EVERY
def test_the_architecture_is_one_that_the_wheel_was_built_for(spec):
    major, minor = spec.compute_capability
    built = [(int(text[3:-1]), int(text[-1])) for text in spec.arch_list]
    assert any(m == major and n <= minor for m, n in built)


def test_an_mi300x_has_the_numbers_that_torch_and_rocminfo_print():
    spec = SPECS["mi300x"]
    assert spec.total_memory_bytes == 196_592 * MIB
    assert (spec.compute_capability, spec.num_sms, spec.warp_size, spec.clock_mhz) == ((9, 4), 304, 64, 2100)
    assert label_of(spec) == "mi300x, times uncalibrated"


def _recorded_devices():
    for path in sorted(RECORDED.glob("**/*.json*")):
        text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
        if (at := text.find('"deviceProperties"')) >= 0:
            found, _ = json.JSONDecoder(strict=False).raw_decode(text[text.index("[", at) :])
            yield from found


def test_specs_equal_what_recorded_traces_state_of_the_same_cards():
    if not RECORDED.is_dir():
        pytest.skip(f"no recorded traces at {RECORDED}")
    by_name = {spec.name: spec for spec in SPECS.values()}
    seen = set()
    for device in _recorded_devices():
        if (spec := by_name.get(device["name"])) is None:
            continue
        seen.add(spec.key)
        assert spec.total_memory_bytes == pytest.approx(device["totalGlobalMem"], rel=1e-3)
        assert spec.compute_capability == (device["computeMajor"], device["computeMinor"])
        assert spec.num_sms == device["numSms"]
        assert spec.max_threads_per_sm == device["maxThreadsPerMultiprocessor"]
        assert spec.max_threads_per_block == device["maxThreadsPerBlock"]
        assert spec.registers_per_sm == device.get("regsPerMultiprocessor", device["regsPerBlock"])  # ROCm has one
        assert spec.warp_size == device["warpSize"]
        assert spec.shared_memory_per_block_bytes == device["sharedMemPerBlock"]
        optin_bytes = device.get("sharedMemPerBlockOptin", device["sharedMemPerBlock"])
        assert spec.shared_memory_per_block_optin_bytes == optin_bytes
        per_sm_bytes = device.get("sharedMemPerMultiprocessor") or device["maxSharedMemoryPerMultiProcessor"]
        assert spec.shared_memory_per_sm_bytes == per_sm_bytes
    assert {"h100", "b200", "v100", "mi300x"} <= seen


@pytest.mark.parametrize(
    ("text", "key", "count"),
    [
        ("h100", "h100", 1),
        ("H100", "h100", 1),
        ("  h100\n", "h100", 1),
        ("h100x4", "h100", 4),
        ("H100 X 4", "h100", 4),
        ("h100*2", "h100", 2),
        ("a100-80gb x 2", "a100-80gb", 2),
        ("A100 80GB", "a100-80gb", 1),
        ("h100_pcie", "h100-pcie", 1),
        ("rtx4090", "rtx4090", 1),
        ("rtx4090x8", "rtx4090", 8),
        (f"t4x{MAX_DEVICES}", "t4", MAX_DEVICES),
    ],
)
def test_texts_that_name_devices(text, key, count):
    assert parse_device(text) == (SPECS[key], count)


@given(st.sampled_from(sorted(SPECS)), st.integers(1, MAX_DEVICES), st.sampled_from(["x", " x ", "X", "*", " x"]))
def test_every_key_with_every_count(key, count, times):
    assert parse_device(f"{key.upper()}{times}{count}") == (SPECS[key], count)


def test_a_spec_is_one_device():
    mine = SPECS["h100"].replace(key="mine", num_sms=64)
    assert parse_device(mine) == (mine, 1)


@pytest.mark.parametrize("text", ["", "h1000", "gtx1080", "h100x", "x4", "h100 4", "x"])
def test_an_unknown_name_lists_the_known_ones(text):
    with pytest.raises(VirtualDeviceError, match=rf"{re.escape(repr(text))}.*Known: a10, a100"):
        parse_device(text)


def test_a_near_miss_is_offered():
    with pytest.raises(VirtualDeviceError, match=r"Did you mean .*rtx4090"):
        parse_device("rtx4091")


@pytest.mark.parametrize("text", ["h100x0", f"h100x{MAX_DEVICES + 1}"])
def test_a_count_that_no_machine_has(text):
    with pytest.raises(VirtualDeviceError, match=f"expected 1 to {MAX_DEVICES}"):
        parse_device(text)


@pytest.mark.parametrize("wrong", [None, 4, ["h100"]])
def test_what_names_nothing(wrong):
    with pytest.raises(VirtualDeviceError, match="text such as"):
        parse_device(wrong)


def test_own_devices_are_found_by_their_key(monkeypatch):
    monkeypatch.setattr(specs, "_specs", own := dict(SPECS))
    mine = SPECS["l4"].replace(key="my-card", total_memory_bytes=8 << 30)
    assert register(mine) is mine
    assert parse_device("My Card x 3") == (mine, 3)
    with pytest.raises(VirtualDeviceError, match="already registered"):
        register(mine)
    half = mine.replace(num_sms=29)
    assert register(half, replace=True) is half
    assert own["my-card"] is half


@pytest.mark.parametrize("key", ["", "H100", "my card", "cardx4", "card x 4"])
def test_keys_that_no_text_could_name(key):
    with pytest.raises(VirtualDeviceError, match="Cannot register"):
        register(SPECS["l4"].replace(key=key))


def test_replace_refuses_a_field_that_is_none():
    with pytest.raises(VirtualDeviceError, match=r"no field 'num_sm'.*num_sms"):
        SPECS["h100"].replace(num_sm=1)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_sms": 0},
        {"launch_ns": -1},
        {"memory_bandwidth_gbps": 0.0},
        {"pinned_h2d_gbps": 0.0},
        {"peak_tflops": {"float32": 1.0}},
        {"num_sms": -3},
    ],
)
def test_numbers_that_cannot_be(changes):
    with pytest.raises(VirtualDeviceError, match=next(iter(changes))):
        SPECS["h100"].replace(**changes)


def test_a_spec_is_a_value():
    spec = SPECS["h100"]
    assert pickle.loads(pickle.dumps(spec)) == spec == spec.replace()
    assert hash(spec) == hash(spec.replace())
    assert spec != spec.replace(num_sms=1)
    with pytest.raises(AttributeError):
        spec.num_sms = 1
    with pytest.raises(TypeError):
        spec.peak_tflops["float32"] = 1.0
    with pytest.raises(TypeError):
        SPECS["x"] = spec
    assert isinstance(spec, DeviceSpec)


def test_specs_and_formulas_need_no_torch():
    code = "import sys; sys.modules['torch'] = None; import cudalens.gpus.registry, cudalens.gpus.predict"
    subprocess.run([sys.executable, "-c", code], check=True)


@EVERY
def test_a_device_with_these_facts_is_this_one(spec):
    capability = ".".join(map(str, spec.compute_capability))
    assert spec_of(capability, spec.num_sms, spec.total_memory_bytes, spec.name) == spec
    assert spec_of(capability, spec.num_sms, spec.total_memory_bytes).num_sms == spec.num_sms

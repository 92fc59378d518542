"""Calibration: the times of a device that was measured come back, and files are checked before they are used."""

import itertools
import json

import pytest
import torch

import cudalens
from cudalens.errors import VirtualDeviceError
from cudalens.gpus import predict
from cudalens.gpus.registry import SPECS
from cudalens.virtual.calibration.measure import operators


@pytest.fixture(scope="module")
def calibration(tmp_path_factory):
    """A file with the constants of a virtual l40s, from its small operators."""
    path = tmp_path_factory.mktemp("calibration") / "my-gpu.json"
    with cudalens.virtual.device("l40s", values=False):
        errors = cudalens.virtual.calibrate(path, max_bytes=1 << 19)
    assert max(errors.values()) < 5
    return path


def test_calibration_ends_within_its_time(tmp_path, monkeypatch):
    """Each look at the clock takes a second: of the operators and of the fit, only what fits in is done."""
    seconds = itertools.count()
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    with cudalens.virtual.device("l40s", values=False):
        errors = cudalens.virtual.calibrate(tmp_path / "file.json", seconds=60)
    assert next(seconds) <= 60 + 2 * len(errors)
    assert {"matrix_half"} <= set(errors) < {operator.family for operator in operators(torch.bfloat16)}
    assert cudalens.virtual.device("my-gpu", calibration=tmp_path / "file.json").spec.calibration.keys() == set(errors)


def test_an_operator_that_would_take_too_long_is_left_out(tmp_path):
    with cudalens.virtual.device("p4", values=False), pytest.raises(VirtualDeviceError, match="more seconds"):
        cudalens.virtual.calibrate(tmp_path / "file.json", max_bytes=1 << 12, seconds=1e-4)


def test_there_are_about_200_operators_of_every_family():
    found = list(operators(torch.bfloat16))
    assert 180 <= len(found) <= 220
    assert len({operator.family for operator in found}) == 7


def test_a_calibrated_device_has_the_times_of_the_measured_one(calibration):
    mine = cudalens.virtual.device("my-gpu", calibration=calibration).spec
    own = SPECS["l40s"]
    assert (mine.key, mine.name, mine.num_sms) == ("my-gpu", own.name, own.num_sms)
    for sizes in ((1, 300, 700, 900, 2), (1, 64, 2048, 512, 2)):
        times = [predict.matrix_ns(spec, "bfloat16", *sizes) for spec in (mine, own)]
        assert times[0] == pytest.approx(times[1], rel=0.05)
    times = [predict.rows_ns(spec, "softmax", 900, 700, 8 * 900 * 700, 4) for spec in (mine, own)]
    assert times[0] == pytest.approx(times[1], rel=0.05)


def test_programs_run_on_a_calibrated_device_without_the_uncalibrated_label(calibration):
    with cudalens.virtual.device("my-gpux2", calibration=calibration), cudalens.profile() as run:
        assert torch.cuda.device_count() == 2
        assert torch.cuda.get_device_name() == "NVIDIA L40S"
        torch.ones(8, device="cuda").sum()
    assert run.trace.info.source == "virtual:my-gpu"


def test_calibrate_needs_a_gpu(tmp_path):
    with pytest.raises(VirtualDeviceError, match="is_available"):
        cudalens.virtual.calibrate(tmp_path / "file.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "'format' is not 'cudalens calibration 1'"),
        ({"base": "gtx1"}, "'base' is 'gtx1'"),
        ({"base": ["h100"]}, "'base' is .*expected one of"),
        ({"num_sms": -1}, "'num_sms' is not a valid int"),
        ({"num_sms": True}, "'num_sms' is not a valid int"),
        ({"name": "x" * 1000}, "'name' is not a valid str"),
        ({"peak_tflops": {"float32": 1}}, "'peak_tflops' does not have the names"),
        ({"families": {}}, "'families' has other names"),
        ({"families": {"unknown": {}}}, "'families' has other names"),
        ({"families": {"pointwise": {"memory_share": 1.0}}}, "'pointwise' does not have the names"),
        ({"families": {"pointwise": {"memory_share": "1", "fixed_ns": 1}}}, "'memory_share' is not a number"),
        ({"families": {"pointwise": {"memory_share": float("nan"), "fixed_ns": 1}}}, "'memory_share' is not a number"),
        ({"families": {"pointwise": {"memory_share": 0, "fixed_ns": 1}}}, "'memory_share' is not a number"),
    ],
)
def test_an_invalid_file_is_refused_with_the_reason(calibration, tmp_path, change, message):
    path = tmp_path / "file.json"
    path.write_text(json.dumps(json.loads(calibration.read_text()) | change))
    with pytest.raises(VirtualDeviceError, match=message):
        cudalens.virtual.device("my-gpu", calibration=path)


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"[" * 100_000, b"[]", b'"' + b"x" * (2 << 20) + b'"'])
def test_a_file_of_another_format_is_refused(tmp_path, content):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(VirtualDeviceError, match="not a valid calibration"):
        cudalens.virtual.device("my-gpu", calibration=path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(VirtualDeviceError, match=r"Cannot read the calibration file .*no\.json: No such file"):
        cudalens.virtual.device("my-gpu", calibration=tmp_path / "no.json")


def test_a_calibration_is_for_a_name():
    with pytest.raises(ValueError, match="not for a spec"):
        cudalens.virtual.device(SPECS["h100"], calibration="file.json")

"""``%%cudaprofile`` on a virtual device: with every option, and in cells that have a device of their own."""

import json

import pytest
import torch

import cudalens

MODEL = """
import torch, cudalens
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).cuda()
x = torch.randn(16, 8, device="cuda")
"""
TRAIN = """
with torch.profiler.record_function("forward"):
    loss = net(x).square().mean()
loss.backward()
"""


def count(trace, category):
    return int((trace.events["cat"] == category).sum())


@pytest.fixture
def on_device(notebook):
    """A notebook whose cells run on a virtual H100, with a model that has run once."""
    with cudalens.virtual.device("h100"):
        assert notebook.run(MODEL + TRAIN).success
        yield notebook


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    assert cudalens.virtual.active() is None
    assert cudalens.virtual.context.observers == []
    assert not torch.autograd._profiler_enabled()


def test_a_cell_shows_a_simulated_timeline(on_device):
    on_device.run(f"%%cudaprofile -v trace\n{TRAIN}")
    (bundle,) = [data for kind, data in on_device.shown if kind == "display"]
    assert bundle["text/plain"].startswith("[simulated: h100] ")
    assert "simulated: h100" in bundle["text/html"]
    trace = on_device["trace"]
    for category in ("cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_user_annotation"):
        assert count(trace, category), category


def test_the_work_of_the_warmup_is_not_idle_time_of_the_profiled_steps(on_device):
    """Products that take the GPU long and the host no time: the GPU is busy from the first to the last."""
    on_device.run("large = torch.empty(8192, 8192, device='cuda')")
    on_device.run("%%cudaprofile -q --warmup 2 --repeat 2 -v trace\nlarge @ large")
    trace = on_device["trace"]
    window_ns = trace.info.ended_ns - trace.info.started_ns
    assert cudalens.analysis.device_time(trace)["busy_ns"] > 0.9 * window_ns


def test_every_option_at_once(on_device, tmp_path):
    page, saved, chrome = tmp_path / "run.html", tmp_path / "run.cudalens", tmp_path / "run.json"
    on_device.run(
        f"%%cudaprofile --memory --shapes --stacks --modules --flops --warmup 1 --repeat 2 -v trace "
        f"--html {page} --save {saved} --chrome {chrome}\n{TRAIN}"
    )
    assert on_device.kinds() == ["display"], on_device.shown
    trace = on_device["trace"]
    events = trace.events
    kernels = events[events["cat"] == "kernel"]
    assert set(kernels["step"]) == {0, 1}
    assert kernels["stack"].notna().any()
    assert kernels["module"].notna().any()
    assert events["shapes"].notna().any()
    assert events["flops"].gt(0).any()
    assert set(trace.memory["device_type"]) == {"cuda"}
    assert "simulated: h100" in page.read_text()
    assert cudalens.load(saved).info.is_simulated
    assert any(event.get("cat") == "kernel" for event in json.loads(chrome.read_text())["traceEvents"])


def test_cpu_only_shows_the_host_on_the_virtual_clock(on_device):
    on_device.run(f"%%cudaprofile --cpu-only -v trace\n{TRAIN}")
    trace = on_device["trace"]
    assert count(trace, "cpu_op")
    assert not count(trace, "kernel")
    assert not count(trace, "cuda_runtime")
    assert trace.info.source == "virtual:h100"


def test_steps_of_the_same_work_last_the_same(on_device):
    on_device.run(f"%%cudaprofile --warmup 2 --repeat 3 -v trace\n{TRAIN}\ntorch.cuda.synchronize()")
    steps = on_device["trace"].events.query("name.str.startswith('ProfilerStep#') and cat == 'user_annotation'")
    assert len(steps) == 3
    summary = cudalens.analysis.summarize(on_device["trace"])
    assert summary.num_steps == 3
    kernels = on_device["trace"].events.query("cat == 'kernel'")
    lengths = kernels.groupby("step")["dur"].sum()
    assert lengths.nunique() == 1


def test_a_roofline_is_drawn_against_the_spec(on_device):
    on_device.run("import torch\na = torch.randn(512, 512, device='cuda')")
    on_device.run("%%cudaprofile -v t -q --shapes --flops\na @ a")
    row = cudalens.analysis.roofline(on_device["t"]).query("name == 'aten::mm'").iloc[0]
    assert row["peak_flops_per_s"] == cudalens.virtual.SPECS["h100"].peak_tflops["float32"] * 1e12
    assert 0 < row["flops_pct"] <= 100


def test_an_error_leaves_what_was_recorded(on_device):
    on_device.run("%%cudaprofile -v trace\nx + 1\nx + torch.ones(16, 8)\nx + 2")
    assert on_device.kinds() == ["display", "error"]
    trace = on_device["trace"]
    assert trace.info.status == "raised"
    assert count(trace, "kernel") == 1


def test_a_cell_that_has_a_device_of_its_own(notebook):
    notebook.run(
        "%%cudaprofile -v trace\n"
        "import torch, cudalens\n"
        "with cudalens.virtual.device('a100'):\n"
        "    y = torch.ones(8, device='cuda') + 1\n"
    )
    trace = notebook["trace"]
    assert trace.info.source == "virtual:a100"
    assert count(trace, "kernel") == 2
    assert "[simulated: a100]" in notebook.text("display")


def test_a_cell_whose_device_outlives_it(notebook):
    notebook.run(
        "%%cudaprofile -v trace\n"
        "import torch, cudalens\n"
        "gpu = cudalens.virtual.device('h100')\n"
        "gpu.enable()\n"
        "y = torch.ones(8, device='cuda')\n"
    )
    assert cudalens.virtual.active() is notebook["gpu"]
    assert notebook["gpu"].gpus.machine.recorder is None
    notebook.run("%%cudaprofile -v later\ny * 2\ngpu.disable()")
    assert [count(notebook[name], "kernel") for name in ("trace", "later")] == [1, 1]
    assert notebook["later"].info.started_ns >= notebook["trace"].info.ended_ns


def test_cells_without_a_device_are_measured_as_ever(notebook):
    notebook.run("%%cudaprofile -v trace\nimport torch\ntorch.ones(3)")
    assert notebook["trace"].info.source == "cpu"
    assert "simulated" not in notebook.text("display")


def test_the_brief_calls_the_gain_of_modelled_times_modelled(on_device):
    on_device.run(
        f"%%cudaprofile -q --warmup 1 -v trace\nfor _ in range(20):{TRAIN.replace(chr(10), chr(10) + '    ')}"
    )
    trace = on_device["trace"]
    assert any(found.confidence == "high" for found in cudalens.analysis.findings(trace))
    gains = [line for line in str(trace.brief()).splitlines() if "gain up to" in line]
    assert any(", modelled" in line for line in gains)
    assert not any(", measured" in line for line in gains)

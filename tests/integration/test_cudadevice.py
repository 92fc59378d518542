"""`%cudadevice`: a virtual device for the cells that follow, in a real shell."""

from __future__ import annotations

import threading

import pytest
import torch

import cudalens.virtual as virtual
from cudalens.device.inventory import readings
from cudalens.errors import MetricsError


@pytest.fixture(autouse=True)
def none_left():
    yield
    if (on := virtual.active()) is not None:
        on.disable()


def test_cells_after_it_run_on_the_virtual_device(notebook):
    assert notebook.run("%cudadevice virtual h100").success
    assert "simulated: NVIDIA H100" in notebook.capsys.readouterr().out
    assert notebook.run("x = torch.ones(4, device='cuda') * 3\nx").success
    assert notebook.text("out") == "tensor([3., 3., 3., 3.], device='cuda:0')"
    assert notebook.run("%cudadevice off").success
    assert notebook.run("x").success
    assert notebook.text("out") == "tensor([3., 3., 3., 3.])"
    assert virtual.active() is None


RANK = """
import os
import torch
import torch.distributed as dist
def train():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.all_reduce(torch.ones(8, device="cuda"))
"""


@pytest.mark.parametrize(
    "line",
    [
        "%cudadevice virtual h100x16 --job train",
        "%cudadevice job train --gpus h100x16",
        "%cudadevice job train --gpus h100x2 --values",
    ],
)
def test_a_function_of_the_notebook_runs_as_a_job(notebook, line):
    assert notebook.run(RANK).success
    assert notebook.run(line).success
    [bundle] = [data for kind, data in notebook.shown if kind == "display"]
    assert bundle["text/plain"].startswith("[simulated] The program takes")
    assert virtual.active() is None
    notebook.run("%cudadevice virtual h100x4 --job missing")
    assert "'missing' is not a function of this notebook" in notebook.text("usage")
    notebook.run("%cudadevice virtual h100x4 --job train --default-count 3")
    assert "--job takes only --default" in notebook.text("usage")


def test_another_device_takes_the_place_of_the_first(notebook):
    notebook.run("%cudadevice virtual t4")
    notebook.run("%cudadevice virtual h100x4")
    assert notebook.run("torch.cuda.device_count()").success
    assert notebook.text("out") == "4"


def test_tensors_that_leave_the_device_are_named(notebook):
    notebook.run("%cudadevice virtual h100\nx = torch.ones(4, device='cuda')\nparts = [x * 2]\nhost = torch.ones(2)")
    notebook.capsys.readouterr()
    notebook.run("%cudadevice virtual h100  # again")
    said = notebook.capsys.readouterr().out
    assert "The tensors on the virtual h100 (1.00 KiB) are CPU tensors from now on: x, parts." in said
    assert "host" not in said
    assert said.index("CPU tensors") < said.index("Virtual h100 is on")
    assert notebook["x"].device.type == "cpu"
    notebook.run("%cudadevice off")
    assert notebook.capsys.readouterr().out == "The virtual h100 is off.\n"


@pytest.mark.parametrize("line", ["%cudadevice off", "%unload_ext cudalens"])
def test_the_end_of_the_device_names_its_tensors(notebook, line):
    notebook.run("%cudadevice virtual t4\nmodel = torch.nn.Linear(2, 2, device='cuda')")
    notebook.capsys.readouterr()
    notebook.run(line)
    assert "are CPU tensors from now on: model." in notebook.capsys.readouterr().out


def test_status_and_specs_are_readable(notebook):
    notebook.run("%cudadevice virtual\nx = torch.empty(2**28, device='cuda')\n%cudadevice status")
    assert "Virtual h100 is on (simulated: NVIDIA H100 80GB HBM3)" in notebook.capsys.readouterr().out
    [bundle] = [data for kind, data in notebook.shown if kind == "display"]
    assert bundle["text/plain"].startswith("[simulated: h100] 1 CUDA device: NVIDIA H100 80GB HBM3, 79.2 GiB")
    assert "1.49 GiB in use" in bundle["text/plain"]
    assert '<div class="cudalens-devices">' in bundle["text/html"]
    notebook.run("%cudadevice specs")
    lines = notebook.capsys.readouterr().out.splitlines()
    assert any(line.startswith("h100 ") for line in lines)
    assert len(lines) == 1 + len(virtual.SPECS)
    assert "80 % bands of modelled times" in lines[0]


def test_without_a_device_it_states_why_and_what_to_do(notebook, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    notebook.run("%cudadevice")
    text = notebook.shown[0][1]["text/plain"]
    assert text.startswith(f"No CUDA device; this torch ({torch.__version__}) is a CPU-only build")
    assert "%cudadevice virtual h100 simulates one" in text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%cudadevice virtual h1000", "No virtual device is named 'h1000'"),
        ("%cudadevice on", "usage: %cudadevice"),
        ("%cudadevice off h100", "usage: %cudadevice"),
        ("%cudadevice virtual h100 --alloc-conf no_such_option:1", "no_such_option"),
    ],
)
def test_bad_input_states_what_to_do_and_leaves_nothing(notebook, line, said):
    notebook.run(line)
    assert said in notebook.text("usage")
    assert virtual.active() is None


def test_a_bad_wish_leaves_the_device_that_is_on(notebook):
    notebook.run("%cudadevice virtual t4")
    notebook.run("%cudadevice virtual nonsense")
    assert virtual.active().spec.key == "t4"


def test_a_with_statement_keeps_its_device(notebook):
    with virtual.device("t4"):
        notebook.run("%cudadevice off")
        assert "with statement" in notebook.text("usage")
        notebook.run("%cudadevice virtual h100")
        assert "do not nest" in notebook.text("usage")
        assert virtual.active().spec.key == "t4"


def test_unloading_takes_the_device_away(notebook):
    notebook.run("%cudadevice virtual h100")
    notebook.shell.run_line_magic("unload_ext", "cudalens")
    assert virtual.active() is None
    assert "device" not in vars(torch.Tensor)


def test_an_exception_in_a_cell_leaves_the_device_on(notebook):
    notebook.run("%cudadevice virtual h100")
    assert not notebook.run("torch.ones(2, device='cuda') @ torch.ones(3, device='cuda')").success
    assert notebook.run("torch.ones(2, device='cuda').sum().item()").success
    assert notebook.text("out") == "2.0"


# -- live gauges -------------------------------------------------------------------------------------------------------


def test_without_a_notebook_the_readings_of_the_moment_are_printed(notebook):
    notebook.run("%cudadevice virtual h100\n%cudadevice live")
    said = notebook.capsys.readouterr().out
    assert "[simulated: h100] cuda:0: idle, 500 MiB of 79.2 GiB, 70 W, 32 °C" in said
    assert "Live gauges need a notebook" in said
    assert not [thread for thread in threading.enumerate() if thread.name == "cudalens-metrics"]


def test_nothing_to_read_states_why_and_what_to_do(notebook, monkeypatch):
    def refuse():
        raise MetricsError("No metrics of a GPU: there is none.")

    monkeypatch.setattr(readings, "open_source", refuse)
    notebook.run("%cudadevice live")
    assert "there is none. `%cudadevice virtual h100` models a GPU." in notebook.text("usage")
    notebook.run("%cudadevice live stop")
    assert "No live gauges were on." in notebook.capsys.readouterr().out
    notebook.run("%cudadevice live --rate 0")
    assert "expected 0.01 to 1000" in notebook.text("usage")


def test_a_profiled_cell_with_readings(notebook):
    notebook.run("%cudadevice virtual h100")
    assert notebook.run("%%cudaprofile run -v t --metrics\nx = torch.ones(256, 256, device='cuda')\ny = x @ x").success
    assert len(notebook["t"].metrics) > 100
    assert notebook.run("%%cudaprofile -v t --metrics 500\ny = x @ x").success
    assert notebook["t"].info.options["metrics"] == 500.0
    assert not notebook.run("%%cudaprofile --metrics name\nx = 1").success
    assert "'name' is not a number of readings per second" in notebook.text("usage")


def test_a_device_without_values(notebook):
    assert notebook.run("%cudadevice virtual h100 --no-values --default 0.5").success
    assert "simulated: NVIDIA H100 80GB HBM3, without values" in notebook.capsys.readouterr().out
    notebook.run("x = torch.randn(1 << 20, 1 << 13, device='cuda', dtype=torch.bfloat16)")
    assert notebook.run("x.sum().item()").success
    assert notebook.text("out") == "0.5"
    notebook.run("%cudadevice off")
    assert "(16.0 GiB) had no values and cannot be used now." in notebook.capsys.readouterr().out


def test_a_calibration_file(notebook, tmp_path):
    from cudalens.gpus.constants import fit_of
    from cudalens.virtual.calibration.spec_file import write_calibration

    spec, path = virtual.SPECS["l40s"], tmp_path / "mine.json"
    write_calibration(path, spec, {"pointwise": fit_of(spec, "pointwise").constants}, {})
    assert notebook.run(f"%cudadevice virtual my-gpu --calibration {path}").success
    assert "NVIDIA L40S" in notebook.capsys.readouterr().out
    notebook.run("%cudadevice off")
    assert not notebook.run(f"%cudadevice virtual my-gpu --calibration {tmp_path / 'no.json'}").success
    assert "Cannot read the calibration file" in notebook.text("usage")


def test_fit_shows_the_devices_on_which_a_function_fits(notebook):
    notebook.run("def step(batch):\n    torch.randn(batch, 1 << 28, device='cuda').sum()")
    assert notebook.run("%cudadevice fit step --devices t4,a100 --batch 20").success
    assert "A batch of 20 fits on 1 of 2 devices: a100 (up to 38)." in notebook.text("display")
    assert virtual.active() is None


def test_fit_needs_a_function(notebook):
    assert not notebook.run("%cudadevice fit nothing").success
    assert "is not a function of this notebook" in notebook.text("usage")

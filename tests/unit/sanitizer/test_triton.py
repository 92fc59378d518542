"""Triton's launches: on a virtual device by Triton's interpreter, and compiled for a GPU that is not there."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import programs
import pytest
import torch

import cudalens
from cudalens.device import gpu_trace, launches

with_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed (pip install triton)"
)
PROGRAMS = Path(__file__).with_name("triton_programs.py")


def run(program, *, interpreted):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    if interpreted:
        environment["TRITON_INTERPRET"] = "1"
    done = programs.run(PROGRAMS, program, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@with_triton
def test_an_interpreted_kernel_reads_and_writes_what_its_stores_state():
    found = run("on_a_virtual_device", interpreted=True)
    assert found["races"] == [
        ["read after write", "add", "out", "aten::sum", "self"],
        ["write after read", "add", "b", "aten::mul_", "self"],
    ]
    assert set(found["lines"]) == {"launch(a, b, out, N)"}
    assert found["out"] == [2.0 * i + 1 for i in range(64)]
    assert (found["guessed"], found["error"]) == ([], None)


@with_triton
def test_a_profile_shows_one_kernel():
    assert run("in_a_profile", interpreted=True)["work"] == ["simulated::triton::add"]


@with_triton
def test_atomics_write_and_views_are_distinguished():
    found = run("with_atomics_and_views", interpreted=True)
    assert found["races"] == [["read after write", "count", "found", "aten::sum", "self"]]
    assert found["found"] == [0, 0, 64, 0]


@with_triton
def test_a_capture_refuses_an_interpreted_kernel():
    assert (
        "cannot capture the interpreted Triton kernel" in run("refused_where_it_cannot_be", interpreted=True)["error"]
    )


@with_triton
def test_a_compiled_kernel_writes_what_torch_finds_that_it_does():
    found = run("compiled", interpreted=False)
    assert found["races"] == [
        ["write after write", "add", "out", "add", "out"],
        ["host access", "add", "b", "aten::sum", "self"],
    ]
    assert (found["guessed"], found["error"], found["later"]) == ([], None, 3)


@with_triton
def test_no_race_is_reported_for_a_kernel_with_unknown_writes():
    found = run("not_known", interpreted=False)
    assert (
        found["races"] == [["host access", "opaque", "a", "later access", "writes[0]"]] * 2
    )  # of both launches, not of each other
    assert found["guessed"] == ["opaque"]
    assert "all count as read: opaque; annotate with cudalens.sanitizer.access" in found["status"]


@with_triton
def test_triton_is_left_as_it_was():
    assert run("leaves_nothing", interpreted=True) == {"changed": True, "restored": True}


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    """A package that looks as Triton's launcher does, not imported yet."""
    for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)  # Triton itself, which other tests load
    package = tmp_path / "triton" / "runtime"
    package.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "jit.py").write_text(
        "class JITFunction:\n"
        "    __name__, arg_names = 'scale', ['x', 'factor']\n"
        "    def run(self, *args, grid, warmup=False, **kwargs): return None if warmup else self\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda: importlib.import_module("triton.runtime.jit").JITFunction
    for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
        del sys.modules[name]


def test_a_launch_is_recorded_with_its_tensors_and_without_them_is_not(launcher):
    records = []
    with gpu_trace.subscribe(records.append), cudalens.virtual.device("h100"):
        launches.watch_launches()
        try:
            kernel, x = launcher()(), torch.ones(3).pin_memory()
            kernel.run(3, 4, grid=(1,))
            kernel.run((x,), 4, grid=(1,), warmup=True)
            kernel.run((x,), factor=4, grid=(1,))  # torch does not report how tensors in a tuple are used
            with torch.cuda.stream(torch.cuda.Stream()):
                kernel.run((x,), factor=4, grid=(1,))
                side = torch.cuda.current_stream().cuda_stream
        finally:
            launches.unwatch_launches()
        kernel.run((x,), 4, grid=(1,))
    launched = [record for record in records if isinstance(record, gpu_trace.KernelLaunched)]
    assert [(r.name, r.device, r.stream, r.is_certain) for r in launched] == [
        ("scale", 0, 0, False),
        ("scale", 0, side, False),
    ]
    assert [(name, tensor is x, is_write) for name, tensor, is_write in launched[0].arguments] == [("x", True, False)]
    assert launcher().run.__module__ == "triton.runtime.jit"


def test_triton_may_never_come(launcher):
    finders = list(sys.meta_path)
    with cudalens.sanitize() as outer:
        assert sys.meta_path != finders
        with cudalens.sanitize():
            pass
        assert outer.is_on
        assert sys.meta_path != finders
    assert sys.meta_path == finders
    assert not hasattr(launcher().run, "cudalens_wrapped")

"""`cudalens.compile_report` and ``%%cudacompile``: graph breaks, kernels before and after, and an unchanged cell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch._dynamo
from torch.nn import functional

import cudalens
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.compiled.compiler_log import CompilerLog

pytest.importorskip("triton", reason="torch.compile on a virtual device needs Triton")

pytestmark = pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def test_a_report_has_the_break_the_kernels_and_their_origin():
    weight = torch.randn(64, 256)

    def loss(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = functional.gelu(x @ weight).softmax(-1)
        if y.sum().item() < 0:
            return y
        return (y * 2 + 1).mean()

    with cudalens.virtual.device("h100"):
        report = cudalens.compile_report(loss, torch.randn(32, 64, device="cuda"), weight.cuda())
    assert (report.eager.events["cat"] == "kernel").sum() == report.summary["eager_kernels"]

    [place, source, function, reason, change] = report.breaks.iloc[0].tolist()
    assert place.endswith("test_compile_report.py:32")
    assert (source, function) == ("if y.sum().item() < 0:", "loss")
    assert reason.startswith("Unsupported Tensor.item() call")
    assert change == "move it out of the compiled function"

    kernels = report.kernels
    assert kernels["launches"].sum() == report.summary["compiled_kernels"] < report.summary["eager_kernels"]
    fused = kernels[kernels["kind"] == "fused"].set_index("name")
    first = fused.loc[next(name for name in fused.index if "gelu" in name)]
    assert {"aten.erf", "aten.exp"} <= set(first["operators"])
    assert any(line.endswith("y = functional.gelu(x @ weight).softmax(-1)") for line in first["lines"])
    assert first["read_bytes"] == 32 * 256 * 4
    assert kernels["share_pct"].sum() == pytest.approx(100)
    first_line = str(report).splitlines()[0]
    assert first_line.startswith("[simulated] 1 graph break, ")
    assert "(modelled), peak memory" in first_line
    assert first_line.endswith("`if y.sum().item() < 0:`: move it out of the compiled function")


def test_a_function_that_is_compiled_already_is_compared_with_its_eager_form():
    with cudalens.virtual.device("h100", values=False):
        compiled = torch.compile(lambda x: (x.sin() + 1).cos(), backend="eager")
        report = cudalens.compile_report(compiled, torch.randn(64, device="cuda"))
    assert (report.summary["eager_kernels"], report.summary["compiled_kernels"]) == (3, 1)
    assert str(report).startswith("[simulated] no graph break, 3 kernels become 1, step ")


def test_a_report_needs_a_device_and_a_known_mode():
    with pytest.raises(ValueError, match="invalid value for mode: 'fast'; expected one of 'default', "):
        cudalens.compile_report(torch.sin, torch.ones(1), mode="fast")  # type: ignore[arg-type]
    if not torch.cuda.is_available():
        with pytest.raises(VirtualDeviceError, match="needs a GPU, and torch sees none"):
            cudalens.compile_report(torch.sin, torch.ones(1))


def test_a_recompilation_names_its_guard_and_the_log_restores_torch():
    before = torch._dynamo.convert_frame.get_and_maybe_log_recompilation_reasons
    compiled = torch.compile(lambda x, scale: x * scale, backend="eager", dynamic=False)
    with CompilerLog() as log:
        compiled(torch.ones(2), 2)
        compiled(torch.ones(2), 3)
    [again] = log.recompilations
    assert again.guards == ("scale == 2",)
    assert torch._dynamo.convert_frame.get_and_maybe_log_recompilation_reasons is before

"""Kernels that real GPUs ran for compiled programs that are public and small: the virtual device launches the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch._dynamo

import cudalens

pytest.importorskip("triton", reason="torch.compile on a virtual device needs Triton")

RECORDED = Path(__file__).parents[5] / "shared" / "recorded"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def recorded_kernels(name: str):
    """The generated kernels of a recorded trace; skips the test where the folder with recordings is absent."""
    path = RECORDED / name
    if not path.exists():
        pytest.skip(f"no recorded trace {path}")
    events = cudalens.load(path).events
    return events[(events["cat"] == "kernel") & events["name"].astype(str).str.startswith("triton_")]


def launched_kernels(call):
    with cudalens.profile(keep=False) as profiled:
        call()
    events = profiled.trace.events
    return events[events["cat"] == "kernel"]


def add_cos_sin(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The first example of PyTorch's tutorial on torch.compile."""
    return torch.sin(x) + torch.cos(y)


def masked_input_and_mask(
    ids: torch.Tensor, start: int, end: int, num_padding: int, added_start: int, added_end: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """vLLM's function of this name (vocab_parallel_embedding.py), which it compiles with ``dynamic=True``."""
    own = (ids >= start) & (ids < end)
    added = (ids >= added_start) & (ids < added_end)
    added_offset = added_start - (end - start) - num_padding
    offset = (start * own) + (added_offset * added)
    is_valid = own | added
    return is_valid * (ids - offset), ~is_valid


def test_the_example_of_the_tutorial_is_the_kernel_with_the_grid_of_an_a100():
    recorded = recorded_kernels("hta/triton_example__triton_example.json.gz")
    with cudalens.virtual.device("a100"):
        x, y = torch.randn(10, 10, device="cuda"), torch.randn(10, 10, device="cuda")
        compiled = torch.compile(add_cos_sin)
        torch.testing.assert_close(compiled(x, y), add_cos_sin(x, y))
        launched = launched_kernels(lambda: compiled(x, y))
    columns = ["name", "grid", "block_dim"]
    assert launched[columns].astype(str).values.tolist() == recorded[columns].astype(str).values.tolist()


def test_the_embedding_of_vllm_is_the_kernel_of_a_b200():
    recorded = recorded_kernels("tracelens/b200__eager_trace.json.gz")
    with cudalens.virtual.device("b200"):
        ids = torch.randint(0, 201_088, (888,), device="cuda", dtype=torch.int32)
        given = (0, 25_136, 0, 201_088, 201_088)
        compiled = torch.compile(masked_input_and_mask, dynamic=True)
        for found, expected in zip(compiled(ids, *given), masked_input_and_mask(ids, *given), strict=True):
            assert torch.equal(found, expected)
        launched = launched_kernels(lambda: compiled(ids, *given))
    assert launched["name"].astype(str).tolist() == recorded["name"].astype(str).tolist()

"""The table of averages as text."""

import pytest
import torch

from cudalens import profile, virtual


@pytest.fixture(scope="module")
def trace():
    with virtual.device("h100"), profile("run", memory=True, shapes=True, flops=True, keep=False) as p:
        x = torch.ones(64, 64, device="cuda")
        for _ in range(3):
            x = x @ x
    return p.trace


def rows_of(text):
    lines = text.splitlines()
    heads = [line for line in lines if "# of Calls" in line]
    assert len(heads) == 1
    rows = lines[2:]
    end = next(k for k, line in enumerate(rows) if line.startswith("Self CPU time total") or "more rows" in line)
    return heads[0], rows[:end]


def test_heads_rows_and_totals(trace):
    head, body = rows_of(trace.table(row_limit=-1))
    for name in ("Name", "Self CPU %", "CPU total", "Self device", "Device Mem", "Total FLOPs"):
        assert name in head
    assert len(body) == len(trace.key_averages())
    assert "Self device time total: " in trace.table()
    assert "Simulated times" in trace.table()


def test_sorted_and_cut(trace):
    _, body = rows_of(trace.table("self_cuda_time_total", 2))
    assert len(body) == 2
    averages = trace.key_averages().sort_values("self_device_ns", ascending=False, kind="stable")
    assert body[0].startswith(str(averages["name"].iloc[0])[:40])
    assert "more rows; row_limit=-1 shows all" in trace.table(row_limit=2)
    num_rows = len(trace.key_averages())
    assert "1 more row; row_limit=-1" in trace.table(row_limit=num_rows - 1)
    assert "more row" not in trace.table(row_limit=num_rows)
    assert trace.table("self_device_time_total", 2) == trace.table("self_device_ns", 2)


def test_other_keys_and_words(trace):
    head, _ = rows_of(trace.table(by=["name", "input_shapes"]))
    assert "input_shapes" in head
    with pytest.raises(ValueError, match="sort_by is 'nonsense'; there are: cpu_time, "):
        trace.table("nonsense")
    with pytest.raises(ValueError, match=r"by holds 'stack:0' \(stack:1 to stack:64\); there are: name, "):
        trace.key_averages(by=["stack:0"])
    with pytest.raises(ValueError, match="names a key twice"):
        trace.key_averages(by=["name", "name"])
    with pytest.raises(ValueError, match="by is empty"):
        trace.key_averages(by=[])

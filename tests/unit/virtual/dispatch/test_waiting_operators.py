"""Operators whose result the host waits for."""

from __future__ import annotations

import torch
from graph_helpers import Log


def test_reading_a_number_is_a_copy_and_no_kernel(h100):
    x = torch.ones(3, device="cuda")
    h100.machine.recorder = log = Log()
    assert x[1].item() == 1
    assert [(work.kind, work.direction) for _, work, _ in log.work] == [("gpu_memcpy", "DtoH")]
    assert [name for name, *_ in log.calls] == ["cudaMemcpyAsync", "cudaStreamSynchronize"]

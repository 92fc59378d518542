"""Some recorded traces, of every kind; opened once for all tests of the process."""

from functools import cache
from pathlib import Path

import pytest

import cudalens

RECORDED = Path(__file__).parents[4] / "shared" / "recorded"
needs_recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded traces at {RECORDED}")

TRACES = (
    "hta/critical_path__simple_add.json.gz",
    "hta/critical_path__cuda_event_sync_multi_stream.json.gz",
    "hta/cpu_only_rank-34.json.gz",
    "hta/nccl_parser_config__nccl_data.json.gz",
    "hta/amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "param_dlrm8/dlrm_worker1_step_12.1694128201556.pt.trace.json",
    "tracelens/h100__gaunernst_bert-small-uncased__1016001.json.gz",
    "tracelens/inference__sglang_decode.json.gz",
    "tracelens/mi210__gpu_only_trace.json.gz",
)


@cache
def opened(file):
    return cudalens.load(RECORDED / file)

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
import pandas as pd
import pytest

from cudalens.frames.limits import Problems
from cudalens.profiler.getters import categories
from cudalens.profiler.launches import Facts, fact_columns, launch_columns

# As Kineto writes the arguments of a kernel, a copy, and a collective, by its own keys.
KERNEL = (
    '{"queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": 12, "registers per thread": 32, '
    '"shared memory": 1024, "blocks per SM": 0.5, "warps per SM": 2.0, "grid": [66,1,1], "block": [128,1,1], '
    '"est. achieved occupancy %": 3, "graph node id": 0}'
)
COPY = '{"device": 0, "stream": 7, "correlation": 13, "bytes": 4096, "memory bandwidth (GB/s)": 1.5}'
COLLECTIVE = (
    '{"Collective name": "allreduce", "Process Group Name": "0", "graph id": 3, "graph node id": 9, '
    '"In msg nelems": 40, "Out msg nelems": 40, "Group size": 2, "dtype": "Float"}'
)


def test_facts_by_kinetos_keys_land_in_their_columns():
    facts = [msgspec.json.decode(text, type=Facts) for text in (KERNEL, COPY, COLLECTIVE)]
    columns = fact_columns(facts, np.array([4, 1, 2]), 6)
    assert [fact.correlation for fact in facts] == [12, 13, None]

    def known(name):
        column = columns[name]
        return {row: column[row] for row in np.flatnonzero(~np.asarray(column.isna())).tolist()}

    assert known("registers") == {4: 32}
    assert known("shared_memory_bytes") == {4: 1024}
    assert known("blocks_per_sm") == {4: 0.5}
    assert known("occupancy_pct") == {4: 3.0}
    assert known("grid") == {4: "[66,1,1]"}
    assert known("block_dim") == {4: "[128,1,1]"}
    assert known("num_bytes") == {1: 4096}
    assert known("collective") == {2: "allreduce"}
    assert known("process_group") == {2: "0"}
    assert [known(name) for name in ("in_elements", "out_elements", "group_size")] == [{2: 40}, {2: 40}, {2: 2}]
    assert known("message_dtype") == {2: "Float"}
    assert known("graph_id") == {2: 3}
    assert known("graph_node_id") == {2: 9}  # and 0, Kineto's word for "no graph", is missing
    assert {str(columns[name].dtype) for name in ("registers", "num_bytes", "blocks_per_sm")} == {
        "Int32",
        "Int64",
        "Float32",
    }


@dataclass(frozen=True)
class Activity:
    """As torch gives one of Kineto's."""

    kind: str
    correlation: int
    start: int
    fields: str

    def type(self):
        return self.kind

    def correlation_id(self):
        return self.correlation

    def timestamp(self):
        return self.start

    def metadata_json(self):
        return self.fields


@dataclass(frozen=True)
class Result:
    activities: list[Activity]

    def trace_activities(self):
        return self.activities


def test_a_range_on_a_stream_has_no_launch_and_takes_no_kernels_facts():
    """Its id is the range's own: it can be the correlation id of a kernel."""
    raw = Result([Activity("gpu_user_annotation", 12, 5, '"stream": 7'), Activity("kernel", 12, 6, KERNEL[1:-1])])
    columns = {
        "cat": pd.Categorical(["gpu_user_annotation", "kernel", "gpu_user_annotation"]),
        "ts": np.array([5, 6, 9]),
        "correlation_id": pd.array([12, 12, 3076], dtype="Int64"),
    }
    problems = Problems()
    found = launch_columns(raw, columns, problems)
    assert problems.to_tuple() == ()
    assert found["registers"].isna().tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("name", "device_type", "expected"),
    [
        ("aten::add", "DeviceType.CPU", "cpu_op"),
        ("cudaLaunchKernel", "DeviceType.CPU", "cuda_runtime"),
        ("hipLaunchKernel", "DeviceType.CPU", "cuda_runtime"),
        ("cuLaunchKernelEx", "DeviceType.CPU", "cuda_driver"),
        ("custom_op", "DeviceType.CPU", "cpu_op"),
        ("Activity Buffer Request", "DeviceType.CPU", "overhead"),
        ("Lazy Function Loading", "DeviceType.CPU", "overhead"),
        ("cudagraph::replay", "DeviceType.CPU", "cpu_op"),
        ("void gemm<float>()", "DeviceType.CUDA", "kernel"),
        ("Memcpy HtoD (Pinned -> Device)", "DeviceType.CUDA", "gpu_memcpy"),
        ("Memset (Device)", "DeviceType.CUDA", "gpu_memset"),
        ("Stream Sync", "DeviceType.CUDA", "cuda_sync"),
    ],
)
def test_categories_are_derived_where_torch_does_not_give_them(name, device_type, expected):
    one = np.zeros(1, np.int32)
    is_not = {getter: (one, [False]) for getter in ("is_user_annotation", "is_python_function")}
    assert categories({"device_type": (one, [device_type])} | is_not, one, [name]).tolist() == [expected]


@pytest.mark.parametrize(
    ("device_type", "expected"), [("DeviceType.CPU", "user_annotation"), ("DeviceType.CUDA", "gpu_user_annotation")]
)
def test_annotations_are_known_by_their_mark(device_type, expected):
    one = np.zeros(1, np.int32)
    texts = {"device_type": (one, [device_type]), "is_user_annotation": (one, [True])}
    texts["is_python_function"] = (one, [False])
    assert categories(texts, one, ["mine"]).tolist() == [expected]


def test_waits_for_cuda_events_name_their_record_and_unknown_ones_are_missing():
    texts = (
        '{"stream": 24, "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 1385, "correlation": 9}',
        '{"stream": -1, "wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": -1, "correlation": 24}',
    )
    columns = fact_columns([msgspec.json.decode(text, type=Facts) for text in texts], np.array([0, 1]), 2)
    assert (columns["wait_stream"][0], columns["wait_record_id"][0]) == (20, 1385)
    assert columns["wait_stream"].isna().tolist() == columns["wait_record_id"].isna().tolist() == [False, True]

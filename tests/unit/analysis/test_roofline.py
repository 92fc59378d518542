"""roofline by example."""

import pandas as pd
import pytest
from made_traces import host, launch, trace_of, work
from recorded_traces import TRACES, needs_recorded, opened

from cudalens.analysis import Ceilings, roofline

CEILINGS = Ceilings(
    device="made up",
    source="measured",
    flops_per_s={"float32": 1e12, "tf32": 8e12, "bfloat16": 16e12},
    copy_bytes_per_s=1e12,
    write_bytes_per_s=0.5e12,
)


def op(number, name, shapes, dtypes, dur, kernel="gemm", **more):
    at = 100 * number
    rows = [host(at, 90, name, shapes=shapes, dtypes=dtypes, **more), launch(at + 10, 5, number)]
    return [*rows, work(10_000 * number, dur, kernel, call=number)]


MM = ("aten::mm", "[[100,200],[200,50]]", '["float","float"]')


def test_a_matrix_product_against_its_roof():
    found = roofline(trace_of(op(1, *MM, 2000) + op(2, *MM, 2000)), CEILINGS).iloc[0]
    assert (found["count"], found["gpu_ns"], found["dtype"]) == (2, 4000, "float32")
    assert found["flops"] == 2 * 2 * 100 * 200 * 50
    assert found["num_bytes"] == 2 * 4 * (100 * 200 + 200 * 50 + 100 * 50)
    assert found["flops_per_s"] == pytest.approx(1e12)
    assert found["bound"] == "compute"
    assert (found["attainable_flops_per_s"], found["roof_pct"]) == (1e12, pytest.approx(100))


def test_tensor_cores_have_a_ceiling_of_their_own():
    found = roofline(trace_of(op(1, *MM, 2000, "ampere_sgemm_tf32_128x128")), CEILINGS).iloc[0]
    assert found["dtype"] == "tf32"
    assert found["peak_flops_per_s"] == 8e12
    assert found["bound"] == "compute"


def test_little_work_for_its_bytes_is_bound_by_memory():
    rows = op(1, "aten::bmm", "[[4,1,64],[4,64,64]]", '["c10::BFloat16","c10::BFloat16"]', 1000)
    found = roofline(trace_of(rows), {0: CEILINGS}).iloc[0]
    num_bytes = 2 * 4 * (64 + 64 * 64 + 64)
    assert (found["flops"], found["num_bytes"], found["bound"]) == (2 * 4 * 64 * 64, num_bytes, "memory")
    assert found["attainable_flops_per_s"] == pytest.approx(found["intensity"] * 1e12)
    assert found["roof_pct"] == pytest.approx(100 * num_bytes / 1000e-9 / 1e12)


def test_recorded_operations_win_and_time_beneath_counts():
    rows = op(1, "aten::conv2d", "[[1,3,8,8],[4,3,3,3]]", '["float","float"]', 500, flops=7777)
    rows.append(host(105, 50, "aten::cudnn_convolution", shapes="[[1,3,8,8]]", dtypes='["float"]'))
    frame = roofline(trace_of(rows))
    assert frame["name"].tolist() == ["aten::conv2d"]
    assert frame["flops"].tolist() == [7777]
    assert frame["roof_pct"].isna().all()
    assert frame["flops_per_s"].tolist() == [pytest.approx(7777 / 500e-9)]


@pytest.mark.parametrize(
    ("shapes", "dtypes"),
    [
        (None, None),
        ("[[2,2]]", '["float","float"]'),
        ("[[[2,2],[3]]]", '["TensorList"]'),
        ("[[2,-2]]", '["float"]'),
        ("{}", "7"),
        ("[[2,", "["),
        ("[[9000000000000000000,9000000000000000000]]", '["float"]'),
    ],
)
def test_what_shapes_do_not_give_is_missing(shapes, dtypes):
    found = roofline(trace_of(op(1, "aten::mm", shapes, dtypes, 10)), CEILINGS).iloc[0]
    assert found["num_bytes"] is pd.NA
    assert found["flops"] is pd.NA
    assert found["roof_pct"] is pd.NA


def test_ceilings_come_with_the_trace():
    rows = op(1, *MM, 2000)
    trace = trace_of(rows, extra={"ceilings": CEILINGS.to_json()})
    assert roofline(trace)["peak_bytes_per_s"].tolist() == [1e12]
    by_device = trace_of(rows, extra={"ceilings": f'{{"0": {CEILINGS.to_json()}}}'})
    assert roofline(by_device)["peak_bytes_per_s"].tolist() == [1e12]
    assert roofline(trace, {1: CEILINGS})["peak_bytes_per_s"].isna().all()
    with pytest.raises(
        ValueError, match=r"extra\['ceilings'\] of 't' holds no ceilings .*; expected the text of Ceilings"
    ):
        roofline(trace_of(rows, extra={"ceilings": '{"0": 7}'}))


def test_copies_and_collectives_are_no_arithmetic():
    rows = op(1, "aten::copy_", "[[4]]", '["float"]', 5, "Memset (Device)")
    assert not len(roofline(trace_of(rows)))


@needs_recorded
@pytest.mark.parametrize("file", TRACES)
def test_recorded_traces(file):
    frame = roofline(opened(file), CEILINGS)
    assert (frame["gpu_ns"] >= 0).all()
    assert (frame["intensity"].dropna() > 0).all()

"""roofline by example."""

import json

import pandas as pd
import pytest
from made_traces import host, launch, trace_of, work
from recorded_traces import TRACES, needs_recorded, opened

from cudalens.analysis import Ceilings, roofline
from cudalens.frames import DeviceInfo

A100 = DeviceInfo(0, "NVIDIA A100-PCIE-40GB", "8.0", 42_297_524_224, 108)
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
    assert found["ceiling_ns"] == pytest.approx(found["flops"] / 1e12 * 1e9)


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


BF16 = '"c10::BFloat16"'
Q, K, V = "[2,8,100,64]", "[2,8,300,64]", "[2,8,300,32]"
SCORES = 2 * 8 * 100 * 300
#: Operator, shapes, number of tensors, and by hand: operations, elements read and written.
BY_HAND = [
    ("aten::_scaled_dot_product_flash_attention", f"{Q},{K},{V}", 3, 2 * SCORES * 96,
     16 * (6400 + 19200 + 9600 + 3200)),
    ("aten::_flash_attention_forward", "[2,100,8,64],[2,300,8,64],[2,300,8,64]", 3, 2 * SCORES * 128, 16 * 51200),
    ("aten::_scaled_dot_product_efficient_attention_backward", f"[2,8,100,32],{Q},{K},{V},[2,8,100,32]", 5,
     2 * SCORES * (3 * 64 + 2 * 32), 16 * (3200 + 6400 + 19200 + 9600 + 3200 + 6400 + 19200 + 9600)),
    ("aten::native_layer_norm", "[4,197,768],[768],[768]", 3, None, 2 * 4 * 197 * 768 + 2 * 768),
    ("aten::_softmax", "[16,100,300]", 1, None, 2 * 16 * 100 * 300),
    ("aten::_scaled_dot_product_flash_attention", f"{Q},[2,8,300,32],{V}", 3, None, 16 * (6400 + 9600 + 9600)),
    ("aten::_flash_attention_forward", "[200,8,64],[600,8,64],[600,8,64]", 3, None, 8 * 64 * 1400),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shapes", "number", "flops", "elements"), BY_HAND)
def test_operations_and_bytes_of_operators_by_hand(name, shapes, number, flops, elements):
    found = roofline(trace_of(op(1, name, f"[{shapes}]", f"[{','.join([BF16] * number)}]", 1000))).iloc[0]
    assert found["flops"] == flops if flops is not None else pd.isna(found["flops"])
    assert found["num_bytes"] == 2 * elements


def test_an_embedding_reads_the_selected_rows_of_its_table():
    rows = op(1, "aten::embedding", "[[50000,64],[8,100]]", '["float","long int"]', 1000)
    assert roofline(trace_of(rows))["num_bytes"].tolist() == [2 * 4 * 800 * 64 + 8 * 800]


def test_operations_equal_those_that_torch_counts():
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    q, k, v = (torch.ones(2, 4, n, 64, dtype=torch.bfloat16, device="meta", requires_grad=True) for n in (30, 50, 50))
    with FlopCounterMode(display=False) as counted:
        torch.ops.aten._scaled_dot_product_flash_attention(q, k, v)[0]
    shapes = "[[2,4,30,64],[2,4,50,64],[2,4,50,64]]"
    rows = op(1, "aten::_scaled_dot_product_flash_attention", shapes, f"[{BF16},{BF16},{BF16}]", 100)
    assert roofline(trace_of(rows))["flops"].tolist() == [counted.get_total_flops()]


def test_the_usual_time_of_a_measured_product():
    shapes, dtypes = "[[1024,512],[512,4096]]", '["float","float"]'
    rows = op(1, "aten::mm", shapes, dtypes, 700_000) + op(200, "aten::mm", shapes, dtypes, 348_341)
    found = roofline(trace_of(rows, devices=(A100,))).iloc[0]
    assert found["expected_ns"] == pytest.approx(2 * 348_341, rel=0.05)  # as measured (NeuSight)
    assert found["slowdown"] == pytest.approx(1.5, rel=0.05)


@pytest.mark.parametrize(
    ("name", "dtype", "kernel", "sms"),
    [
        ("aten::mm", "double", "gemm", 108),
        ("aten::mm", "float", "ampere_s1688gemm", 108),
        ("aten::mm", "float", "gemm", 104),
        ("aten::add", "float", "add", 108),
    ],
)
def test_no_usual_time_of_what_was_not_measured(name, dtype, kernel, sms):
    device = DeviceInfo(0, "a GPU", "8.0", 42_297_524_224, sms)
    rows = op(1, name, "[[512,512],[512,512]]", f'["{dtype}","{dtype}"]', 9_000, kernel)
    found = roofline(trace_of(rows, devices=(device,))).iloc[0]
    assert found["expected_ns"] is pd.NA
    assert found["slowdown"] is pd.NA


@pytest.mark.parametrize(("inner", "is_known"), [(512, True), (511, False), (516, False)])
def test_products_of_half_precision_have_a_usual_time_only_if_their_rows_are_aligned(inner, is_known):
    rows = op(1, "aten::mm", f"[[1024,{inner}],[{inner},4096]]", f"[{BF16},{BF16}]", 50_000)
    h100 = DeviceInfo(0, "NVIDIA H100", "9.0", 85_018_279_936, 132)
    found = roofline(trace_of(rows, devices=(h100,)))["expected_ns"]
    assert found.notna().tolist() == [is_known]  # strides, which decide it otherwise, are not recorded


@pytest.mark.parametrize(
    ("name", "shapes", "values"),
    [
        ("aten::mm", "[5, 6]", None),
        ("aten::mm", '["ab", "bd"]', None),
        ("aten::mm", "[[2.5, 4], [4, 8]]", None),
        ("aten::mm", "[[-4, 8], [8, 4]]", None),
        ("aten::mm", f"[[{10**30}, 8], [8, 4]]", None),
        ("aten::bmm", f"[[{1 << 43}, 64, 1], [{1 << 43}, 1, 64]]", None),
        ("aten::mm", "[[8, {}], [{}, 8]]", None),
        ("aten::_flash_attention_forward", '[[1, 8, "2", 64], [1, 8, 2, 64], [1, 8, 2, 64]]', None),
        ("aten::_softmax", '[["8", 8], 1, 1]', '["", "1", "False"]'),
        ("aten::native_layer_norm", "[[2], [], [5]]", None),
        ("aten::native_layer_norm", "[[[4]], [], [4]]", None),
    ],
)
def test_shapes_of_a_damaged_file_have_no_usual_time(name, shapes, values):
    dtypes = json.dumps(["float"] * len(json.loads(shapes)))
    rows = op(1, name, shapes, dtypes, 9_000, concrete_inputs=values)
    assert roofline(trace_of(rows, devices=(A100,)))["expected_ns"].tolist() == [pd.NA]


def test_softmax_and_layer_norm_have_usual_times_in_the_measured_dtype_only():
    def usual(dtype):
        norm = op(1, "aten::native_layer_norm", "[[8192,1024],[],[1024]]", f'["{dtype}","","{dtype}"]', 9_000)
        values = '["", "-1", "False"]'
        softmax = op(2, "aten::_softmax", "[[8192,1024],[],[]]", f'["{dtype}","",""]', 9_000, concrete_inputs=values)
        return roofline(trace_of(norm + softmax, devices=(A100,)))["expected_ns"].notna().tolist()

    assert usual("float") == [True, True]
    assert usual("c10::BFloat16") == [False, False]

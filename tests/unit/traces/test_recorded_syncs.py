"""Waits for the GPU in recorded traces of real GPUs. The expected numbers were read from the rows of the files."""

import pytest
from chrome import RECORDED, needs_recorded

import cudalens
from cudalens.analysis import syncs

pytestmark = needs_recorded


@pytest.fixture(scope="module")
def load():
    known = {}

    def load(name):
        if name not in known:
            known[name] = cudalens.load(RECORDED / name)
        return known[name]

    return load


def groups(trace):
    found = syncs(trace)
    return list(zip(found["kind"], found["op"], found["count"], strict=True))


def test_a_truth_test_inside_a_library_is_found_with_its_function(load):
    trace = load("tracelens/h100__gaunernst_bert-small-uncased__1016001.json.gz")
    (row,) = trace.syncs[trace.syncs["op"] == "aten::is_nonzero"].to_dict("records")
    assert (row["kind"], row["place"]) == (
        "truth test",
        "_prepare_4d_attention_mask_for_sdpa (transformers/modeling_attn_mask_utils.py)",
    )
    assert (row["dur"], row["num_bytes"]) == (15_640, 1)  # 7.76 µs of copying, 7.64 of waiting, 0.24 between
    of_stack = trace.stacks[trace.stacks["stack"] == row["stack"]]
    assert of_stack["function"].iloc[0] == "_prepare_4d_attention_mask_for_sdpa"


def test_the_wait_of_torchs_profiler_is_left_out_and_the_programs_stays(load):
    trace = load("tracelens/h100__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz")
    assert (trace.events["name"] == "cudaDeviceSynchronize").sum() == 2
    waits = trace.syncs[trace.syncs["kind"] == "device synchronize"]
    assert waits["dur"].tolist() == [14_102_530]


def test_blocking_copies_of_a_training_loop(load):
    trace = load("param/resnet_kineto.json.gz")
    assert groups(trace) == [("pageable copy to device", "aten::to", 61)]
    calls = trace.events[trace.events["name"] == "cudaStreamSynchronize"]
    assert len(calls) == 61
    assert (trace.syncs["call"] == "cudaMemcpyAsync + cudaStreamSynchronize").all()


def test_old_traces_name_the_line_by_the_stacks_of_operators(load):
    trace = load("kineto/resnet50_workers0.1623143089861.pt.trace.json.gz")
    (row,) = syncs(trace).to_dict("records")
    assert (row["place"], row["count"]) == ("resnet50_profiler_api.py:44", 12)


def test_rocm_copies_and_waits_in_one_call(load):
    trace = load("tracelens/mi300__google_owlv2-large-patch14-ensemble__1016001.json.gz")
    worst = syncs(trace).iloc[0]
    assert (worst["kind"], worst["count"]) == ("blocking copy to device", 5)
    assert worst["place"] == "box_predictor (transformers/models/owlv2/modeling_owlv2.py)"
    assert (trace.events["name"] == "hipMemcpyWithStream").sum() == 80
    assert (trace.syncs["call"] == "hipMemcpyWithStream").sum() == 80


def test_reads_of_numbers_inside_an_operator_of_a_library(load):
    trace = load("hta/trace_diff__control.json.gz")
    assert ("item", "fbgemm::permute_sparse_features", 6) in groups(trace)
    assert len(trace.syncs) == (trace.events["name"] == "cudaStreamSynchronize").sum()


def test_events_that_the_host_waits_for(load):
    trace = load("hta/nccl_parser_config__nccl_data.json.gz")
    assert groups(trace) == [("event synchronize", None, 24)]


def test_setting_up_a_library_is_no_wait_for_the_gpu(load):
    trace = load("hta/critical_path__simple_add.json.gz")
    events = trace.events
    released = events[events["name"] == "cudaFree"]
    assert released["dur"].max() > 5e9  # cuDNN's, while it sets itself up
    assert trace.syncs["dur"].max() < 1e9


@pytest.mark.parametrize("name", ["hta/cpu_only_rank-34.json.gz", "hta/ns_resolution_rank-0.json.gz"])
def test_nothing_is_found_where_nothing_blocks(load, name):
    assert load(name).syncs.empty


@pytest.mark.parametrize(
    "name",
    [
        "hta/trace_diff__control.json.gz",
        "tracelens/inference__xdit_flux1_capture.json.gz",
        "param/resnet_kineto.json.gz",
    ],
)
def test_every_row_names_its_event(load, name):
    trace = load(name)
    events, waits = trace.events, trace.syncs
    calls = events.iloc[waits["event"].to_numpy(dtype="int64")]
    start, end = calls["ts"].to_numpy(), (calls["ts"] + calls["dur"]).to_numpy()
    assert (waits["ts"].to_numpy() <= start).all()
    assert ((waits["ts"] + waits["dur"]).to_numpy(dtype="int64") >= end).all()
    assert (waits["tid"].to_numpy(dtype="int64") == calls["tid"].to_numpy(dtype="int64")).all()
    assert (waits["gpu_dur"] <= waits["dur"]).all()
    assert waits["ts"].is_monotonic_increasing


def test_waits_are_saved_with_the_rest(load, tmp_path):
    trace = load("tracelens/h100__gaunernst_bert-small-uncased__1016001.json.gz")
    again = cudalens.load(trace.save(tmp_path / "run.cudalens"))
    assert again.syncs.equals(trace.syncs)

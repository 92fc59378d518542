"""Render stages and hardware counters of Perfetto files become device work and counters."""

import pytest
from chrome import column, load_bytes, problems

import cudalens
from cudalens.traces.protobuf.perfetto import _SCHEMA
from cudalens.traces.protobuf.wire import message_classes
from cudalens.views.sections import verdict

KERNEL, COPY, SET, HOST_NODE, STREAM = 1, 2, 3, 6, 100


class File:
    """A Perfetto file as PyTorch's profiler writes it: names first, then slices, stages and counters."""

    def __init__(self):
        classes = message_classes("x", "perfetto", _SCHEMA | {"Trace": {"packet": (1, "*TracePacket")}})
        self.trace = classes["Trace"]()
        interned = self.packet(0, sequence_flags=1).interned_data
        stages = {KERNEL: "Kernel", COPY: "Memcpy", SET: "Memset", HOST_NODE: "HostNode", STREAM: "[0007] stream 7"}
        for iid, name in stages.items():
            interned.gpu_specifications.add(iid=iid, text=name.encode())
        interned.compute_kernels.add(iid=1, text=b"void gemm<float>(float*)")
        interned.compute_kernels.add(iid=2, name=b"relu")
        for iid, name in ((1, b"registers_per_thread"), (2, b"shared_mem_dynamic")):
            interned.compute_arg_names.add(iid=iid, text=name)
        counters = interned.gpu_counter_descriptors.add(iid=1, gpu_id=0).counter_descriptor
        counters.specs.add(counter_id=0, name=b"Power (W)")
        counters.specs.add(counter_id=1, name=b"SM Active (%)")

    def packet(self, ts, **facts):
        return self.trace.packet.add(timestamp=ts, trusted_packet_sequence_id=1, **facts)

    def call(self, name, start, end, *launched, correlation=None):
        event = self.packet(start).track_event
        event.type, event.track_uuid, event.name = 1, 9, name.encode()
        event.categories.append(b"cuda_runtime")
        event.gpu_correlation.render_stage_submission_event_ids.extend(launched)
        if correlation is not None:
            event.debug_annotations.add(name=b"correlation", int_value=correlation)
        event = self.packet(end).track_event
        event.type, event.track_uuid = 2, 9
        return self

    def stage(self, ts, dur, event_id, stage=KERNEL, kernel=0, waits=(), extra=(), gpu=0):
        event = self.packet(ts).gpu_render_stage_event
        event.event_id, event.duration, event.gpu_id = event_id, dur, gpu
        event.hw_queue_iid, event.stage_iid = STREAM, stage
        event.event_wait_ids.extend(waits)
        if kernel:
            event.kernel_iid = kernel
            event.launch.grid_size.x, event.launch.grid_size.y = 8, 2
            event.launch.workgroup_size.x = 128
            event.launch.args.add(name_iid=1, uint_value=40)
            event.launch.args.add(name_iid=2, uint_value=1024)
        for name, value in dict(extra).items():
            event.extra_data.add(name=name.encode(), value=str(value).encode())
        return self

    def load(self, tmp_path):
        return load_bytes(tmp_path, self.trace.SerializeToString(), "run.pftrace")


def test_kernels_copies_and_sets_are_device_work(tmp_path):
    trace = (
        File()
        .call("cudaLaunchKernel", 100, 110, 1, correlation=41)
        .stage(200, 50, 1, kernel=1)
        .stage(300, 20, 2, stage=COPY, extra={"bytes": 4096, "correlation": 42})
        .stage(330, 5, 3, stage=SET, extra={"bytes": 16})
        .load(tmp_path)
    )
    assert problems(trace) == {}
    found = trace.events.set_index("name")
    assert found["cat"].to_dict() == {
        "cudaLaunchKernel": "cuda_runtime",
        "void gemm<float>(float*)": "kernel",
        "Memcpy": "gpu_memcpy",
        "Memset": "gpu_memset",
    }
    gemm = found.loc["void gemm<float>(float*)"]
    assert (gemm["ts"], gemm["dur"], gemm["device"], gemm["stream"], gemm["launch"]) == (200, 50, 0, 7, 0)
    assert (gemm["grid"], gemm["block_dim"], gemm["registers"]) == ("[8,2,1]", "[128,1,1]", 40)
    assert gemm["shared_memory_bytes"] == 1024
    assert found.loc["Memcpy", "num_bytes"] == 4096
    assert "GPU busy 56 %" in verdict.verdict(trace)


def test_the_nodes_of_a_graph_have_its_launch_through_the_nodes_that_they_wait_for(tmp_path):
    trace = (
        File()
        .call("cudaGraphLaunch", 100, 110, 1)
        .stage(200, 50, 1, kernel=1, extra={"graph id": 3, "graph node id": 1})
        .stage(250, 50, 2, kernel=2, waits=[1])
        .stage(300, 50, 3, kernel=1, waits=[2])
        .load(tmp_path)
    )
    assert column(trace, "launch") == [None, 0, 0, 0]
    assert column(trace, "graph_id")[1] == 3
    assert column(trace, "name")[2] == "relu"


def test_a_host_function_of_a_graph_is_named_and_is_not_work_of_the_gpu(tmp_path):
    trace = (
        File()
        .stage(0, 10, 1, kernel=1)
        .stage(10, 980, 2, stage=HOST_NODE, waits=[1], extra={"host fn": "free_buffers"})
        .stage(990, 10, 3, kernel=1, waits=[2])
        .load(tmp_path)
    )
    assert column(trace, "name")[1] == "host function free_buffers"
    assert "GPU busy 2.0 %" in verdict.verdict(trace)


def test_hardware_counters_are_in_the_frame_of_counters(tmp_path):
    file = File().stage(0, 10, 1, kernel=1)
    for ts, number, value in ((5, 0, 310.5), (6, 1, 88), (9, 77, 1)):
        event = file.packet(ts).gpu_counter_event
        event.counter_descriptor_iid = 1
        event.counters.add(counter_id=number, double_value=value)
    counters = file.load(tmp_path).counters
    assert counters["name"].tolist() == ["Power (W)", "SM Active (%)", "GPU counter 77"]
    assert counters["value"].tolist() == [310.5, 88, 1]
    assert set(counters["process"]) == {"GPU 0"}


def test_two_gpus_are_two_devices(tmp_path):
    trace = File().stage(0, 10, 1, kernel=1).stage(5, 10, 2, kernel=1, gpu=1).load(tmp_path)
    assert column(trace, "device") == [0, 1]


def test_stages_that_wait_for_each_other_end(tmp_path):
    trace = File().stage(0, 10, 1, kernel=1, waits=[2]).stage(10, 10, 2, kernel=1, waits=[1]).load(tmp_path)
    assert column(trace, "launch") == [None, None]


@pytest.mark.parametrize("value", ["", "nan", "-1", str(1 << 80), "0x10"])
def test_extra_data_that_is_not_a_number_is_left_out(tmp_path, value):
    trace = File().stage(0, 10, 1, stage=COPY, extra={"bytes": value, "correlation": value}).load(tmp_path)
    assert column(trace, "num_bytes") == [None]


def test_older_files_describe_queues_and_stages_in_an_event(tmp_path):
    file = File()
    specs = file.packet(0).gpu_render_stage_event.specifications
    specs.hw_queue.add(name=b"compute queue 3")
    specs.stage.add(name=b"dispatch")
    event = file.packet(10).gpu_render_stage_event
    event.event_id, event.duration, event.hw_queue_id, event.stage_id = 1, 5, 0, 0
    trace = file.load(tmp_path)
    assert column(trace, "name") == ["dispatch"]
    assert column(trace, "stream") == [3]
    assert isinstance(trace, cudalens.Trace)


def test_packets_that_are_not_read_are_counted(tmp_path):
    file = File().stage(0, 10, 1, kernel=1)
    other = message_classes("x", "perfetto", {"TracePacket": {"ftrace_events": (1, "bytes")}})["TracePacket"]
    more = message_classes("x", "perfetto", {"Trace": {"packet": (1, "*bytes")}})["Trace"]()
    more.packet.extend([other(ftrace_events=b"x").SerializeToString()] * 3)
    trace = load_bytes(tmp_path, file.trace.SerializeToString() + more.SerializeToString(), "run.pftrace")
    assert trace.info.extra["unread"] == "3 packets of ftrace"
    assert "Not read: 3 packets of ftrace" in verdict.notes(trace)

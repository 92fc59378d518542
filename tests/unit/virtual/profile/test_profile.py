"""A profile on the virtual device: the program's call tree at virtual times, with the device's work."""

import re
import threading
from collections import Counter
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.profiler import record_function

import cudalens
from cudalens.frames import GPU_ACTIVITIES, RUNTIME_CATEGORIES
from cudalens.views.timeline.svg import timeline_svg
from cudalens.virtual import device

HOST = ("cpu_op", "user_annotation")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


class Training:
    """A model with its optimizer, and steps of it."""

    def __init__(self, place):
        torch.manual_seed(0)
        self.model = Net().to(place)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), foreach=True)
        self.x = torch.randn(5, 8).to(place)

    def step(self):
        with record_function("forward"):
            loss = self.model(self.x).square().mean()
        with record_function("backward"):
            loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def traced_step(place, **options):
    """The Trace of a second step; the first step warms up lazily created state and caches."""
    training = Training(place)
    training.step()
    with cudalens.profile("step", keep=False, **options) as run:
        training.step()
    return run.trace


@pytest.fixture(scope="module")
def step():
    """A step on a virtual H100, profiled with everything."""
    with device("h100"):
        return traced_step("cuda", memory=True, shapes=True, stacks=True, modules=True, flops=True)


def of(trace, *categories):
    return trace.events[trace.events["cat"].isin(categories)]


def of_the_program(trace):
    """Rows without those of other Python threads of this process, which torch's stack tracer also records."""
    events = trace.events
    thread = events.loc[events["cat"] == "cpu_op", "tid"].iloc[0]
    return events[events["device"].notna() | (events["tid"] == thread)]


def names_of(trace, *categories):
    return Counter(of(trace, *categories)["name"].astype(str))


def ends(events):
    return events["ts"] + events["dur"]


def above(trace, row, *categories):
    """Names of the rows that enclose a row, innermost first."""
    found, events = [], trace.events
    row = events.at[row, "parent"]
    while row is not pd.NA:
        if events.at[row, "cat"] in categories:
            found.append(str(events.at[row, "name"]))
        row = events.at[row, "parent"]
    return found


def enclosed_names(trace):
    """The name of each row of the host, with those of the rows that enclose it, innermost first."""
    rows = of(trace, *HOST).index
    return [(str(trace.events.at[row, "name"]), *above(trace, row, *HOST)) for row in rows]


#: Pairs of an operator and the one around it that the training step has on the CPU and not on a GPU.
ONLY_ON_THE_CPU = {
    ("aten::to", "aten::mul"),
    ("aten::to", "aten::div"),
    ("aten::fill_", "aten::sum"),
    ("aten::sum", "aten::mean"),
    ("aten::div_", "aten::mean"),
    ("aten::copy_", "aten::addmm"),
}


def is_only_on_the_cpu(names):
    """Whether a row is inside of an operator that a CPU kernel calls and a CUDA kernel does not call."""
    if "aten::resolve_conj" in names:
        return True
    return any(
        (inner, outer) in ONLY_ON_THE_CPU or outer.startswith("aten::_foreach_") for inner, outer in pairwise(names)
    )


class TestTheHostsRows:
    def test_the_operators_are_those_of_the_program(self, step):
        plain = [names[0] for names in enclosed_names(traced_step("cpu")) if not is_only_on_the_cpu(names)]
        # The optimizer adds to the steps on the host, where a list of tensors needs an operator for each.
        assert names_of(step, *HOST) - Counter({"aten::add_": 4}) == Counter(plain)
        assert not [name for name in step.events["name"].cat.categories if "Dispatch" in name or "#cudalens" in name]

    def test_they_enclose_each_other_as_on_the_cpu(self, step):
        seen, plain = enclosed_names(step), enclosed_names(traced_step("cpu"))
        assert not [names for names in seen if is_only_on_the_cpu(names) and "aten::_foreach_add_" not in names]
        expected = Counter(names for names in plain if not is_only_on_the_cpu(names))
        assert Counter(names for names in seen if "aten::add_" not in names) == expected

    def test_no_time_of_a_real_clock_is_in_it(self, step):
        events, info = step.events, step.info
        assert 0 < info.started_ns < info.ended_ns < 10**10
        assert events["ts"].min() >= info.started_ns
        host = events[events["device"].isna()]
        assert ends(host).max() <= info.ended_ns
        assert step.memory["ts"].between(info.started_ns, info.ended_ns).all()

    def test_parents_enclose_their_children(self, step):
        inner = of_the_program(step).dropna(subset="parent")
        outer = step.events.loc[inner["parent"].astype(np.int64)]
        assert (outer["ts"].to_numpy() <= inner["ts"].to_numpy()).all()
        assert (ends(outer).to_numpy() >= ends(inner).to_numpy()).all()
        assert (outer["tid"].to_numpy() == inner["tid"].to_numpy()).all()

    def test_siblings_do_not_overlap(self, step):
        mine = of_the_program(step)
        host = mine[mine["device"].isna() & ~mine["is_instant"]]
        for _, rows in host.groupby(host["parent"].fillna(-1)):
            rows = rows.sort_values(["ts", "dur"])
            assert (rows["ts"].to_numpy()[1:] >= ends(rows).to_numpy()[:-1]).all()

    def test_shapes_flops_and_modules_are_those_of_the_program(self, step):
        events = step.events
        addmm = events[(events["name"] == "aten::addmm")]
        assert addmm["shapes"].tolist() == ["[[16],[5,8],[8,16],[],[]]", "[[4],[5,16],[16,4],[],[]]"]
        assert addmm["flops"].tolist() == [2 * 5 * 8 * 16, 2 * 5 * 16 * 4]
        assert [str(module).split(".")[-1] for module in addmm["module"]] == ["Linear_0", "Linear_1"]

    def test_stacks_are_those_of_the_program_alone(self, step):
        stacks = step.stacks.set_index("stack")
        addmm = step.events[step.events["name"] == "aten::addmm"].iloc[0]
        functions = stacks.loc[addmm["stack"], "function"].astype(str).tolist()
        assert functions[0] == "<built-in function linear>"
        assert "step" in functions
        assert not step.stacks["file"].astype(str).str.contains("virtual/").any()
        python = names_of(step, "python_function")
        assert not [name for name in python if "cudalens/virtual/" in name or "__torch_dispatch__" in name]

    def test_device_work_has_the_stack_and_the_module_of_its_launch(self, step):
        events = step.events
        kernel = events[(events["cat"] == "kernel") & events["name"].astype(str).str.contains("addmm")].iloc[0]
        op = events[events["name"] == "aten::addmm"].iloc[0]
        assert (kernel["stack"], kernel["module"]) == (op["stack"], op["module"])

    def test_external_ids_are_numbers_from_1_in_order_of_time(self, step):
        ids = of(step, *HOST)["external_id"].tolist()
        assert ids == list(range(1, len(ids) + 1))


class TestTheDevicesRows:
    def test_every_kernel_has_its_launch_inside_of_its_operator(self, step):
        events, kernels = step.events, of(step, "kernel")
        assert len(kernels) > 15
        launches = events.loc[kernels["launch"].astype(np.int64)]
        assert set(launches["name"]) == {"cudaLaunchKernel"}
        assert launches["correlation_id"].tolist() == kernels["correlation_id"].tolist()
        ops = events.loc[launches["parent"].astype(np.int64)]
        assert set(ops["cat"]) == {"cpu_op"}
        assert ops["external_id"].tolist() == launches["external_id"].tolist() == kernels["external_id"].tolist()
        assert (kernels["ts"].to_numpy() >= ends(launches).to_numpy()).all()

    def test_a_stream_does_one_thing_at_a_time(self, step):
        kernels = of(step, *GPU_ACTIVITIES).sort_values("ts")
        assert (kernels["ts"].to_numpy()[1:] >= ends(kernels).to_numpy()[:-1]).all()
        assert set(kernels["stream"]) == {7}
        assert set(kernels["device"]) == {0}

    def test_copies_record_bytes_and_direction_and_the_host_waits_for_them(self):
        with device("h100"):
            x = torch.arange(1000.0)
            with cudalens.profile(keep=False) as run:
                y = x.cuda()
                y.pow(2).cpu()
        copies = of(run.trace, "gpu_memcpy")
        assert copies["name"].tolist() == ["Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"]
        assert copies["num_bytes"].tolist() == [4000, 4000]
        for row in copies["launch"]:
            assert above(run.trace, row, "cpu_op") == ["aten::copy_", "aten::_to_copy"]
        sync = of(run.trace, "cuda_sync")
        assert sync["name"].tolist() == ["Stream Sync", "Stream Sync"]
        assert (ends(sync).to_numpy() >= ends(copies).to_numpy()).all()
        calls = of(run.trace, *RUNTIME_CATEGORIES)
        assert names_of(run.trace, "cuda_runtime")["cudaStreamSynchronize"] == 2
        assert calls["correlation_id"].is_unique

    def test_a_factory_takes_memory_in_empty_and_launches_in_what_fills_it(self):
        with device("h100"), cudalens.profile(keep=False) as run:
            torch.randn(1000, device="cuda")
        calls = of(run.trace, "cuda_runtime")
        where = {str(row["name"]): above(run.trace, at, "cpu_op") for at, row in calls.iterrows()}
        assert where["cudaMalloc"] == ["aten::empty", "aten::randn"]
        assert where["cudaLaunchKernel"] == ["aten::normal_", "aten::randn"]

    def test_streams_and_waits(self):
        with device("h100"):
            x, side = torch.randn(512, 512, device="cuda"), torch.cuda.Stream()
            torch.cuda.synchronize()
            with cudalens.profile(keep=False) as run:
                y = x @ x
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    y @ y
                side.synchronize()
        first, second = of(run.trace, "kernel").itertuples()
        assert (first.stream, second.stream) == (7, 20)
        assert second.ts >= first.ts + first.dur
        wait, sync = of(run.trace, "cuda_sync").itertuples()
        assert (wait.name, wait.stream, wait.ts + wait.dur) == ("Stream Wait Event", 20, first.ts + first.dur)
        assert (sync.name, sync.stream) == ("Stream Sync", 20)
        assert sync.ts + sync.dur >= second.ts + second.dur
        assert run.trace.events.at[wait.launch, "name"] == "cudaStreamWaitEvent"

    def test_a_replay_is_one_launch_and_its_nodes(self):
        with device("h100"):
            x, graph = torch.zeros(64, device="cuda"), torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                (x + 1).mul_(2)
            with cudalens.profile(keep=False, memory=True) as run:
                graph.replay()
        assert names_of(run.trace, "cpu_op") == {}
        kernels = of(run.trace, "kernel")
        assert kernels["graph_node_id"].tolist() == [0, 1]
        assert kernels["graph_id"].nunique() == 1
        assert set(run.trace.events.loc[kernels["launch"].astype(int), "name"]) == {"cudaGraphLaunch"}
        assert len(run.trace.memory) == 0

    def test_the_programs_ranges_reach_the_streams_that_they_launched_on(self, step):
        reached = of(step, "gpu_user_annotation").set_index("name")
        kernels = of(step, "kernel")
        assert set(reached.index) == {"forward", "backward", "Optimizer.step#AdamW.step"}
        forward = step.events[(step.events["name"] == "forward") & step.events["device"].isna()].iloc[0]
        mine = kernels[["forward" in above(step, row, "user_annotation") for row in kernels["launch"]]]
        assert 0 < len(mine) < len(kernels)
        assert reached.at["forward", "ts"] == mine["ts"].min()
        assert reached.at["forward", "ts"] + reached.at["forward", "dur"] == ends(mine).max()
        assert reached.at["forward", "external_id"] == forward["external_id"]

    def test_a_range_reaches_only_what_it_launched_itself(self):
        with device("h100"):
            x = torch.ones(64, device="cuda")
            with cudalens.profile(keep=False) as run, record_function("outer"):
                x + 1
                with record_function("inner"):
                    x + 1
        kernels, spans = of(run.trace, "kernel"), of(run.trace, "gpu_user_annotation").set_index("name")
        assert spans.loc["outer", "dur"] == kernels["dur"].iloc[0]
        assert spans.loc["inner", "ts"] == kernels["ts"].iloc[1]

    def test_with_cpu_only_the_host_alone_is_shown_on_the_same_clock(self, step):
        with device("h100"):
            host = traced_step("cuda", cpu_only=True)
        assert set(host.events["cat"]) == set(HOST)
        assert names_of(host, *HOST) == names_of(step, *HOST)
        assert host.info.source == "virtual:h100"


class TestDeterminism:
    @pytest.mark.parametrize("options", [{}, {"memory": True, "shapes": True}])
    def test_two_runs_have_the_same_times(self, options):
        def once():
            with device("h100"):
                trace = traced_step("cuda", **options)
            # torch numbers autograd's functions through the process.
            return trace.events.drop(columns=["tid", "pid", "thread", "sequence_nr"]), trace.memory.drop(
                columns=["tid", "pid", "addr"]
            )

        (events, memory), (again, memory_again) = once(), once()
        pd.testing.assert_frame_equal(events, again)
        pd.testing.assert_frame_equal(memory, memory_again)

    def test_virtual_times_do_not_depend_on_a_recorder(self):
        def once(profiles):
            with device("h100") as virtual:
                training = Training("cuda")
                if profiles:
                    with cudalens.profile(keep=False, memory=True, shapes=True):
                        training.step()
                        return virtual.gpus.machine.now_ns
                training.step()
                return virtual.gpus.machine.now_ns

        assert once(profiles=True) == once(profiles=False)


class TestRanges:
    def test_nvtx_ranges_and_marks_are_in_the_tree(self):
        with device("h100"):
            x = torch.ones(8, device="cuda")
            with cudalens.profile(keep=False) as run:
                with torch.cuda.nvtx.range("outer"):
                    x + 1
                    torch.cuda.nvtx.mark("here")
                torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("alone"))
        ranges = of(run.trace, "user_annotation").reset_index().set_index("name")
        assert ranges["is_instant"].to_dict() == {"outer": False, "here": True, "alone": False}
        (add,) = run.trace.events[run.trace.events["name"] == "aten::add"].itertuples()
        outer = ranges.loc["outer"]
        assert add.parent == outer["index"]
        assert outer["ts"] < add.ts < add.ts + add.dur <= ranges.at["here", "ts"] <= outer["ts"] + outer["dur"]

    def test_a_range_on_a_stream(self):
        with device("h100"), cudalens.profile(keep=False) as run:
            opened = torch.cuda.nvtx._device_range_start("on the GPU")
            torch.ones(8, device="cuda")
            torch.cuda.nvtx._device_range_end(opened)
        (span,), (kernel,) = of(run.trace, "gpu_user_annotation").itertuples(), of(run.trace, "kernel").itertuples()
        assert (span.name, span.stream, span.ts + span.dur) == ("on the GPU", 7, kernel.ts + kernel.dur)

    def test_steps_are_numbered_on_the_device_too(self):
        with device("h100"):
            x = torch.ones(8, device="cuda")
            with cudalens.profile(keep=False) as run:
                for _ in range(3):
                    run.step()
                    x.add_(1)
        assert run.trace.info.num_steps == 3
        assert of(run.trace, "kernel")["step"].tolist() == [0, 1, 2]
        assert names_of(run.trace, "gpu_user_annotation") == {f"ProfilerStep#{k}": 1 for k in range(3)}

    def test_the_programs_own_dispatch_modes_are_the_programs(self):
        from torch.utils._python_dispatch import TorchDispatchMode

        class Mine(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                torch.zeros(1)
                return func(*args, **(kwargs or {}))

        def run_with(place):
            x = torch.ones(4).to(place)
            with Mine(), cudalens.profile(keep=False) as run:
                x + x
            return names_of(run.trace, "cpu_op")

        with device("h100"):
            seen = run_with("cuda")
        assert seen == run_with("cpu")


class TestMemory:
    def test_the_devices_actions_and_not_the_memory_behind_them(self, step):
        memory = step.memory[step.memory["device_type"] == "cuda"]
        on_host = step.memory[step.memory["device_type"] == "cpu"]
        assert set(on_host["num_bytes"]) == {4}  # AdamW's count of steps is on the host, also for CUDA tensors
        assert memory["ts"].is_monotonic_increasing
        assert {"alloc", "free_requested", "free_completed"} <= set(memory["action"])
        assert (memory["num_bytes"] % 512 == 0).all()
        changes = memory["action"].map({"alloc": 1, "free_requested": -1}).astype(float).fillna(0) * memory["num_bytes"]
        steps = memory["allocated_bytes"].astype(float).diff().fillna(changes.iloc[0])
        assert steps.tolist() == changes.tolist()
        assert set(memory["reserved_bytes"].dropna()) == {memory["reserved_bytes"].iloc[0]}

    def test_totals_are_the_allocators(self):
        with device("h100"):
            kept = [torch.empty(1 << 20, dtype=torch.uint8, device="cuda")]
            with cudalens.profile(keep=False, memory=True) as run:
                kept.append(torch.empty(3 << 20, dtype=torch.uint8, device="cuda"))
                del kept[0]
                allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        last = run.trace.memory.iloc[-1]
        assert (last["allocated_bytes"], last["reserved_bytes"]) == (allocated, reserved)
        assert run.trace.memory["allocated_bytes"].max() == 4 << 20

    def test_host_memory_that_the_program_takes_is_shown(self):
        with device("h100"):
            x = torch.ones(1000, device="cuda")
            with cudalens.profile(keep=False, memory=True) as run:
                y = x.cpu()
                z = torch.zeros(500)
                w = x * x
                del y, z, w
        on_host = run.trace.memory[run.trace.memory["device_type"] == "cpu"]
        assert on_host["action"].tolist() == ["alloc", "alloc", "free_completed", "free_completed"]
        assert on_host["num_bytes"].tolist() == [4000, 2000, 4000, 2000]
        assert on_host["allocated_bytes"].tolist() == [4000, 6000, 2000, 0]

    def test_an_allocation_belongs_to_the_operator_that_made_it(self):
        with device("h100"), cudalens.profile(keep=False, memory=True) as run:
            x = torch.empty(8, device="cuda")
            y = x + x  # noqa: F841
        memory = run.trace.memory
        allocs = memory[memory["action"] == "alloc"]
        owners = run.trace.events.loc[allocs["event"].astype(int), "name"].tolist()
        assert owners == ["aten::empty", "aten::add"]

    def test_running_out_of_memory_is_an_action(self):
        recorded = cudalens.profile(keep=False, memory=True)
        with device("h100"), pytest.raises(torch.OutOfMemoryError), recorded as run:
            torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
        assert "oom" in set(run.trace.memory["action"])
        assert run.trace.info.status == "raised"


class TestWhenAndWhere:
    def test_the_run_info_names_what_was_modelled(self, step):
        info = step.info
        assert info.source == "virtual:h100"
        assert info.is_simulated
        (gpu,) = info.devices
        assert (gpu.index, gpu.is_modelled, gpu.capability, gpu.num_sms) == (0, True, "9.0", 132)
        assert "H100" in gpu.name
        assert info.problems == ()

    def test_several_devices_have_distinct_rows(self):
        with device("h100x2"), cudalens.profile(keep=False) as run:
            x = torch.ones(1000, device="cuda:0")
            x.to("cuda:1") + 1
        kernels = of(run.trace, "kernel")
        assert kernels["device"].tolist() == [0, 1]
        assert [gpu.index for gpu in run.trace.info.devices] == [0, 1]
        copy = of(run.trace, "gpu_memcpy").iloc[0]
        assert copy["name"] == "Memcpy PtoP (Device -> Device)"

    def test_a_device_that_comes_and_goes_inside_is_what_is_shown(self):
        torch.ones(3) + 1
        with cudalens.profile(keep=False) as run:
            torch.ones(3).mul(2)
            with record_function("around"), device("a100"):
                torch.ones(3, device="cuda") + 1
            torch.ones(3).mul(2)
        trace = run.trace
        assert trace.info.source == "virtual:a100"
        assert "aten::mul" not in names_of(trace, "cpu_op")
        assert names_of(trace, "kernel").total() == 2
        around = trace.events[trace.events["name"] == "around"].iloc[0]
        assert (around["ts"], around["dur"]) == (trace.info.started_ns, trace.info.ended_ns - trace.info.started_ns)
        (problem,) = trace.info.problems
        assert "outside" in problem.kind
        assert problem.count == 2 * len(("aten::ones", "aten::empty", "aten::fill_", "aten::mul", *_copied_number()))

    def test_devices_in_turn_follow_each_other_on_one_clock(self):
        with cudalens.profile(keep=False) as run:
            for spec in ("a100", "h100"):
                with device(spec):
                    torch.ones(3, device="cuda") + 1
        trace = run.trace
        assert trace.info.source == "virtual:a100, h100"
        kernels = of(trace, "kernel")
        assert len(kernels) == 4
        assert kernels["ts"].is_monotonic_increasing
        assert kernels["correlation_id"].is_unique
        assert trace.events.loc[kernels["launch"].astype(int), "correlation_id"].tolist() == (
            kernels["correlation_id"].tolist()
        )

    def test_a_profile_that_outlives_its_device(self):
        virtual = device("h100")
        with virtual:
            run = cudalens.profile(keep=False)
            run.__enter__()
            torch.ones(3, device="cuda")
        torch.ones(3).mul(2)
        run.__exit__(None, None, None)
        assert names_of(run.trace, "cpu_op") == {"aten::ones": 1, "aten::empty": 1, "aten::fill_": 1}

    def test_without_a_virtual_device_nothing_changes(self):
        with cudalens.profile(keep=False) as run:
            torch.ones(3)
        assert run.trace.info.source == "cpu"
        assert run.trace.info.started_ns > 10**18

    def test_nothing_listens_afterwards(self):
        with device("h100") as virtual:
            machine, allocator = virtual.gpus.machine, virtual.gpus.devices[0].allocator
            before = list(allocator.listeners)
            with pytest.raises(ZeroDivisionError), cudalens.profile(keep=False, memory=True) as run:
                torch.ones(3, device="cuda") / (1 // 0)
            assert machine.recorder is None
            assert allocator.listeners == before
        assert cudalens.virtual.context.observers == []
        assert run.trace.info.status == "raised"
        assert names_of(run.trace, "kernel").total() == 1

    def test_work_from_another_thread_is_shown_with_its_thread(self):
        with device("h100"):
            x = torch.ones(64, device="cuda")
            torch.cuda.synchronize()
            with cudalens.profile(keep=False) as run:
                thread = threading.Thread(target=lambda: torch.cuda.current_stream().synchronize())
                thread.start()
                thread.join()
                x + 1
        calls = of(run.trace, "cuda_runtime")
        assert calls["tid"].nunique() == 2
        assert len(of(run.trace, "kernel")) == 1

    def test_a_block_in_which_nothing_ran(self):
        with device("h100"), cudalens.profile(keep=False) as run:
            pass
        assert len(run.trace) == 0
        assert run.trace.info.source == "virtual:h100"

    def test_nested_profiles_are_ranges(self):
        with device("h100"), cudalens.profile("outer", keep=False) as run, cudalens.profile("inner"):
            torch.ones(3, device="cuda")
        assert names_of(run.trace, "user_annotation") == {"inner": 1}
        assert len(of(run.trace, "kernel")) == 1


def _copied_number():
    """Operators with which the CPU's ``mul`` converts a number to a tensor."""
    with cudalens.profile(keep=False) as run:
        torch.ones(3).mul(2)
    names = of(run.trace, "cpu_op")["name"].astype(str).tolist()
    return names[names.index("aten::mul") + 1 :]


def _inside(trace, name):
    """The operators that the first operator of a name calls, and those that they call."""
    operators = of(trace, "cpu_op").sort_values("ts", kind="stable")
    names = operators["name"].astype(str)
    first = int((names == name).to_numpy().argmax())
    depths = operators["depth"].to_numpy()
    return [
        names.iloc[k] for k in range(first + 1, len(operators)) if (depths[first + 1 : k + 1] > depths[first]).all()
    ]


ALLOCATIONS_AND_VIEWS = {f"aten::{name}" for name in ("_reshape_alias", "as_strided", "empty", "reshape", "to", "view")}
SINGLE = {
    "a number": lambda x: x + 1,
    "a comparison": lambda x: x > 0,
    "two dtypes": lambda x: x.half() + x,
    "a mean": lambda x: x.mean(),
    "tensors of a list": lambda x: torch._foreach_sqrt([x, x]),
    "an index": lambda x: x[x.long()],
    "a fused norm": lambda x: functional.rms_norm(x, (3,)),
}


LIBRARIES = {
    "small convolution": (lambda: nn.Conv2d(3, 3, 1), (1, 3, 4, 4)),
    "convolution": (lambda: nn.Conv2d(32, 32, 3), (8, 32, 16, 16)),
    "convolution in three dimensions": (lambda: nn.Conv3d(2, 2, 2), (1, 2, 4, 4, 4)),
    "transposed convolution": (lambda: nn.ConvTranspose2d(4, 4, 3), (1, 4, 4, 4)),
    "lstm": (lambda: nn.LSTM(3, 3), (3, 3, 3)),
}


class TestRowsOfCpuKernels:
    """What a CPU kernel calls to convert its operands, or for each tensor of a list, is not in the trace of a GPU."""

    @pytest.mark.parametrize("name", SINGLE)
    def test_an_operator_of_one_kernel_calls_no_other_kernel(self, name):
        with device("h100"):
            x = torch.ones(3, device="cuda")
            with cudalens.profile(keep=False) as run:
                SINGLE[name](x)
        name = str(of(run.trace, "kernel")["name"].astype(str).iloc[-1])
        operator = "aten::" + name.removeprefix("simulated::").partition("<")[0]
        assert set(_inside(run.trace, operator)) <= ALLOCATIONS_AND_VIEWS | {operator}

    @pytest.mark.parametrize("name", LIBRARIES)
    def test_no_operator_is_of_a_library_for_cpus(self, name):
        make, shape = LIBRARIES[name]

        def names(place):
            model, x = make().to(place), torch.randn(shape).to(place)
            with cudalens.profile(keep=False) as run:
                result = model(x)
                (result[0] if isinstance(result, tuple) else result).sum().backward()
            return set(names_of(run.trace, "cpu_op")) - {"aten::cudnn_is_acceptable"}

        with device("h100"):
            on_device, on_host = names("cuda"), names("cpu")
        of_cpus = re.compile("mkldnn|nnpack|thnn|slow_conv", re.IGNORECASE)
        assert not [name for name in on_device if of_cpus.search(name)]
        assert [name for name in on_device if "cudnn" in name]
        assert [name for name in on_host if of_cpus.search(name)]
        assert not [name for name in on_host if "cudnn" in name]

    def test_operators_of_the_host_keep_them(self):
        with device("h100"), cudalens.profile(keep=False) as run:
            torch.ones(3).mul(2)
        assert "aten::copy_" in _inside(run.trace, "aten::mul")
        assert _inside(run.trace, "aten::mul") == _copied_number()

    def test_a_reduction_that_copies_keeps_them_around_the_copy(self):
        with device("h100"):
            x = torch.ones(3, device="cuda", dtype=torch.bool)
            with cudalens.profile(keep=False) as run:
                x.sum()
        copy = run.trace.events.query("cat == 'kernel'").iloc[0]
        assert str(copy["name"]) == "simulated::_to_copy<bool>"
        assert above(run.trace, copy["launch"], "cpu_op")[-3:] == ["aten::to", "aten::sum", "aten::sum"]

    def test_a_reduction_of_half_to_float_has_none(self):
        with device("h100"):
            x = torch.ones(3, device="cuda", dtype=torch.float16)
            with cudalens.profile(keep=False) as run:
                x.sum(dtype=torch.float32)
        assert "aten::to" not in names_of(run.trace, "cpu_op")


class TestShown:
    def test_every_view_says_simulated(self, step, tmp_path):
        assert str(step.summary()).startswith("[simulated: h100] ")
        bundle = step._repr_mimebundle_()
        assert "simulated: h100" in bundle["text/plain"]
        assert "simulated: h100" in bundle["text/html"]
        assert "simulated: h100" in timeline_svg(step).html()
        page = step.to_html(tmp_path / "run.html").read_text()
        assert "simulated: h100" in page
        assert "modelled" in page

    def test_a_saved_trace_is_still_simulated(self, step, tmp_path):
        again = cudalens.load(step.save(tmp_path / "step.cudalens"))
        assert again.info == step.info
        pd.testing.assert_frame_equal(again.events, step.events)

    def test_written_for_other_viewers_it_keeps_its_links(self, step, tmp_path):
        path = step.to_chrome(tmp_path / "step.json")
        assert "GPU 0 (simulated: h100)" in path.read_text()
        again = cudalens.load(path)
        assert (again.info.source, again.info.devices) == (step.info.source, step.info.devices)
        assert names_of(again, "kernel") == names_of(step, "kernel")
        kernels = of(again, "kernel")
        assert kernels["launch"].notna().all()

    def test_busy_time_is_that_of_the_kernels(self, step):
        from cudalens.analysis import device_time, summarize

        kernels = of(step, *GPU_ACTIVITIES)
        assert summarize(step).device_busy_ns == kernels["dur"].sum()
        assert device_time(step)["busy_ns"] == kernels["dur"].sum()
        assert summarize(step).wall_ns == step.info.ended_ns - step.info.started_ns


def test_empty_cache_waits_in_cudafree_and_not_in_a_synchronisation_of_the_program():
    with device("h100"), cudalens.profile() as run:
        large = torch.empty(16 << 20, device="cuda").fill_(1.0)
        del large
        torch.cuda.empty_cache()
    events = run.trace.events
    names = events["name"].astype(str)
    assert "cudaDeviceSynchronize" not in set(names)
    free, kernel = events[names == "cudaFree"].iloc[0], events[events["cat"] == "kernel"].iloc[-1]
    assert free["ts"] < kernel["ts"] + kernel["dur"] < free["ts"] + free["dur"]
    assert "explicit" not in str(run.trace.summary())
    assert cudalens.analysis.syncs(run.trace)["kind"].tolist() == ["empty_cache()"]

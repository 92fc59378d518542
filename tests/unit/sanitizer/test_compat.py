"""The names of torch.cuda._sanitizer over our engine: what PyTorch's own tests of them ask, and that both agree."""

import logging
import traceback

import pytest
import torch
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.cuda import _sanitizer as torchs

import cudalens.virtual
from cudalens.device import gpu_trace
from cudalens.sanitizer import compat

aten = torch.ops.aten
LATE = "Perhaps the sanitizer was enabled after some torch operations?"


class Program:
    """Kernels on streams for a handler of ours or of torch; each launch answers how many accesses it races with.

    The names of the handler's methods are those of ``torch.cuda._sanitizer.EventHandler``, which `compat` promises.
    """

    def __init__(self, module=compat):
        self.handler = module.EventHandler()

    def do(self, act, *fields):
        """What torch calls when it does `act`: "event_creation", "memory_allocation" …"""
        return getattr(self.handler, f"_handle_{act}")(*fields)

    def errors(self, stream, reads=(), writes=(), outputs=(), name="aten::op"):
        names = {t: ["self"] for t in (*reads, *writes)}
        return self.do("kernel_launch", stream, list(reads), list(writes), outputs, name, names)

    def launch(self, stream, reads=(), writes=()):
        return len(self.errors(stream, reads, writes))

    def record(self, event, stream):
        self.do("event_record", event, stream)

    def wait(self, event, stream):
        self.do("event_wait", event, stream)


@pytest.fixture
def program():
    return Program()


@pytest.fixture
def h100():
    with cudalens.virtual.device("h100") as device:
        yield device


def handled(func, args, kwargs=None, *, outputs):
    handler = compat.ArgumentHandler()
    handler.parse_inputs(func._schema, args, kwargs or {}, is_factory=False)
    handler.parse_outputs(func._schema, outputs, is_factory=False)
    return handler


def pointers(*tensors):
    return {tensor.data_ptr() for tensor in tensors}


def test_arguments_are_read_and_results_written(h100):
    a, b = torch.ones(3, device="cuda"), torch.ones(3, device="cuda")
    total = a + b
    found = handled(aten.add.Tensor, (a, b), outputs=total)
    assert found.dataptrs_read == pointers(a, b)
    assert found.dataptrs_written == found.outputs == pointers(total)


def test_lists_of_tensors_count_one_by_one(h100):
    parts = [torch.ones(n, device="cuda") for n in (1, 2, 3)]
    whole = torch.cat(parts)
    found = handled(aten.cat.default, (parts, 0), outputs=whole)
    assert found.dataptrs_read == pointers(*parts)
    assert found.dataptrs_written == pointers(whole)


def test_views_touch_nothing(h100):
    a = torch.arange(10, device="cuda")
    found = handled(aten.split.Tensor, (a, 4), outputs=a.split(4))
    assert not found.dataptrs_read
    assert not found.dataptrs_written


def test_in_place_and_out_arguments_are_written_and_not_read(h100):
    a, out = torch.ones(3, device="cuda"), torch.empty(3, device="cuda")
    in_place = handled(aten.add_.Tensor, (a, 5), outputs=a.add_(5))
    assert (in_place.dataptrs_read, in_place.dataptrs_written) == (set(), pointers(a))
    into = handled(aten.mul.out, (a, 3), {"out": out}, outputs=torch.mul(a, 3, out=out))
    assert (into.dataptrs_read, into.dataptrs_written) == (pointers(a), pointers(out))


def test_several_results_are_all_written(h100):
    a = torch.ones(5, 3, device="cuda")
    found = handled(aten.nonzero.default, (a,), {"as_tuple": True}, outputs=(out := a.nonzero(as_tuple=True)))
    assert found.dataptrs_written == pointers(*out)


def test_of_several_results_each_goes_by_its_own_schema(h100):
    x, out = torch.ones(4, device="cuda"), torch.ones(4, device="cuda")
    found = handled(aten.max.dim, (x, 0), outputs=x.max(0))
    assert len(found.dataptrs_written) == 2
    assert pointers(out).isdisjoint(found.dataptrs_written)


def test_one_tensor_under_two_names(h100):
    matrix, vec = torch.zeros(3, 3, device="cuda"), torch.arange(3.0, device="cuda")
    out = torch.addr(matrix, vec, vec)
    found = handled(aten.addr.default, (matrix, vec, vec), outputs=out)
    assert found.tensor_aliases == {matrix.data_ptr(): ["self"], vec.data_ptr(): ["vec1", "vec2"], out.data_ptr(): []}


def test_factories_read_nothing_and_empty_tensors_are_distinguished(h100):
    handler = compat.ArgumentHandler()
    handler.parse_inputs(aten.zeros_like.default._schema, (torch.ones(3, device="cuda"),), {}, is_factory=True)
    assert not handler.dataptrs_read
    empties = [torch.empty(0, device="cuda"), torch.empty(0, device="cuda")]
    handler.parse_inputs(aten.add.Tensor._schema, tuple(empties), {}, is_factory=False)
    assert handler.dataptrs_read == {id(empty) for empty in empties}


def test_only_tensors_of_the_device_count():
    a = torch.ones(2)
    assert not handled(aten.add.Tensor, (a, a), outputs=a + a).tensor_aliases
    cpu = compat.ArgumentHandler("cpu")
    cpu.parse_inputs(aten.add.Tensor._schema, (a, a), {}, is_factory=False)
    assert cpu.dataptrs_read == pointers(a)


def test_reads_do_not_race_and_a_write_does(program):
    assert program.launch(1, reads=[7]) == program.launch(2, reads=[7]) == 0
    assert program.launch(2, writes=[7]) == 1


def test_an_event_orders_what_came_before_its_record_and_nothing_later(program):
    program.launch(1, reads=[7])
    program.record(50, 1)
    program.launch(1, reads=[8])
    program.wait(50, 2)
    assert program.launch(2, writes=[7]) == 0
    assert program.launch(2, writes=[8]) == 1


def test_a_record_replaces_the_one_before(program):
    program.launch(1, reads=[7])
    program.record(50, 1)
    program.record(50, 2)
    program.wait(50, 3)
    assert program.launch(3, writes=[7]) == 1


@pytest.mark.parametrize("acts", ["delete create", "delete", "create"])
def test_an_event_that_is_gone_or_made_anew_orders_nothing(program, acts):
    program.launch(1, reads=[7])
    program.record(50, 1)
    if "delete" in acts:
        program.do("event_deletion", 50)
    if "create" in acts:
        program.do("event_creation", 50)
    program.wait(50, 2)
    assert program.launch(2, writes=[7]) == 1


def test_order_goes_through_a_chain_of_streams(program):
    program.launch(0, reads=[7])
    for stream in range(10):
        program.record(50 + stream, stream)
        program.wait(50 + stream, stream + 1)
    assert program.launch(10, writes=[7]) == 0


def test_a_write_is_held_against_every_reader(program):
    for stream in range(1, 6):
        program.launch(stream, reads=[7])
        program.record(50 + stream, stream)
        program.wait(50 + stream, 0)
    program.launch(6, reads=[7])
    assert program.launch(0, writes=[7]) == 1


def test_each_tensor_is_an_error_of_its_own(program):
    program.launch(0, writes=range(10))
    assert program.launch(1, writes=range(10)) == 10


def test_after_a_wait_a_stream_keeps_its_order(program):
    for stream in (1, 2):
        program.launch(stream, writes=[stream])
        program.record(50 + stream, stream)
        program.launch(stream, writes=[stream])
    program.wait(51, 2)
    program.wait(52, 1)
    program.record(53, 2)
    program.wait(53, 1)
    assert program.launch(1, writes=[1, 2]) == 0


def test_the_host_waits_for_all_streams_for_one_or_for_an_event(program):
    for stream in (1, 2, 3):
        program.launch(stream, writes=[stream])
    program.record(50, 2)
    program.launch(2, writes=[4])
    program.do("stream_synchronization", 1)
    program.do("event_synchronization", 50)
    assert program.launch(9, writes=[1, 2]) == 0
    assert program.launch(9, writes=[3]) == program.launch(9, writes=[4]) == 1
    program.do("device_synchronization")
    program.do("stream_creation", 10)
    assert program.launch(10, writes=[1, 2, 3, 4]) == 0


def test_a_freed_tensor_is_removed(program):
    program.do("memory_allocation", 7)
    program.launch(1, writes=[7])
    program.do("memory_deallocation", 7)
    program.do("memory_allocation", 7)
    assert program.launch(2, writes=[7]) == 0


def test_memory_stays_flat_over_reads_that_nothing_orders(program):
    for n in range(2_000):
        program.launch(n % 3, reads=[7])
    assert len(program.handler.tensors_accessed.get_reads(7)) == 3


operations = st.one_of(
    st.tuples(st.just("launch"), st.integers(0, 3), st.sets(st.integers(1, 3)), st.sets(st.integers(1, 3))),
    st.tuples(st.sampled_from(["event_record", "event_wait"]), st.integers(50, 52), st.integers(0, 3)),
    st.tuples(st.just("stream_synchronization"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["event_synchronization", "event_deletion"]), st.integers(50, 52)),
    st.tuples(st.sampled_from(["memory_allocation", "memory_deallocation"]), st.integers(1, 3)),
    st.just(("device_synchronization",)),
)


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(operations, max_size=14))
def test_both_report_the_first_race_at_the_same_launch(acts):
    ours, theirs = Program(), Program(torchs)
    for name, *fields in acts:
        if name == "launch":
            stream, reads, writes = fields
            found = [p.launch(stream, reads - writes, writes) for p in (ours, theirs)]
            assert bool(found[0]) == bool(found[1])  # torch counts every read, we count streams
            if any(found):
                return  # after a race torch forgets writes that were read
        else:
            for p in (ours, theirs):
                p.do(name, *fields)


def logged(caplog, program, act, *fields):
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="torch.cuda._sanitizer"):
        program.do(act, *fields)
    return [record.getMessage() for record in caplog.records]


@pytest.fixture
def torch_log(caplog):
    """torch's loggers hand nothing on to the root, where caplog listens."""
    compat.logger.addHandler(caplog.handler)
    yield caplog
    compat.logger.removeHandler(caplog.handler)


def test_what_was_never_made_is_made_up_and_logged(program, torch_log):
    for act, what in (
        ("event_deletion", "Event with id: 4, but no matching event creation"),
        ("memory_deallocation", "tensor with pointer: 4, but no matching tensor allocation"),
    ):
        line = f"Found {what} in the trace. Backfilling the trace now. {LATE}"
        assert line in logged(torch_log, program, act, 4)


def test_what_is_made_twice_is_logged(program, torch_log):
    program.do("event_creation", 4)
    program.do("memory_allocation", 4)
    assert logged(torch_log, program, "event_creation", 4)[0] == (
        "Found duplicate event creation in the trace for event with id: 4. Assuming the trace for event deletion "
        f"wasn't caught and backfilling it now. {LATE}"
    )
    assert logged(torch_log, program, "memory_allocation", 4)[0] == (
        "Found duplicate tensor allocation in the trace for tensor with pointer: 4. Assuming the trace for tensor "
        f"deallocation wasn't caught and backfilling it now. {LATE}"
    )
    assert logged(torch_log, program, "stream_creation", 0)[0] == (
        "Found duplicate Stream creation in the trace for Stream with id: 0. PyTorch Streams are only created once, "
        "so this trace entry is ignored."
    )


def access(module, kind, stream, aliases, is_output):
    stack = traceback.StackSummary.from_list([("train.py", 3, "step", f"line of {stream}")])
    return module.Access(module.AccessType[kind], 1, stream, "aten::op", aliases, is_output, stack)


@pytest.mark.parametrize("has_allocation", [True, False])
@pytest.mark.parametrize("aliases", [[], ["self", "out"]])
@pytest.mark.parametrize("is_output", [True, False])
def test_the_message_is_that_of_torch(has_allocation, aliases, is_output):
    allocation = traceback.StackSummary.from_list([("train.py", 1, "<module>", "x = 1")]) if has_allocation else None
    texts = [
        str(
            m.UnsynchronizedAccessError(
                data_ptr=99,
                allocation_stack_trace=allocation,
                current_access=access(m, "WRITE", 5, aliases, is_output),
                previous_access=access(m, "READ", 6, ["x"], False),
            )
        )
        for m in (compat, torchs)
    ]
    assert texts[0] == texts[1]


def test_an_error_names_both_accesses_and_the_allocation(program):
    program.do("memory_allocation", 7)
    program.launch(1, writes=[7])
    (error,) = program.errors(2, reads=[7], outputs={7}, name="aten::sum")
    assert (error.previous_access.seq_num, error.current_access.seq_num) == (1, 2)
    assert (error.previous_access.stream, error.current_access.stream) == (1, 2)
    assert error.current_access.type is compat.AccessType.READ
    assert error.current_access.is_output
    for stack in (error.allocation_stack_trace, error.previous_access.stack_trace, error.current_access.stack_trace):
        assert any(entry.filename == __file__ for entry in stack)
    assert error.current_access.stack_trace[-1].name == "_handle_kernel_launch"  # outermost first, as torch's


@pytest.fixture
def enabled(h100):
    compat.enable_cuda_sanitizer()
    yield compat.cuda_sanitizer
    compat.cuda_sanitizer.disable()


def test_a_race_is_printed_and_ends_the_program(enabled, capsys):
    side = torch.cuda.Stream()
    a = torch.ones(8, device="cuda")
    with pytest.raises(compat.CUDASanitizerErrors, match="detected 1 errors"), torch.cuda.stream(side):
        a.mul_(2)
    assert f"possible data race on tensor with data pointer {a.data_ptr()}" in capsys.readouterr().err


def test_a_program_that_waits_runs(enabled):
    side = torch.cuda.Stream()
    a = torch.ones(8, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        a.mul_(2)
    a.record_stream(side)
    torch.cuda.current_stream().wait_stream(side)
    assert a.sum().item() == 16


def test_tensor_subclasses_can_be_made(h100):
    class Plain(torch.Tensor):
        def __new__(cls, data):
            return data.clone().as_subclass(cls)

    with compat.CUDASanitizerDispatchMode():
        assert isinstance(Plain(torch.rand(2)), Plain)


def test_switched_off_it_leaves_nothing(h100):
    sanitizer = compat.CUDASanitizer()
    depth = torch._C._len_torch_dispatch_stack()
    for _ in range(3):
        sanitizer.enable()
        sanitizer.enable()
        assert torch._C._len_torch_dispatch_stack() == depth + 1
        sanitizer.disable()
        sanitizer.disable()
    assert torch._C._len_torch_dispatch_stack() == depth
    assert not gpu_trace.is_on()


def test_it_has_every_public_name_of_torchs():
    names = {name for name, value in vars(torchs).items() if getattr(value, "__module__", "") == torchs.__name__}
    assert len(names) > 10
    assert names <= set(vars(compat))


# -- the order of operations, by sequence numbers --------------------------------------------------------------------

streams, events = st.integers(0, 3), st.integers(0, 2)
synchronisations = st.one_of(
    st.tuples(st.just("update_seq_num"), streams),
    st.tuples(st.just("record_state"), events, streams),
    st.tuples(st.just("stream_wait_for_event"), streams, events),
    st.tuples(st.just("all_streams_wait_for_event"), events),
    st.tuples(st.just("all_streams_wait_for_stream"), streams),
    st.tuples(st.just("sync_all_streams")),
    st.tuples(st.just("delete_event"), events),
)


@settings(max_examples=examples(100))
@given(st.lists(synchronisations, max_size=25))
def test_the_order_of_operations_equals_torchs(steps):
    ours, theirs = compat.StreamSynchronizations(), torchs.StreamSynchronizations()
    operations = []
    for stream in range(1, 4):
        ours.create_stream(stream)
        theirs.create_stream(stream)
    for name, *fields in steps:
        if name == "update_seq_num":
            fields.append(len(operations) + 1)
            operations.append(fields[0])
        getattr(ours, name)(*fields)
        getattr(theirs, name)(*fields)
    for number, other in enumerate(operations, 1):
        for stream in range(4):
            assert ours.is_ordered_after(stream, number, other) == theirs.is_ordered_after(stream, number, other)

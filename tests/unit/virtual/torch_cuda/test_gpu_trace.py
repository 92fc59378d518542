"""torch.cuda._gpu_trace's ten callbacks on the virtual device, in the terms of PyTorch's test/test_cuda_trace.py:
which act fires which, when, and with whose pointers; and torch's own CUDA sanitizer on top of them.
"""

import json
import textwrap

import pytest
import torch
import torch.cuda._gpu_trace as gpu_trace
from programs import run

import cudalens.virtual
from cudalens.device import gpu_trace as hooks

REGISTER = {
    "event created": gpu_trace.register_callback_for_event_creation,
    "event deleted": gpu_trace.register_callback_for_event_deletion,
    "event recorded": gpu_trace.register_callback_for_event_record,
    "event waited": gpu_trace.register_callback_for_event_wait,
    "allocated": gpu_trace.register_callback_for_memory_allocation,
    "freed": gpu_trace.register_callback_for_memory_deallocation,
    "stream created": gpu_trace.register_callback_for_stream_creation,
    "device synchronised": gpu_trace.register_callback_for_device_synchronization,
    "stream synchronised": gpu_trace.register_callback_for_stream_synchronization,
    "event synchronised": gpu_trace.register_callback_for_event_synchronization,
}
POOL_STREAMS = 128


@pytest.fixture
def fired():
    """The callbacks fired since the device started (or since ``clear``): ("allocated", pointer), ..."""
    fired = []
    hooks.subscribe(print).close()  # torch never removes its callbacks
    registries = [getattr(gpu_trace, name) for name in hooks.REGISTRIES]
    line = [len(registry.callback_list) for registry in registries]
    for what, register in REGISTER.items():
        register(lambda *pointers, what=what: fired.append((what, *pointers)))
    with cudalens.virtual.device("h100x2"):
        yield fired
    for registry, length in zip(registries, line, strict=True):
        del registry.callback_list[length:]


def only(fired, *kinds):
    return [act for act in fired if act[0] in kinds]


def default():
    return torch.cuda.default_stream().cuda_stream


def test_an_event_comes_into_being_at_its_first_record(fired):
    event = torch.cuda.Event()
    assert fired == []
    event.record()
    event.record()
    assert fired == [
        ("event created", event.cuda_event),
        ("event recorded", event.cuda_event, default()),
        ("event recorded", event.cuda_event, default()),
    ]
    assert event.cuda_event == event._as_parameter_.value != 0


def test_deleting_a_recorded_event_fires_a_callback(fired):
    event = torch.cuda.Event()
    event.record()
    pointer = event.cuda_event
    fired.clear()
    del event
    assert fired == [("event deleted", pointer)]


def test_an_event_without_a_record_never_existed(fired):
    event = torch.cuda.Event()
    event.wait()
    event.synchronize()
    assert event.query()
    del event
    assert fired == []


def test_events_have_pointers_of_their_own(fired):
    events = [torch.cuda.Event() for _ in range(3)]
    for event in events:
        event.record()
    assert len({event.cuda_event for event in events}) == 3


def test_records_and_waits_name_the_stream(fired):
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    event = torch.cuda.Event()
    fired.clear()
    event.record(first)
    second.wait_event(event)
    event.wait(first)
    with torch.cuda.stream(second):
        event.record()
        event.wait()
    pointer = event.cuda_event
    assert fired == [
        ("event created", pointer),
        ("event recorded", pointer, first.cuda_stream),
        ("event waited", pointer, second.cuda_stream),
        ("event waited", pointer, first.cuda_stream),
        ("event recorded", pointer, second.cuda_stream),
        ("event waited", pointer, second.cuda_stream),
    ]


def test_a_wait_on_the_default_stream(fired):
    event = torch.cuda.Event()
    event.record()
    event.wait()
    assert only(fired, "event waited") == [("event waited", event.cuda_event, default())]


def test_waiting_for_a_stream_is_an_event_that_lives_for_a_moment(fired):
    side = torch.cuda.Stream()
    fired.clear()
    side.wait_stream(torch.cuda.current_stream())
    created, recorded, waited, deleted = fired
    pointer = created[1]
    assert created == ("event created", pointer)
    assert recorded == ("event recorded", pointer, default())
    assert waited == ("event waited", pointer, side.cuda_stream)
    assert deleted == ("event deleted", pointer)


def test_memory_is_identified_by_the_tensors_pointer(fired):
    tensor = torch.empty(10, 4, device="cuda")
    assert fired == [("allocated", tensor.data_ptr())]
    view = tensor[2:]
    assert view.data_ptr() == tensor.data_ptr() + 2 * 4 * 4
    address = tensor.data_ptr()
    del tensor
    assert len(fired) == 1  # the view keeps it
    del view
    assert fired[1:] == [("freed", address)]


def test_results_and_temporaries_fire_callbacks_in_order(fired):
    x = torch.ones(64, device="cuda")
    fired.clear()
    y = (x + 1) * 2
    (_, temporary), (_, result), freed = fired
    assert result == y.data_ptr()
    assert freed == ("freed", temporary)
    x.add_(1)
    assert len(fired) == 3  # in place


def test_nothing_is_allocated_for_no_elements(fired):
    torch.empty(0, device="cuda")
    assert fired == []


def test_the_host_takes_no_device_memory(fired):
    torch.ones(100).add(1).pin_memory()
    assert fired == []


def test_the_first_stream_fires_callbacks_for_all_streams_of_the_pools(fired):
    stream = torch.cuda.Stream()
    created = only(fired, "stream created")
    assert fired == created
    assert len(created) == len(set(created)) == POOL_STREAMS
    assert ("stream created", stream.cuda_stream) in created
    torch.cuda.Stream()
    torch.cuda.Stream(priority=-1)
    assert only(fired, "stream created") == created
    torch.cuda.Stream(device=1)
    assert len(set(only(fired, "stream created"))) == 2 * POOL_STREAMS


def test_synchronising_a_device(fired):
    torch.cuda.synchronize()
    torch.cuda.synchronize(1)
    assert fired == [("device synchronised",)] * 2


def test_synchronising_a_stream(fired):
    stream = torch.cuda.Stream()
    fired.clear()
    stream.synchronize()
    torch.cuda.current_stream().synchronize()
    assert fired == [("stream synchronised", stream.cuda_stream), ("stream synchronised", default())]


def test_synchronising_an_event(fired):
    event = torch.cuda.Event()
    event.record()
    fired.clear()
    event.synchronize()
    assert fired == [("event synchronised", event.cuda_event)]


def test_asking_is_no_synchronisation(fired):
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    fired.clear()
    event.query()
    torch.cuda.current_stream().query()
    assert fired == []


SYNCHRONISING = {
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0] > 0),
    "float": lambda x: float(x[0]),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "masked_select": lambda x: torch.masked_select(x, x > 0),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "tolist": lambda x: x.tolist(),
    "upload": lambda x: torch.ones(5).cuda(),
    "copy_ up": lambda x: x.copy_(torch.ones(5)),
    "copy_ down": lambda x: torch.ones(5).copy_(x),
    "pinned, blocking": lambda x: torch.ones(5).pin_memory().cuda(),
    "tensor": lambda x: torch.tensor([1.0, 2.0], device="cuda"),
    "equal": lambda x: torch.equal(x, x),
    "if": lambda x: 1 if (x > 0).all() else 0,
}


@pytest.mark.parametrize("name", SYNCHRONISING)
def test_what_the_host_has_to_wait_for_synchronises_the_current_stream_once(fired, name):
    x = torch.ones(5, device="cuda")
    side = torch.cuda.Stream()
    fired.clear()
    SYNCHRONISING[name](x)
    assert only(fired, "stream synchronised") == [("stream synchronised", default())]
    torch.cuda.synchronize()
    fired.clear()
    with torch.cuda.stream(side):
        SYNCHRONISING[name](x)
    assert only(fired, "stream synchronised") == [("stream synchronised", side.cuda_stream)]


@pytest.mark.parametrize(
    "act",
    [
        lambda x: x + x,
        lambda x: x @ x,
        lambda x: torch.ones(5).pin_memory().to("cuda", non_blocking=True),
        lambda x: x.to("cpu", non_blocking=True),
        lambda x: x.clone().copy_(x),
        lambda x: x[1:].contiguous(),
        lambda x: x[(x - 1).long()],
        lambda x: x.clone().requires_grad_().square().sum().backward(),
    ],
)
def test_what_the_host_need_not_wait_for_does_not(fired, act):
    x = torch.ones(5, device="cuda")
    fired.clear()
    act(x)
    assert only(fired, "stream synchronised", "device synchronised", "event synchronised") == []


def test_a_result_whose_size_the_host_waits_for_is_allocated_after_the_wait(fired):
    x = torch.ones(5, device="cuda")
    fired.clear()
    found = x.nonzero()
    kinds = [act[0] for act in fired]
    assert fired[-1] == ("allocated", found.data_ptr())
    assert kinds.index("stream synchronised") < len(kinds) - 1


def test_all_callbacks_of_a_kind_are_called_also_if_one_raises(fired, caplog):
    def broken(pointer):
        raise ValueError("broken")

    other = []
    gpu_trace.register_callback_for_memory_allocation(broken)
    gpu_trace.register_callback_for_memory_allocation(other.append)
    tensor = torch.empty(10, 4, device="cuda")
    assert fired == [("allocated", tensor.data_ptr())]
    assert other == [tensor.data_ptr()]
    assert "broken" in caplog.text


def test_the_one_subscription_sees_the_same(fired):
    records = []
    with hooks.subscribe(records.append):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = torch.ones(5, device="cuda")
            event = side.record_event()
        torch.cuda.current_stream().wait_event(event)
        event.synchronize()
        x.sum().item()
        del x, event
        torch.cuda.synchronize()
    names = dict(zip(hooks.REGISTRIES.values(), REGISTER, strict=True))
    fields = [tuple(getattr(r, name) for name in r.__dataclass_fields__) for r in records]
    assert [(names[type(r)], *values) for r, values in zip(records, fields, strict=True)] == fired
    assert {act[0] for act in fired} == set(REGISTER)


def test_record_stream_emits_a_record_of_gpu_trace(fired):
    records = []
    side = torch.cuda.Stream()
    x = torch.ones(5, device="cuda")
    with hooks.subscribe(records.append):
        x[1:].record_stream(side)
    assert records == [hooks.BlockRecordedOnStream(address=x.data_ptr(), stream=side.cuda_stream)]


def test_graphs_emit_records_of_gpu_trace(fired):
    records = []
    x = torch.ones(5, device="cuda")
    with hooks.subscribe(records.append):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x + 1
            capture = torch.cuda.current_stream().cuda_stream
        graph.replay()
        pool = graph.pool()
        number = id(graph)
        graph.reset()
    ours = [r for r in records if type(r) not in hooks.REGISTRIES.values()]
    assert ours == [
        hooks.CaptureBegan(graph=number, stream=capture, pool=pool),
        hooks.CaptureEnded(graph=number, stream=capture, is_valid=True),
        hooks.GraphReplayed(graph=number, stream=default()),
        hooks.GraphDestroyed(graph=number),
    ]
    began, ended = records.index(ours[0]), records.index(ours[1])
    assert hooks.MemoryAllocated(y.data_ptr()) in records[began:ended]


def test_nothing_fires_after_the_device_has_ended():
    fired = []
    gpu_trace.register_callback_for_memory_deallocation(fired.append)
    gpu_trace.register_callback_for_event_deletion(fired.append)
    try:
        with cudalens.virtual.device("h100"):
            x, event = torch.ones(3, device="cuda"), torch.cuda.Event()
            event.record()
        del x, event
        torch.ones(3).add(1)
    finally:
        gpu_trace.MemoryDeallocationCallbacks.callback_list.pop()
        gpu_trace.EventDeletionCallbacks.callback_list.pop()
    assert fired == []


# torch's sanitizer, in a separate process: its callbacks cannot be removed.

RACES = {
    "a kernel on a side stream writes what the default stream just made": (
        """
        a = torch.rand(4, 2, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            {0}
            torch.mul(a, 5, out=a)
        """,
        "torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())",
    ),
    "a result is read before it was joined": (
        """
        side = torch.cuda.Stream()
        x = torch.ones(64, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
        {0}
        z = y + 1
        """,
        "torch.cuda.current_stream().wait_stream(side)",
    ),
    "an event that is not waited for": (
        """
        side, event = torch.cuda.Stream(), torch.cuda.Event()
        x = torch.zeros(64, device="cuda")
        event.record()
        with torch.cuda.stream(side):
            {0}
            x.add_(1)
        """,
        "event.wait()",
    ),
    "an event that was recorded too early": (
        """
        side, event = torch.cuda.Stream(), torch.cuda.Event()
        event.record()
        x = torch.zeros(64, device="cuda")
        {0}
        with torch.cuda.stream(side):
            event.wait()
            x.add_(1)
        """,
        "event.record()",
    ),
    "the host could have waited": (
        """
        side = torch.cuda.Stream()
        x = torch.zeros(64, device="cuda")
        {0}
        with torch.cuda.stream(side):
            x.add_(1)
        """,
        "torch.cuda.synchronize()",
    ),
    "an item would have synchronised": (
        """
        side = torch.cuda.Stream()
        x, flag = torch.zeros(64, device="cuda"), torch.ones(1, device="cuda")
        x.add_(1)
        {0}
        with torch.cuda.stream(side):
            x.add_(1)
        """,
        "flag.item()",  # of x itself it would be a read more, which torch's sanitizer files after the wait
    ),
    "a write under a reader's hands": (
        """
        reader = torch.cuda.Stream()
        x = torch.ones(64, device="cuda")
        reader.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(reader):
            total = x.sum()
        {0}
        x.zero_()
        """,
        "torch.cuda.current_stream().wait_stream(reader)",
    ),
}
TRAINING = """
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
side = torch.cuda.Stream()
for _ in range(3):
    with torch.cuda.stream(side):
        batch = torch.ones(4, 8).pin_memory().to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(side)
    batch.record_stream(torch.cuda.current_stream())
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    side.wait_stream(torch.cuda.current_stream())
"""
PROGRAM = """
import contextlib, io, json, sys
import torch
import torch.cuda._gpu_trace as gpu_trace
import torch.cuda._sanitizer as csan
import cudalens.virtual

def judge(program):
    for registry in vars(gpu_trace).values():  # an earlier sanitizer's callbacks
        if isinstance(registry, gpu_trace.CallbackRegistry):
            registry.callback_list.clear()
    report = io.StringIO()
    with cudalens.virtual.device("h100"), contextlib.redirect_stderr(report):
        csan.cuda_sanitizer = csan.CUDASanitizer()
        csan.enable_cuda_sanitizer()
        try:
            exec(program, {"torch": torch})
        except csan.CUDASanitizerErrors as errors:
            return len(errors.errors), report.getvalue()
        finally:
            csan.cuda_sanitizer.disable()
    return 0, report.getvalue()

print(json.dumps([judge(program) for program in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def sanitizer():
    """Results of torch's sanitizer: the number of races by program, and its report."""
    repaired = {f"{name}, repaired": program.format(repair) for name, (program, repair) in RACES.items()}
    programs = (
        {name: program.format("pass") for name, (program, _) in RACES.items()} | repaired | {"training": TRAINING}
    )
    done = run("-c", PROGRAM, input=json.dumps([textwrap.dedent(program) for program in programs.values()]))
    assert done.returncode == 0, done.stderr
    return dict(zip(programs, map(tuple, json.loads(done.stdout)), strict=True))


@pytest.mark.parametrize("name", RACES)
def test_torchs_sanitizer_finds_the_race_and_accepts_the_fix(sanitizer, name):
    num_races, report = sanitizer[name]
    assert num_races == 1
    assert "CSAN detected a possible data race on tensor with data pointer" in report
    assert "Tensor was allocated with stack trace" in report
    assert sanitizer[f"{name}, repaired"] == (0, "")


def test_torchs_sanitizer_finds_nothing_in_a_training_loop_with_two_streams(sanitizer):
    assert sanitizer["training"] == (0, "")

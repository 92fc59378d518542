"""The sanitizer as a tool: options, findings, what it leaves behind, and what happens when something is wrong in it."""

import contextlib
import gc
import re
import sys
import threading
import tracemalloc
import warnings
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import cudalens
from cudalens import RaceError, SanitizerError
from cudalens.device import gpu_trace, modes
from cudalens.device.stacks import frames_of, is_own
from cudalens.sanitizer import RaceKind, RaceWarning, Suppressions, SuppressionWarning, access, running
from cudalens.sanitizer.engine import Detector
from cudalens.sanitizer.live.watch import Watch
from cudalens.views.races.section import races_verdict
from cudalens.virtual import device
from cudalens.virtual.timing import machine

N = 64
LARGE = 1024  # a matrix of 4 MiB, from the allocator's large pool


def race(side, times=1):
    """A write on the default stream and one on a side stream, again and again."""
    x = torch.ones(N, device="cuda")
    for _ in range(times):
        torch.cuda.synchronize()
        x.fill_(1)
        with torch.cuda.stream(side):
            x.fill_(2)
    torch.cuda.synchronize()
    return x


def stack_of_modes():
    return [torch._C._get_dispatch_stack_at(n) for n in range(torch._C._len_torch_dispatch_stack())]


# Findings


def test_one_race_per_pair_of_places_with_a_count(side):
    with cudalens.sanitize() as san:
        race(side, times=7)
    (found,) = san.races
    assert (found.kind, found.count, san.num_seen) == (RaceKind.WRITE_AFTER_WRITE, 7, 7)


def test_streams_that_change_every_time_make_no_new_finding(gpu):
    with cudalens.sanitize() as san:
        for _ in range(5):
            race(torch.cuda.Stream())
    assert [found.count for found in san.races] == [5]


def test_five_hundred_reads_and_one_write_are_one_race(side):
    x = torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        with torch.cuda.stream(side):
            for _ in range(500):
                x.sum()
        x.fill_(1)
    assert [found.count for found in san.races] == [1]


def test_both_accesses_have_their_stacks(side):
    with cudalens.sanitize() as san:
        race(side)
    (found,) = san.races
    for touch in (found.first, found.second):
        frames = frames_of(touch.stack, depth=2)
        assert [frame.function for frame in frames] == ["race", "test_both_accesses_have_their_stacks"]
        assert frames[0].line == touch.place.line
        assert "x.fill_" in frames[0].source


def test_clear_removes_all_and_finds_anew(side):
    with cudalens.sanitize() as san:
        race(side)
        san.clear()
        assert (san.races, san.num_seen) == ([], 0)
        race(side)
        assert len(san.races) == 1


def test_the_races_of_several_runs_are_kept(side):
    san = cudalens.sanitize()
    for _ in range(2):
        san.start()
        race(side)
        san.stop()
    assert [found.count for found in san.races] == [2]


def test_the_frames_are_the_catalogs(side):
    from cudalens.frames.catalog_frames import check_frame

    with cudalens.sanitize() as san:
        race(side, times=3)
    frames = san.frames()
    for name, frame in frames.items():
        check_frame(name, frame)
    assert list(frames["races"]["count"]) == [3]


def test_the_trace_prints_as_a_report_and_is_written(side, tmp_path):
    with cudalens.sanitize() as san:
        race(side)
    trace = san.trace("mine")
    assert trace.info.name == "mine"
    assert str(trace.summary()).startswith("[simulated: h100] 1 race\n")
    assert "write after write" in trace.to_html(tmp_path / "races.html").read_text()


def test_a_name_for_memory(side):
    x = torch.ones(N, device="cuda")
    with cudalens.sanitize() as san:
        san.name_memory(x, "kv cache")
        x.fill_(1)
        with torch.cuda.stream(side):
            x[3:].sum()
    assert san.races[0].tensors == {"kv cache"}


# Options


def test_raise_comes_from_the_operator_which_has_run(side):
    x = torch.zeros(N, device="cuda")
    with (  # noqa: PT012 - where in the block it comes from is the point
        pytest.raises(RaceError, match="write after write") as caught,
        cudalens.sanitize(on_race="raise"),
    ):
        x.fill_(1)
        with torch.cuda.stream(side):
            x.fill_(2)
        raise AssertionError("not reached")
    assert x.sum().item() == 2 * N
    assert [found.kind for found in caught.value.races] == [RaceKind.WRITE_AFTER_WRITE]
    assert "test_live.py" in str(caught.value)


def test_what_was_raised_once_is_not_raised_again(side):
    with cudalens.sanitize(on_race="raise") as san:
        x = torch.ones(N, device="cuda")
        for _ in range(3):
            torch.cuda.synchronize()
            try:
                x.fill_(1)
                with torch.cuda.stream(side):
                    x.fill_(2)
            except RaceError:
                assert san.num_seen == 1
    assert san.num_seen == 3


def test_a_replay_raises_at_the_end_of_the_block(side):
    x = torch.ones(N, device="cuda")
    with pytest.raises(RaceError), cudalens.sanitize(on_race="raise"):  # noqa: PT012
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x.add_(1)
        x.fill_(1)
        with torch.cuda.stream(side):
            graph.replay()


def test_the_users_exception_is_the_one_that_comes_out(side):
    x = torch.ones(N, device="cuda")
    with pytest.raises(ZeroDivisionError), cudalens.sanitize(on_race="raise"):  # noqa: PT012
        x.fill_(1)
        with torch.cuda.stream(side):
            access(writes=[x])
        1 / 0  # noqa: B018


def test_warn_gives_each_finding_once_at_the_users_line(side):
    with pytest.warns(RaceWarning, match="write after write") as caught, cudalens.sanitize(on_race="warn"):
        race(side, times=3)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("detect", ["use_after_free", RaceKind.HOST, ["read-after-write", RaceKind.WRITE_AFTER_READ]])
def test_only_the_detectors_that_were_asked_for(side, detect):
    with cudalens.sanitize(detect=detect) as san:
        race(side, times=2)
    assert (san.races, san.status().num_hidden) == ([], 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"detect": "data_race"}, "unknown detector 'data_race'; expected some of read_after_write, .*use_after_free"),
        ({"detect": []}, "no detector is named"),
        ({"on_race": "explode"}, "invalid value for on_race: 'explode'; expected one of 'collect', 'warn', 'raise'"),
        ({"stack_depth": 0}, "stack_depth is 0; expected"),
        ({"suppress": ["op:"]}, "suppression 'op:' is empty"),
        ({"suppress": [3]}, "suppression 3 is int; expected text"),
        ({"suppress_file": "/no/such/file"}, "suppression file /no/such/file cannot be read"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(SanitizerError, match=message):
        cudalens.sanitize(**options)


@pytest.mark.parametrize(
    ("pattern", "hides"),
    [
        ("aten::fill_", True),
        ("op:aten::fill*", True),
        ("at:*/test_live.py:*", True),
        ("*/test_live.py:*", True),
        ("tensor:float32*", True),
        ("kind:write_after_write", True),
        ("write after write", True),
        ("at:aten::fill_", False),
        ("aten::add", False),
        ("fill", False),
    ],
)
def test_suppressions(side, pattern, hides):
    with unused_is(pattern, is_warned=not hides), cudalens.sanitize(suppress=pattern) as san:
        race(side)
    assert (san.races == []) == hides
    assert san.unused_suppressions() == ([] if hides else [pattern])


def unused_is(pattern, *, is_warned):
    if not is_warned:
        return contextlib.nullcontext()
    return pytest.warns(SuppressionWarning, match=f"match no race: {re.escape(repr(pattern))}")


@pytest.mark.parametrize(
    ("pattern", "hides"),
    [
        ("In[3]:7", True),
        ("at:In[3]:*", True),
        ("In[*]:7", True),
        ("In[[]3[]]:7", True),
        ("In[4]:*", False),
        ("In3:7", False),
        ("I[mn][[]3[]]:7", True),
    ],
)
def test_in_3_in_a_pattern_is_that_cell(pattern, hides):
    touch = SimpleNamespace(op="aten::mul", tensor="float32[3]", place="In[3]:7", captured=None)
    race = SimpleNamespace(kind=RaceKind.WRITE_AFTER_WRITE, first=touch, second=touch)
    assert Suppressions([pattern]).hides(race) == hides


def test_each_unused_suppression_is_named_once(side):
    patterns = ["aten::fill_", "write after write", "aten::ad", "nothing"]
    san = cudalens.sanitize(suppress=patterns)
    with pytest.warns(SuppressionWarning) as caught, san:
        race(side)
    assert [str(one.message) for one in caught] == ["these suppressions match no race: 'aten::ad', 'nothing'"]
    with san:
        race(side)


def test_a_suppression_file(side, tmp_path):
    path = tmp_path / "races.supp"
    path.write_text("# known\n\nop:aten::mul   # harmless\naten::fill_\n")
    with unused_is("op:aten::mul", is_warned=True), cudalens.sanitize(suppress_file=path) as san:
        race(side)
    assert san.races == []


# What torch does not see


def test_annotated_accesses(side):
    x, y = torch.ones(N, device="cuda"), torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        access(reads=[y], writes=x, name="my_kernel")
        with torch.cuda.stream(side):
            access(reads=[x[5:9], y], name="other_kernel")
    (found,) = san.races
    assert (found.first.op, found.second.op, found.second.argument) == ("my_kernel", "other_kernel", "reads[0]")
    assert found.second.region.run == 16


def test_an_annotation_of_host_memory_alone_is_the_hosts(gpu):
    x, h = torch.ones(N, device="cuda"), torch.zeros(N).pin_memory()
    with cudalens.sanitize() as san:
        h.copy_(x, non_blocking=True)
        access(writes=[h], name="memcpy of ours")
    assert [found.kind for found in san.races] == [RaceKind.HOST]


def test_annotations_cost_nothing_and_ask_for_nothing_while_the_sanitizer_is_off():
    access(reads=["no tensor"])


def test_an_annotation_that_is_no_tensor_is_refused(gpu):
    with cudalens.sanitize(), pytest.raises(TypeError, match=r"access\(writes=…\) holds str"):
        access(writes=["no tensor"])


# Coming and going


def test_off_leaves_nothing_of_it(side):
    methods = {name: getattr(torch.Tensor, name) for name in ("numpy", "tolist", "__array__", "__dlpack__", "__repr__")}
    own = {name: vars(torch.Tensor).get(name) for name in methods}
    start, query, modes_before = threading.Thread.start, torch.cuda.Event.query, stack_of_modes()
    with cudalens.sanitize() as san:
        assert torch.cuda.Event.query is not query
        assert (san.is_on, running()) == (True, [san])
        race(side)
    assert {name: getattr(torch.Tensor, name) for name in methods} == methods
    assert {name: vars(torch.Tensor).get(name) for name in methods} == own
    assert (threading.Thread.start, torch.cuda.Event.query, stack_of_modes()) == (start, query, modes_before)
    assert not gpu_trace.is_on()
    assert (san.is_on, running()) == (False, [])


def calls_of(program):
    """How many functions of Python and C a program calls, without those of the clock, which depend on real time."""
    num = 0

    def count(frame, event, argument):
        nonlocal num
        is_of_clock = frame.f_code.co_filename == machine.__file__
        num += event in ("call", "c_call") and not is_of_clock

    gc.disable()
    sys.setprofile(count)
    try:
        program()
    finally:
        sys.setprofile(None)
        gc.enable()
    return num


def test_off_nothing_costs_more_than_before(side):
    h = torch.ones(N)

    def program():
        x = torch.ones(N, device="cuda")
        with torch.cuda.stream(side):
            x.add_(1)
        side.record_event().query()
        torch.cuda.current_stream().wait_stream(side)
        h.numpy(), h.tolist(), x.cpu()
        thread = threading.Thread(target=len, args=((),))
        thread.run()

    before = [calls_of(program) for _ in range(3)][-1]
    with cudalens.sanitize():
        program()
        assert calls_of(program) > before
    assert [calls_of(program) for _ in range(3)][-1] == before


def test_on_and_off_leaks_nothing(gpu):
    x = torch.ones(N, device="cuda")

    def once():
        with cudalens.sanitize():
            x.add_(1)

    def objects_after(rounds):
        for _ in range(rounds):
            once()
        gc.collect()
        return len(gc.get_objects())

    objects_after(50)
    tracemalloc.start()
    num_objects = objects_after(20)
    assert objects_after(200) - num_objects < 20
    ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/cudalens/[sd]e*/*")])
    tracemalloc.stop()
    assert sum(trace.size for trace in ours.traces) < 4_000
    assert len(x.untyped_storage().__dict__) <= 3


def test_a_sanitizer_that_ended_keeps_no_tensor_and_none_of_its_state(gpu):
    before = num_alive(Watch, Detector)
    with cudalens.sanitize() as san:
        x = torch.ones(N, device="cuda")
        dead = weakref.ref(x)
        del x
        assert dead() is None
        assert num_alive(Watch, Detector) == before + 2
    assert san.races == []
    assert num_alive(Watch, Detector) == before


def num_alive(*kinds):
    gc.collect()
    return sum(type(each) in kinds for each in gc.get_objects())


def test_starting_twice_is_refused_and_stopping_twice_is_not(gpu):
    san = cudalens.sanitize()
    with san, pytest.raises(SanitizerError, match="on already"):
        san.start()
    san.stop()


def test_two_at_once(side):
    with cudalens.sanitize() as outer:
        race(side)
        with cudalens.sanitize(detect="host") as inner:
            race(side)
        with cudalens.sanitize() as later:
            pass
        race(side)
    assert outer.num_seen == 3
    assert (inner.num_seen, later.num_seen) == (0, 0)


@pytest.mark.parametrize("first_off", ["sanitizer", "device"])
def test_a_device_may_come_after_the_sanitizer_and_go_before_or_after_it(first_off):
    san, gpu = cudalens.sanitize(), device("h100")
    san.start()
    gpu.enable()
    try:
        race(torch.cuda.Stream())
        torch.cuda.Event().query()
    finally:
        for one in (san.stop, gpu.disable) if first_off == "sanitizer" else (gpu.disable, san.stop):
            one()
    assert len(san.races) == 1
    assert san.error is None
    assert stack_of_modes() == []
    assert torch.zeros(3).sum() == 0
    with device("h100"), cudalens.sanitize() as again:
        race(torch.cuda.Stream())
    assert len(again.races) == 1


def test_one_sanitizer_outlives_several_devices():
    with cudalens.sanitize() as san:
        for _ in range(2):
            with device("h100"):
                x = race(torch.cuda.Stream())
            x.add(1)
    assert san.error is None
    assert [found.count for found in san.races] == [2]


def test_without_a_device_it_has_nothing_to_state():
    with cudalens.sanitize() as san:
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()
        assert x.grad.tolist() == [2, 2, 2]
    assert (san.races, san.error, san.status().num_launches) == ([], None, 0)


def test_threads_that_start_while_it_is_on_are_seen(gpu):
    x = torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    seen = []

    def work():
        with torch.cuda.stream(torch.cuda.Stream()):
            x.fill_(2)
        seen.append(len(stack_of_modes()))

    with cudalens.sanitize() as san:
        x.fill_(1)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [found.kind for found in san.races] == [RaceKind.WRITE_AFTER_WRITE]
    assert seen == [2]
    assert "run" not in vars(thread)
    stack = frames_of(san.races[0].second.stack)
    assert stack[0].function == "work"
    assert stack[-1].function == "_bootstrap"
    assert not [frame for frame in stack if is_own(frame.filename)]


def test_many_threads_at_once(gpu):
    def work():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x = torch.ones(N, device="cuda")
            for _ in range(30):
                x = (x + 1)[1:].contiguous()
        stream.synchronize()

    with cudalens.sanitize() as san:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert san.error is None
    assert san.status().num_launches >= 4 * 31


def test_modes_of_the_users_own(side):
    class Count(TorchDispatchMode):
        num = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Count.num += 1
            return func(*args, **(kwargs or {}))

    with cudalens.sanitize() as san, Count():
        race(side)
    assert Count.num >= 3
    assert len(san.races) == 1


def test_tensor_subclasses_go_first_and_what_they_call_is_seen(side):
    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*[a.inner if isinstance(a, Wrapped) else a for a in args], **(kwargs or {}))

    x = torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        x.fill_(1)
        with torch.cuda.stream(side):
            torch.ops.aten.add_.Scalar(Wrapped(x), 1)
    assert [found.kind for found in san.races] == [RaceKind.WRITE_AFTER_WRITE]


# When something is wrong


@pytest.fixture
def broken_engine(monkeypatch):
    monkeypatch.setattr(Detector, "launch_op", lambda self, op: 1 / 0)


def test_an_error_in_the_sanitizer_ends_it_and_not_the_program(side, broken_engine):
    x = torch.ones(N, device="cuda")
    with cudalens.sanitize() as san:
        with pytest.warns(RuntimeWarning, match="is off: ZeroDivisionError") as caught:  # noqa: PT031
            for _ in range(3):
                x.fill_(3)
                assert san.races == []
        assert len(caught) == 1
        assert x.sum().item() == 3 * N
        assert not san.is_on
        assert not gpu_trace.is_on()
        assert "off, because of an error in it: ZeroDivisionError" in str(san.status())
    assert isinstance(san.error, ZeroDivisionError)
    assert not [mode for mode in stack_of_modes() if getattr(mode, modes.OBSERVES, False)]


class Unruly(torch.Tensor):
    """A tensor of the user's that does not say where its memory is."""

    def untyped_storage(self):
        raise KeyError("no storage today")


def test_a_tensor_that_breaks_it_ends_it_once_and_the_user_keeps_result_and_exception():
    x = torch.ones(N).as_subclass(Unruly)
    with cudalens.sanitize(on_race="raise") as san:
        with pytest.warns(RuntimeWarning, match="sanitizer is off: KeyError: 'no storage today' in it") as warned:
            out = x.sum()
        assert out.item() == N
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ZeroDivisionError):
                _ = x.sum() / (1 // 0)
    assert len(warned) == 1
    assert (type(san.error), san.is_on) == (KeyError, False)
    with san:  # it may be switched on again
        assert (torch.ones(N) + 1).sum() == 2 * N
        assert (san.error, san.is_on) == (None, True)


def test_an_error_in_it_on_the_way_of_an_operator_that_fails_leaves_the_users_exception():
    with cudalens.sanitize() as san, pytest.raises(RuntimeError, match="must match"):
        _ = torch.ones(3).as_subclass(Unruly) + torch.ones(4)
    assert san.error is None


@pytest.mark.parametrize(
    "record",
    [gpu_trace.EventRecorded(cuda_event=[], stream=0), gpu_trace.EventSynchronized(cuda_event={})],
)
def test_a_record_that_makes_no_sense_ends_it_once(gpu, record):
    x = torch.ones(N, device="cuda")
    with cudalens.sanitize() as san:
        x.add_(1)
        with pytest.warns(RuntimeWarning, match="sanitizer is off") as warned:  # noqa: PT031 - once for both
            gpu_trace.emit(record)
            gpu_trace.emit(record)
        assert (x + 1).sum().item() == 3 * N
    assert len(warned) == 1
    assert san.error is not None
    assert not gpu_trace.is_on()
    assert str(san.status()).startswith("stream-race sanitizer: off, because of an error in it")


def test_an_error_while_warnings_are_errors_does_not_disturb_the_program(gpu, broken_engine):
    x = torch.ones(N, device="cuda")
    with warnings.catch_warnings(), cudalens.sanitize() as san:
        warnings.simplefilter("error")
        x.fill_(3)
    assert isinstance(san.error, ZeroDivisionError)


def test_an_operators_own_error_comes_out_as_it_is(gpu):
    with cudalens.sanitize() as san:
        with pytest.raises(RuntimeError, match="size"):
            torch.ones(3, device="cuda").add_(torch.ones(4, device="cuda"))
        torch.ones(3, device="cuda").add_(1)
    assert san.error is None


def test_the_status_shows_counts_and_state(side):
    san = cudalens.sanitize()
    assert str(san.status()).startswith("stream-race sanitizer: off")
    with san:
        race(side, times=2)
        status = san.status()
    assert (status.is_on, status.num_findings, status.num_seen) == (True, 1, 2)
    assert status.num_launches == 5
    assert "1 race, seen 2 times" in str(status)


def test_the_log_can_be_judged_again(side):
    from cudalens.sanitizer.engine import Detector

    with cudalens.sanitize() as san:
        x = torch.ones(N, device="cuda")
        with torch.cuda.stream(side):
            x.sum()
        h = x.to("cpu", non_blocking=True)
        h.sum()
        detector = Detector()
        for record in san.log.records():
            detector.add(record)
    assert [found.kind for found in detector.races] == [found.kind for found in san.races]
    assert [found.second.place for found in detector.races] == [found.second.place for found in san.races]
    assert san.log.records() == []


def test_the_streams_that_something_ran_on_are_counted(side):
    other = torch.cuda.Stream()
    with cudalens.sanitize() as san:
        assert san.status().num_streams == 0
        race(side)
        assert san.status().num_streams == 2
        count = san.count_streams()
        side.wait_stream(torch.cuda.current_stream())
        assert count() == 0
        with torch.cuda.stream(side):
            torch.ones(N, device="cuda")
            torch.ones(N, device="cuda")
        assert count() == 1
        with torch.cuda.stream(other):
            torch.ones(N, device="cuda")
        assert (count(), san.status().num_streams) == (2, 3)
    assert "on 3 streams checked" in str(san.status())
    assert san.races[0].count == 1


def test_a_profile_beneath_it_counts_its_own(side):
    with cudalens.sanitize():
        race(side)
        with cudalens.profile("p") as run:
            torch.ones(N, device="cuda").add_(1)
    judged = run.trace.info.judged
    assert (judged.num_operations, judged.num_streams) == (2, 1)


def test_code_of_cells_that_ran_is_let_go_of_unless_a_race_was_found_in_it(side):
    x = torch.ones(N, device="cuda")

    def cell(source):
        space = {"x": x, "torch": torch, "side": side}
        code = compile(source, "<cell>", "exec")
        with cudalens.sanitize() as san:
            exec(code, space)
        return san, weakref.ref(code)

    def code_is_let_go_of(code):
        gc.collect()
        with cudalens.sanitize():
            pass
        gc.collect()
        return code() is None

    san, clean = cell("x.add_(1)")
    assert code_is_let_go_of(clean)
    san, racy = cell("x.add_(1)\nwith torch.cuda.stream(side):\n    x.add_(1)")
    assert not code_is_let_go_of(racy)
    assert san.races[0].second.place.line == 3
    del san
    assert code_is_let_go_of(racy)


# The end of a device


class Notebook:
    """Cells that run on one virtual device after another, while their tensors stay alive."""

    def __init__(self):
        self.kept = []

    def two_streams(self):
        """The first large block of the device belongs to a side stream, which nothing waits for."""
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            self.kept += [side, torch.ones(LARGE, LARGE, device="cuda")]

    def train(self):
        """A loop on one stream, which uses the addresses of the tensors of the earlier device again."""
        model = torch.nn.Linear(LARGE, LARGE, device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, LARGE, device="cuda")).sum().backward()
            optimizer.step()
        self.kept += [model, optimizer]


@pytest.mark.parametrize("specs", [("h100", "h100"), ("h100x2", "h100"), ("h100", "a100x2")])
def test_a_device_that_takes_the_place_of_another_begins_with_no_history(specs):
    notebook = Notebook()
    with cudalens.sanitize() as san:
        with device(specs[0]):
            notebook.two_streams()
        with device(specs[1]):
            notebook.train()
    assert san.error is None
    assert san.races == []


def test_a_race_on_the_second_device_is_found_and_its_fix_is_checked_on_it(gpu_after_another):
    x, side = gpu_after_another
    with cudalens.sanitize() as san:
        x.fill_(1)
        with torch.cuda.stream(side):
            x.mul_(2)
    (finding,) = san.findings()
    assert finding.race.kind is RaceKind.WRITE_AFTER_WRITE
    assert finding.fix is not None


@pytest.fixture
def gpu_after_another():
    with device("h100"):
        old = torch.ones(N, device="cuda")
    with device("h100"):
        yield torch.ones(N, device="cuda"), torch.cuda.Stream()
    del old


def test_graphs_and_events_of_a_device_end_with_it():
    with cudalens.sanitize() as san:
        with device("h100"):
            side, x = torch.cuda.Stream(), torch.ones(N, device="cuda")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                x.add_(1)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                graph.replay()
        with device("h100"):
            side, y = torch.cuda.Stream(), torch.ones(N, device="cuda")
            again = torch.cuda.CUDAGraph()
            with torch.cuda.graph(again):
                y.mul_(2)
            again.replay()
            y.add_(1)
    assert san.error is None
    assert san.races == []


def test_replays_of_a_graph_that_was_captured_before_are_counted_as_not_checked(gpu):
    x, graph = torch.ones(64, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    torch.cuda.synchronize()
    with cudalens.sanitize() as san, cudalens.profile(keep=False) as run:
        for _ in range(3):
            graph.replay()
        y + 1
    unseen = "3 replays of CUDA graphs that were captured before the sanitizer was on: not checked"
    assert san.status().num_unseen_replays == 3
    assert "  3 replays of CUDA graphs that were captured before it was on: not checked" in str(san.status())
    for trace in (run.trace, san.trace()):
        assert races_verdict(trace).endswith(f"1 operation on 1 stream checked; {unseen}")


def test_replays_of_a_graph_that_was_captured_while_it_was_on_are_checked(gpu):
    x, graph = torch.ones(64, device="cuda"), torch.cuda.CUDAGraph()
    with cudalens.sanitize() as san:
        with torch.cuda.graph(graph):
            x.mul_(2)
        graph.replay()
    assert san.status().num_unseen_replays == 0
    assert "not checked" not in races_verdict(san.trace())

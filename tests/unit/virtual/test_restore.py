"""A virtual device restores everything: also after exceptions, interrupts, failed starts and active user modes."""

from __future__ import annotations

import gc
import inspect
import random
import signal
import sys
import threading
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed
import torch.utils.cpp_extension
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch_state import changes, state

import cudalens.virtual
from cudalens.errors import VirtualDeviceError
from cudalens.virtual import parts
from cudalens.virtual.allocator import Block
from cudalens.virtual.patching import Patches
from cudalens.virtual.tensors.residency import Residence
from cudalens.virtual.timing.streams import CudaEvent, Stream

pytestmark = pytest.mark.filterwarnings("ignore:.*reduce_op. is deprecated:FutureWarning")


def use() -> None:
    """Use every part that is patched."""
    torch.manual_seed(1)
    side = torch.cuda.Stream()
    layer = torch.nn.Linear(4, 4, device="cuda")
    optimizer = torch.optim.Adam(layer.parameters())
    scaler = torch.amp.GradScaler("cuda")
    with torch.cuda.stream(side), torch.autocast("cuda"):
        loss = layer(torch.rand(2, 4).pin_memory().cuda(non_blocking=True)).float().sum()
    with torch.autocast("cpu"):
        torch.ones(2, 2) @ torch.ones(2, 2)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    graph = torch.cuda.CUDAGraph()
    static = torch.zeros(2, device="cuda")
    with torch.cuda.graph(graph):
        static += 1
    graph.replay()
    thread = threading.Thread(target=lambda: torch.ones(2, device="cuda").sum().item())
    thread.start()
    thread.join()
    torch.compile(lambda x: x, backend="eager")
    torch.cuda.synchronize()


@pytest.fixture(autouse=True)
def warm() -> None:
    """Import and register everything that torch loads at first use."""
    if not hasattr(warm, "done"):
        with cudalens.virtual.device("h100x2"):
            use()
        warm.done = True


def test_a_block_leaves_everything_as_it_was() -> None:
    before = state()
    with cudalens.virtual.device("h100x2"):
        use()
        assert changes(before, state()) != []
    assert changes(before, state()) == []


def test_a_block_that_raises_leaves_everything_as_it_was() -> None:
    before = state()

    def fail() -> None:
        with cudalens.virtual.device("h100"):
            use()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert changes(before, state()) == []


def test_enable_and_disable_do_the_same() -> None:
    before = state()
    entered = cudalens.virtual.device("h100")
    for _ in range(3):
        entered.enable()
        use()
        entered.disable()
        entered.disable()
        assert changes(before, state()) == []


@pytest.mark.parametrize("place", range(len(parts.INSTALL)))
def test_a_part_that_fails_takes_the_others_with_it(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    def fail(patches: Patches, gpus: object) -> None:
        raise ZeroDivisionError

    before = state()
    monkeypatch.setattr(parts, "INSTALL", (*parts.INSTALL[:place], fail, *parts.INSTALL[place + 1 :]))
    with pytest.raises(ZeroDivisionError):
        cudalens.virtual.device("h100").enable()
    assert changes(before, state()) == []
    assert cudalens.virtual.active() is None


def test_a_mode_that_fails_takes_the_others_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(gpus: object) -> object:
        raise ZeroDivisionError

    before = state()
    monkeypatch.setattr(parts, "MODES", (*parts.MODES, fail))
    with pytest.raises(ZeroDivisionError), cudalens.virtual.device("h100"):
        pytest.fail("it was entered")
    assert changes(before, state()) == []


def test_a_device_may_be_disabled_inside_of_its_block() -> None:
    before = state()
    with cudalens.virtual.device("h100") as entered:
        use()
        entered.disable()
        assert changes(before, state()) == []
    assert changes(before, state()) == []


def test_devices_do_not_nest() -> None:
    before = state()
    with cudalens.virtual.device("h100") as outer:
        with pytest.raises(VirtualDeviceError, match="do not nest"), cudalens.virtual.device("a100"):
            pytest.fail("it was entered")
        assert cudalens.virtual.active() is outer
        assert torch.ones(2, device="cuda").is_cuda
    assert changes(before, state()) == []


class _Function(TorchFunctionMode):
    def __torch_function__(self, func: Callable[..., object], types: object, args=(), kwargs=None) -> object:
        return func(*args, **(kwargs or {}))


class _Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Callable[..., object], types: object, args=(), kwargs=None) -> object:
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kinds", [(_Function,), (_Dispatch,), (_Function, _Dispatch, _Function, _Dispatch)])
def test_modes_that_the_user_leaves_on_stay_and_end_well(kinds: tuple[type, ...]) -> None:
    before = state()
    modes = [kind() for kind in kinds]
    with cudalens.virtual.device("h100"):
        for mode in modes:
            mode.__enter__()
    assert torch._C._len_torch_function_stack() == sum(kind is _Function for kind in kinds)
    assert torch._C._len_torch_dispatch_stack() == sum(kind is _Dispatch for kind in kinds)
    assert torch.ones(2).device == torch.device("cpu")
    for mode in reversed(modes):
        mode.__exit__(None, None, None)
    assert changes(before, state()) == []


@pytest.mark.parametrize("earlier", [None, "meta"])
def test_a_default_device_of_the_block_ends_with_it(earlier: str | None) -> None:
    torch.set_default_device(earlier)
    try:
        before = state()
        with cudalens.virtual.device("h100"):
            torch.set_default_device("cuda")
            assert torch.ones(2).is_cuda
        assert changes(before, state()) == []
        assert torch.ones(2).device.type == (earlier or "cpu")
    finally:
        torch.set_default_device(None)


def test_a_thread_that_outlives_the_device_goes_on_without_it() -> None:
    begun, go, places = threading.Event(), threading.Event(), []

    def work() -> None:
        places.append(torch.ones(2, device="cuda").device.type)
        begun.set()
        go.wait(30)
        places.append((torch.ones(2) + 1).device.type)

    with cudalens.virtual.device("h100"):
        thread = threading.Thread(target=work)
        thread.start()
        assert begun.wait(30)
    go.set()
    thread.join()
    assert places == ["cuda", "cpu"]


def _run_interrupted(at: int | None) -> tuple[int, bool]:
    """Run a short block, with Ctrl-C at the line of that number; returns how many lines ran, and whether it struck."""
    # An interrupt as an ``except`` begins can leave its exception as the one being handled, for good (Python 3.11). A
    # generator has its own such state, which ends with it, so the following tests are not affected.
    return next(_interrupted(at))


def _interrupted(at: int | None) -> Iterator[tuple[int, bool]]:
    num_lines = 0

    def count(frame: types.FrameType, event: str, argument: object) -> object:
        nonlocal num_lines
        if event == "line":
            num_lines += 1
            if num_lines == at:
                signal.raise_signal(signal.SIGINT)
        return count

    was_tracing = sys.gettrace()
    sys.settrace(count)
    try:
        with cudalens.virtual.device("h100"):
            torch.ones(2, device="cuda").sum().item()
        has_struck = False
    except KeyboardInterrupt:
        has_struck = True
    finally:
        sys.settrace(was_tracing)
    yield num_lines, has_struck


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_moment_leaves_everything_as_it_was() -> None:
    """Ctrl-C while entering, inside, and while leaving. Where Python swallows one (in a ``__del__``), it is lost."""
    before, draw, num_struck = state(), random.Random(0), 0
    for position in range(60):
        num_lines, _ = _run_interrupted(None)
        at = num_lines - position if position < 20 else draw.randrange(1, num_lines)
        num_struck += _run_interrupted(at)[1]
        assert changes(before, state()) == [], at
        assert cudalens.virtual.active() is None
    assert num_struck > 40
    assert sys.exc_info() == (None, None, None)


def test_an_interrupt_in_the_block_reaches_the_caller_at_once() -> None:
    reached = []

    def interrupt() -> None:
        with cudalens.virtual.device("h100"):
            signal.raise_signal(signal.SIGINT)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert reached == []


def _iterate(num_iterations: int, work: dict[str, object]) -> None:
    """Small steps that use every resource: memory, operators, events, streams, backward."""
    side, weight, event = work["side"], work["weight"], torch.cuda.Event()
    for step in range(num_iterations):
        x = torch.ones(8, 8, device="cuda")
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.default_stream())
            hidden = torch.mm(weight, x)
            event.record()
        torch.cuda.default_stream().wait_event(event)
        loss = hidden.exp()
        if step % 10 == 0:
            loss.sum().backward()
            weight.grad = None
        if step % 1000 == 0:
            torch.cuda.synchronize()


_COUNTED = (Block, CudaEvent, Residence, Stream)


def _counts(gpus: object) -> dict[str, int]:
    """Live objects of ours, and the sizes of all that the device keeps."""
    gc.collect()
    objects = Counter(type(value).__name__ for value in gc.get_objects() if isinstance(value, _COUNTED))
    sizes = {f"size of {path}": size for path, size in _sizes(gpus, "gpus", set(), 6)}
    return dict(objects) | sizes


def _sizes(value: object, path: str, seen: set[int], depth: int) -> list[tuple[str, int]]:
    """The number of items in the containers of an object, recursively."""
    if id(value) in seen or depth == 0 or inspect.ismodule(value) or isinstance(value, type | weakref.ref):
        return []
    seen.add(id(value))
    if isinstance(value, list | dict | set) or type(value).__name__ == "deque":
        return [(path, len(value))]
    module = type(value).__module__
    if not module.startswith("cudalens"):
        return []
    names = [*getattr(value, "__dict__", ()), *(n for k in type(value).__mro__ for n in getattr(k, "__slots__", ()))]
    return [
        found
        for name in names
        if hasattr(value, name)
        for found in _sizes(getattr(value, name), f"{path}.{name}", seen, depth - 1)
    ]


def test_ten_thousand_iterations_stay_flat() -> None:
    with cudalens.virtual.device("h100") as device:
        work: dict[str, object] = {
            "side": torch.cuda.Stream(),
            "weight": torch.ones(8, 8, device="cuda", requires_grad=True),
        }
        _iterate(1000, work)
        before, allocated = _counts(device.gpus), torch.cuda.memory_stats()
        _iterate(9000, work)
        after = _counts(device.gpus)
        grown = {name: (before.get(name, 0), size) for name, size in after.items() if size > before.get(name, 0) + 16}
        history = device.gpus.machine.on_switch.__self__._per_thread.history
        stats = torch.cuda.memory_stats()
    assert grown == {}
    assert len(history) <= 8192
    for name in ("allocated_bytes.all.current", "reserved_bytes.all.peak", "segment.all.current"):
        assert stats[name] == allocated[name], name

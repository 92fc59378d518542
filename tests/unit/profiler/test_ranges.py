"""The program's own ranges: blocks, functions of every kind, futures; and what emit_nvtx refuses."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading

import pytest
import torch
from torch.autograd import profiler as torch_profiler

from cudalens import ProfilerBusyError, ProfilerError, VirtualDeviceError, emit_nvtx, profile, record_function, virtual


def recorded(work, **options):
    with profile(cpu_only=True, keep=False, **options) as p:
        result = work()
    return p.trace.events, result


def count(events, name):
    return int((events["name"] == name).sum())


def above(events, name):
    """Names of the ranges right above each row of `name`, by annotation."""
    parents = events.loc[events["name"] == name, "parent"].to_numpy(dtype=int, na_value=-1)
    return [None if row < 0 else str(events["name"].iloc[row]) for row in parents]


def test_a_block_is_an_annotation_above_its_operators():
    def work():
        with record_function("outer", "x=3") as range_, record_function("inner"):
            torch.ones(2)
        assert range_.name == "outer"

    events, _ = recorded(work)
    assert above(events, "aten::ones") == ["inner"]
    assert above(events, "inner") == ["outer"]
    assert set(events.loc[events["name"].isin(["outer", "inner"]), "cat"]) == {"user_annotation"}


def test_args_reach_torch():
    with torch_profiler.profile(use_kineto=True, record_shapes=True) as peer:
        with record_function("mine", "lr=0.1"):
            pass
        with torch_profiler.record_function("theirs", "lr=0.1"):
            pass
    sent = {e.name(): [e.concrete_inputs(), e.shapes()] for e in peer.kineto_results.events()}
    assert sent["mine"] == sent["theirs"]


def test_one_object_serves_again_within_itself_and_on_threads():
    range_ = record_function("again")

    def deeper(n):
        with range_:
            torch.ones(n)
            if n > 1:
                deeper(n - 1)

    def work():
        deeper(3)
        threads = [threading.Thread(target=deeper, args=(2,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    events, _ = recorded(work)
    assert count(events, "again") == 3
    assert above(events, "aten::ones") == ["again"] * 3


def test_a_function_keeps_what_it_is():
    @record_function()
    def train(n, *, scale=1):
        """Trains."""
        return torch.ones(n).mul(scale)

    events, result = recorded(lambda: train(2, scale=3))
    assert result.tolist() == [3, 3]
    assert above(events, "aten::ones") == [train.__qualname__]
    assert (train.__name__, train.__doc__) == ("train", "Trains.")
    with pytest.raises(TypeError, match=r"write @record_function\(\)"):
        record_function(lambda: None)
    with pytest.raises(ProfilerError, match="a range needs a name"):
        record_function().__enter__()


def test_an_exception_ends_the_range():
    @record_function("fails")
    def fails():
        raise ValueError("x")

    def work():
        with pytest.raises(ValueError, match="x"):
            fails()
        torch.ones(2)

    events, _ = recorded(work)
    assert count(events, "fails") == 1
    assert above(events, "aten::ones") == [None]


def test_a_coroutine_function_lasts_from_its_first_step_to_its_end():
    @record_function("serve")
    async def serve(n):
        torch.ones(n)
        await asyncio.sleep(0)
        torch.zeros(n)
        return n

    async def both():
        return await asyncio.gather(serve(2), serve(3))

    assert inspect.iscoroutinefunction(serve)
    events, result = recorded(lambda: asyncio.run(both()))
    assert result == [2, 3]
    ranges = events[events["name"] == "serve"]
    assert len(ranges) == 2
    begin, end = ranges["ts"].tolist(), (ranges["ts"] + ranges["dur"]).tolist()
    ones, zeros = (events.loc[events["name"] == f"aten::{name}", "ts"].tolist() for name in ("ones", "zeros"))
    assert begin[0] < ones[0] < zeros[0] < end[0] < end[1]
    assert begin[0] < begin[1] < ones[1] < zeros[1] < end[1]


def test_a_generator_function_is_a_range_for_each_stretch_of_its_own():
    closed = []

    @record_function("load")
    def load(n):
        try:
            for k in range(n):
                torch.ones(2)
                sent = yield k
                if sent:
                    torch.zeros(2)
        finally:
            closed.append(True)
            torch.full((1,), 1.0)
        return "end"

    def work():
        generator = load(2)
        assert next(generator) == 0
        torch.eye(2)
        assert generator.send("go") == 1
        with pytest.raises(StopIteration) as stopped:
            next(generator)
        assert stopped.value.value == "end"
        early = load(5)
        next(early)
        early.close()
        thrown = load(5)
        next(thrown)
        with pytest.raises(KeyError):
            thrown.throw(KeyError("k"))

    events, _ = recorded(work)
    assert inspect.isgeneratorfunction(load)
    assert closed == [True] * 3
    assert count(events, "load") == 3 + 2 + 2
    assert set(above(events, "aten::ones") + above(events, "aten::zeros") + above(events, "aten::full")) == {"load"}
    assert above(events, "aten::eye")[0] is None


def test_an_asynchronous_generator_function():
    @record_function("stream")
    async def stream(n):
        for k in range(n):
            torch.ones(2)
            sent = yield k
            await asyncio.sleep(0)
            if sent:
                torch.zeros(2)

    async def work():
        generator = stream(3)
        assert await anext(generator) == 0
        torch.eye(2)
        assert await generator.asend("go") == 1
        await generator.aclose()
        assert [k async for k in stream(2)] == [0, 1]

    assert inspect.isasyncgenfunction(stream)
    events, _ = recorded(lambda: asyncio.run(work()))
    assert count(events, "stream") == 3 + 3
    assert set(above(events, "aten::ones") + above(events, "aten::zeros")) == {"stream"}
    assert above(events, "aten::eye")[0] is None


def test_a_range_lasts_until_its_future_is_done():
    def work():
        future = torch.futures.Future()
        with record_function("call") as range_:
            extended = range_.until(future)
            with pytest.raises(ProfilerError, match="'call' waits for a future already"):
                range_.until(future)
        torch.ones(2)
        future.set_result(7)
        return extended.wait()

    events, result = recorded(work)
    assert result == 7
    (call,) = events[events["name"] == "call"].itertuples()
    (ones,) = events[events["name"] == "aten::ones"].itertuples()
    assert call.ts < ones.ts
    assert ones.ts + ones.dur <= call.ts + call.dur
    with pytest.raises(ProfilerError, match="inside the block"):
        record_function("x").until(torch.futures.Future())


def test_a_range_left_twice_or_elsewhere_reports_it():
    range_ = record_function("r")
    range_.__enter__()
    errors = []

    def leave():
        try:
            range_.__exit__(None, None, None)
        except ProfilerError as error:
            errors.append(str(error))

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    range_.__exit__(None, None, None)
    leave()
    assert errors == ["the range 'r' is not open here: it was left on another thread, or twice."] * 2


def test_emit_nvtx_that_is_off_or_cannot_be():
    with emit_nvtx(enabled=False):
        assert not torch.autograd._profiler_enabled()
    with profile(cpu_only=True, keep=False), pytest.raises(ProfilerBusyError, match="before emit_nvtx"), emit_nvtx():
        raise AssertionError("never runs")
    with virtual.device("h100"), pytest.raises(VirtualDeviceError, match="emit_nvtx"), emit_nvtx():
        raise AssertionError("never runs")
    if torch.version.cuda is None:
        with pytest.raises(ProfilerError, match="needs a CUDA build"), emit_nvtx(record_shapes=True):
            raise AssertionError("never runs")
    assert not torch.autograd._profiler_enabled()
    assert not torch_profiler._is_profiler_enabled


def test_what_is_no_text_and_no_future_of_torchs_is_refused():
    with pytest.raises(TypeError, match="args is int, expected text"):
        record_function("x", 5)
    with record_function("x") as range_:
        with pytest.raises(TypeError, match=r"takes a torch\.futures\.Future, not concurrent\.futures"):
            range_.until(concurrent.futures.Future())
        done = torch.futures.Future()
        extended = range_.until(done)
    done.set_result(3)
    assert extended.wait() == 3

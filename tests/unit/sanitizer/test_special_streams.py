"""Streams with a meaning of their own: the legacy and per-thread default streams, and blocking streams of others."""

import ctypes
import threading
from types import SimpleNamespace

import pytest
import torch

import cudalens
from cudalens.device import streams as device_streams
from cudalens.sanitizer.fixes.recorded import judge

LEGACY, PER_THREAD = 1, 2


def blocking_stream():
    """A stream of another library, made with ``cudaStreamCreate``."""
    handle = ctypes.c_uint64()
    torch.cuda.cudart().cudaStreamCreate(ctypes.addressof(handle))
    return torch.cuda.ExternalStream(handle.value)


def races_between(one, two):
    """Races of a write on one stream and a write on another one."""
    with cudalens.sanitize() as san:
        x = torch.ones(64, device="cuda")
        torch.cuda.synchronize()
        for stream in (one, two):
            with torch.cuda.stream(stream):
                x.add_(1)
    return san.races


def test_handle_1_is_the_legacy_default_stream(gpu):
    assert not races_between(torch.cuda.ExternalStream(LEGACY), torch.cuda.default_stream())
    (race,) = races_between(torch.cuda.ExternalStream(LEGACY), torch.cuda.Stream())
    assert race.first.stream == (0, 0)


def test_handle_1_is_the_default_stream_of_the_device_on_which_it_is_used(gpu):
    with torch.cuda.device(1):
        other = torch.cuda.ExternalStream(LEGACY)
        with cudalens.sanitize() as san:
            x = torch.ones(64, device="cuda:1")
            with torch.cuda.stream(other):
                x.add_(1)
            with torch.cuda.stream(torch.cuda.Stream()):
                x.add_(1)
    assert {race.first.stream for race in san.races} == {(1, 0)}


def test_the_per_thread_default_stream_is_ordered_with_the_legacy_one(gpu):
    per_thread = torch.cuda.ExternalStream(PER_THREAD)
    assert not races_between(per_thread, torch.cuda.default_stream())
    assert not races_between(torch.cuda.default_stream(), per_thread)
    assert races_between(per_thread, torch.cuda.Stream())


def test_each_thread_has_its_own_per_thread_default_stream(gpu):
    def add():
        with torch.cuda.stream(torch.cuda.ExternalStream(PER_THREAD)):
            x.add_(1)

    with cudalens.sanitize() as san:
        x = torch.ones(64, device="cuda")
        torch.cuda.synchronize()
        add()
        thread = threading.Thread(target=add)
        thread.start()
        thread.join()
    (race,) = san.races
    assert race.first.stream != race.second.stream


def test_synchronizing_the_per_thread_default_stream_covers_that_of_the_calling_thread(gpu):
    per_thread = torch.cuda.ExternalStream(PER_THREAD)
    with cudalens.sanitize() as san:
        x = torch.ones(64, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(per_thread):
            x.add_(1)
        per_thread.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            x.add_(1)
    assert not san.races


def test_blocking_streams_are_ordered_with_the_legacy_default_stream_only(gpu):
    one, two = blocking_stream(), blocking_stream()
    assert not races_between(one, torch.cuda.default_stream())
    assert not races_between(torch.cuda.default_stream(), one)
    assert not races_between(one, torch.cuda.ExternalStream(LEGACY))
    assert races_between(one, two)
    assert races_between(one, torch.cuda.Stream())


def test_a_blocking_stream_that_is_first_seen_while_another_device_is_current(gpu):
    with torch.cuda.device(1):
        stream = blocking_stream()
        x = torch.ones(64, device="cuda:1")
    with cudalens.sanitize() as san:
        stream.record_event()  # the callback has no device
        with torch.cuda.stream(stream):
            x.add_(1)
        with torch.cuda.device(1):
            x.mul_(2)
    assert not san.races


def test_a_fix_is_checked_with_the_order_of_blocking_streams(gpu):
    blocking, side = blocking_stream(), torch.cuda.Stream()
    with cudalens.sanitize() as san:
        x, y = torch.ones(64, device="cuda"), torch.ones(64, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(blocking):
            x.add_(1)
        x.mul_(2)
        with torch.cuda.stream(side):
            y.add_(1)
        y.mul_(2)
        assert judge(san.log.records()).keys() == {race.key for race in san.races}
    (finding,) = san.findings()
    assert finding.fix is not None


def test_a_driver_without_that_function_is_not_asked(monkeypatch):
    monkeypatch.setattr(device_streams, "_driver", lambda: None)
    assert device_streams.is_blocking(4096, 0) is False


@pytest.mark.parametrize(("flags", "is_blocking"), [(0, True), (1, False)])
def test_the_driver_is_asked_for_the_flags_of_a_stream(monkeypatch, flags, is_blocking):
    def get_flags(stream, pointer):
        ctypes.cast(pointer, ctypes.POINTER(ctypes.c_uint))[0] = flags
        return 0

    monkeypatch.setattr(device_streams, "_driver", lambda: SimpleNamespace(cuStreamGetFlags=get_flags))
    assert device_streams.is_blocking(4096, 0) is is_blocking

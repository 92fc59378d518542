"""Helpers for graph tests: capture a function, start and end a capture by hand, record device work."""

from __future__ import annotations

import torch

UNSUPPORTED = "operation not permitted when stream is capturing"


class Log:
    """A recorder that stores the work of streams."""

    def __init__(self):
        self.work, self.calls, self.waits = [], [], []

    def called(self, name, start_ns, end_ns, correlation_id):
        self.calls.append((name, start_ns, end_ns, correlation_id))

    def worked(self, stream, work, placed):
        self.work.append((stream, work, placed))

    def synchronized(self, *what):
        self.waits.append(what)

    def begin(self, operator):
        return operator

    def end(self, begun):
        pass


def capture(program, **options):
    """Capture a function; returns the graph and what the function returned."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        out = program()
    return graph, out


class Capturing:
    """A capture that is started and ended by hand, on its own stream."""

    def __init__(self, mode="global", stream=None):
        self.graph, self.mode = torch.cuda.CUDAGraph(), mode
        self.stream = torch.cuda.Stream() if stream is None else stream

    def __enter__(self):
        self.context = torch.cuda.stream(self.stream)
        self.context.__enter__()
        self.graph.capture_begin(capture_error_mode=self.mode)
        return self

    def end(self):
        with torch.cuda.stream(self.stream):
            self.graph.capture_end()

    def __exit__(self, *exception):
        self.graph.reset()
        self.context.__exit__(*exception)


def assert_cuda_error(info, code, text):
    assert type(info.value) is getattr(torch, "AcceleratorError", RuntimeError)
    assert str(info.value).startswith(f"CUDA error: {text}\n")
    assert getattr(info.value, "error_code", code) == code


def spin(milliseconds=1.0):
    torch.cuda._sleep(int(milliseconds * 1e6 * 1.98))


def fork(mid):
    """A capture that forks to a side stream and joins it again; `mid` is the work of each branch."""
    side = torch.cuda.Stream()

    def program():
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            right = mid()
        left = mid()
        main.wait_stream(side)
        return left, right

    return program

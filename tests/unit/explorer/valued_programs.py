"""Recorded programs (``../shared/races``) as PyTorch code whose values show which access came first."""

from __future__ import annotations

import re

import torch

ACCESS = re.compile(r"(?P<tensor>\w+)(?:\[(?P<numbers>[\d:]+)\])?")


class Program:
    """Runs a recorded program with operators: a launch's reads are summed up and kept, each write is of a new value.

    Attributes:
        outputs: What launches and the host read.
        tensors: What lives in the end.
    """

    def __init__(self):
        self.outputs, self.tensors, self.addresses = [], {}, {}
        self.streams, self.events = {"s0": torch.cuda.default_stream()}, {}
        self.value = 0.0

    def run(self, ops):
        for op in ops:
            getattr(self, op["op"])(**{key: value for key, value in op.items() if key not in ("op", "csan", "name")})

    def stream(self, name):
        if name not in self.streams:
            self.streams[name] = torch.cuda.Stream()
        return self.streams[name]

    def event(self, name):
        return self.events.setdefault(name, torch.cuda.Event())

    def alloc(self, t, bytes, stream=None, host=False, reuse=None):
        if host:
            # Not what chance left there: that may be the very values that a late copy brings.
            tensor = torch.full((bytes // 4,), -0.5).pin_memory()
        else:
            with torch.cuda.stream(self.stream(stream)):
                tensor = torch.empty(bytes // 4, device="cuda")
        assert not reuse or tensor.data_ptr() == self.addresses[reuse], "the allocator was to hand the block out again"
        self.tensors[t], self.addresses[t] = tensor, tensor.data_ptr()

    def free(self, t):
        del self.tensors[t]

    def record_stream(self, t, stream):
        self.tensors[t].record_stream(self.stream(stream))

    def view(self, text):
        match = ACCESS.fullmatch(text)
        tensor = self.tensors[match["tensor"]]
        if not match["numbers"]:
            return tensor
        numbers = [int(n) // 4 for n in match["numbers"].split(":")]
        if len(numbers) == 2:
            return tensor[numbers[0] : numbers[1]]
        low, high, step, run = numbers
        return tensor.as_strided((-(-(high - low) // step), run), (step, 1), low)

    def launch(self, stream, reads, writes):
        reads, writes = [self.view(t) for t in reads], [self.view(t) for t in writes]
        with torch.cuda.stream(self.stream(stream)):
            if any(not t.is_cuda for t in (*reads, *writes)):
                writes[0].copy_(reads[0], non_blocking=True)
                return
            total = sum((tensor.sum() for tensor in reads), torch.zeros((), device="cuda"))
            self.outputs.append(total)
            for tensor in writes:
                self.value += 1.25
                tensor.copy_((total + self.value).expand_as(tensor))

    def event_record(self, event, stream):
        self.event(event).record(self.stream(stream))

    def event_wait(self, event, stream):
        self.event(event).wait(self.stream(stream))

    def event_sync(self, event):
        self.event(event).synchronize()

    def stream_create(self, stream, blocking=False):
        self.stream(stream)

    def stream_sync(self, stream):
        self.stream(stream).synchronize()

    def device_sync(self):
        torch.cuda.synchronize()

    def host_read(self, t):
        self.outputs.append(self.tensors[t].sum())

    def host_write(self, t):
        self.value += 1.25
        self.tensors[t].fill_(self.value)

"""Recorded programs (``../shared/races``) as PyTorch code."""

from __future__ import annotations

import torch

from cudalens.sanitizer import access
from cudalens.sanitizer.replay import _ACCESS


class Program:
    """Runs a recorded program on the device that is there.

    Args:
        san: Receives the tensors' names.
        uses_operators: Whether launches are operators of PyTorch; otherwise they are annotations (`access`).
        after_operator: Called after each operator of a launch.
    """

    def __init__(self, san, *, uses_operators, after_operator=lambda: None):
        self.san, self.uses_operators, self.after_operator = san, uses_operators, after_operator
        self.tensors, self.streams, self.events, self.addresses = {}, {"s0": torch.cuda.default_stream()}, {}, {}

    def run(self, ops):
        for op in ops:
            getattr(self, op["op"])(**{key: value for key, value in op.items() if key not in ("op", "csan")})

    def stream(self, name):
        return self.streams.setdefault(name, torch.cuda.Stream()) if name not in self.streams else self.streams[name]

    def event(self, name):
        if name not in self.events:
            self.events[name] = torch.cuda.Event()
        return self.events[name]

    def alloc(self, t, bytes, stream=None, host=False, reuse=None):
        if host:
            tensor = torch.empty(bytes, dtype=torch.uint8).pin_memory()
        else:
            with torch.cuda.stream(self.stream(stream)):
                tensor = torch.empty(bytes, dtype=torch.uint8, device="cuda")
        if reuse:
            assert tensor.data_ptr() == self.addresses[reuse], "the allocator was to hand the block out again"
        self.san.name_memory(tensor, t)
        self.tensors[t], self.addresses[t] = tensor, tensor.data_ptr()

    def free(self, t):
        del self.tensors[t]

    def record_stream(self, t, stream):
        self.tensors[t].record_stream(self.stream(stream))

    def view(self, text):
        match = _ACCESS.fullmatch(text)
        tensor = self.tensors[match["tensor"]]
        numbers = [int(n) for n in match["numbers"].split(":")] if match["numbers"] else [0, tensor.numel()]
        low, high = numbers[:2]
        if len(numbers) == 2:
            return tensor[low:high]
        step, run = numbers[2:]
        return tensor.as_strided((-(-(high - low) // step), run), (step, 1), low)

    def launch(self, stream, reads, writes, name="kernel"):
        reads, writes = [self.view(t) for t in reads], [self.view(t) for t in writes]
        with torch.cuda.stream(self.stream(stream)):
            if not self.uses_operators:
                access(reads=reads, writes=writes, name=name)
            elif any(not t.is_cuda for t in (*reads, *writes)):
                writes[0].copy_(reads[0], non_blocking=True)
            else:
                for tensor in reads:
                    tensor.sum()
                    self.after_operator()
                for tensor in writes:
                    tensor.fill_(1)
                    self.after_operator()

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
        self.tensors[t].sum()

    def host_write(self, t):
        self.tensors[t].fill_(0)

"""Random operations on a graph's memory pool, compared with a model made of bytes."""

from __future__ import annotations

import numpy as np
import torch
from budget import examples
from graph_helpers import capture
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cudalens.device.graph_backend import TensorPlace, provided
from cudalens.virtual import device

SIZES = (1, 512, 700, 1500, 5000, 1 << 20, (1 << 20) + 512)
DEVICE = "cuda"


class Oracle:
    """The bytes of the pool by address, and the allocated addresses."""

    PAGE = 1 << 20

    def __init__(self):
        self.pages = {}
        self.live = {}

    def read(self, address, num_bytes):
        return np.concatenate([self._page(number)[start:end] for number, start, end in self._parts(address, num_bytes)])

    def write(self, address, values):
        done = 0
        for number, start, end in self._parts(address, len(values)):
            self._page(number)[start:end] = values[done : done + end - start]
            done += end - start

    def fill(self, address, num_bytes, value):
        self.write(address, np.full(num_bytes, value, np.uint8))

    def _page(self, number):
        return self.pages.setdefault(number, np.zeros(self.PAGE, np.uint8))

    def _parts(self, address, num_bytes):
        end = address + num_bytes
        while address < end:
            number, start = divmod(address, self.PAGE)
            stop = min(self.PAGE, start + end - address)
            yield number, start, stop
            address += stop - start


class World:
    """A pool on the device, and the oracle beside it."""

    def __init__(self):
        self.oracle, self.backend = Oracle(), provided(0)
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream()
        self.first, held = capture(lambda: torch.zeros(1, device=DEVICE), pool=self.pool, stream=self.stream)
        del held
        self.owned, self.borrowed, self.graphs, self.states = [], [], [], []

    def own(self, tensor):
        self.owned.append(tensor)
        self.oracle.live[tensor.data_ptr()] = tensor.nbytes

    def everything(self):
        return [*self.owned, *self.borrowed]

    def some(self, pick):
        tensors = self.everything()
        return tensors[pick % len(tensors)] if tensors else None

    # -- what may happen -----------------------------------------------------------------------------------------------

    def make(self, size, pick):
        with torch.cuda.stream(self.stream), self.backend.allocate_to(self.pool, 0):
            tensor = torch.full((SIZES[size],), pick, dtype=torch.uint8, device=DEVICE)
        self.oracle.fill(tensor.data_ptr(), tensor.nbytes, pick)
        self.own(tensor)

    def drop(self, size, pick):
        tensors = self.owned if size % 2 else self.borrowed
        if tensors:
            tensor = tensors.pop(pick % len(tensors))
            if tensors is self.owned:
                del self.oracle.live[tensor.data_ptr()]

    def write(self, size, pick):
        tensor = self.some(pick)
        if tensor is not None:
            part = tensor[pick % tensor.numel() :][: SIZES[size]]
            part.fill_(size + 100)
            self.oracle.fill(part.data_ptr(), part.nbytes, size + 100)

    def borrow(self, size, pick):
        tensor = self.some(pick)
        if tensor is not None:
            start = pick % tensor.numel()
            num_bytes = min(SIZES[size], tensor.numel() - start)
            place = TensorPlace(tensor.data_ptr() + start, num_bytes, (num_bytes,), (1,), 0, torch.uint8, 0)
            self.borrowed.append(self.backend.tensor_at(place))

    def disown(self, size, pick):
        if self.owned:
            tensor = self.owned.pop(pick % len(self.owned))
            self.backend.disown(tensor.untyped_storage())
            self.borrowed.append(tensor)
            del self.oracle.live[tensor.data_ptr()]

    def capture(self, size, pick):
        """Two results of a tensor in the pool, one more that is freed on the way, and a change in place."""
        source = self.some(pick)
        if source is None:
            return
        script, num = [], SIZES[size % 5]
        read = self.oracle.read(source.data_ptr(), source.nbytes)

        def program():
            part = source[:num]
            between = part + 1
            script.append(("add", part.data_ptr(), between.data_ptr(), part.nbytes, 1))
            first = between + pick
            script.append(("add", between.data_ptr(), first.data_ptr(), part.nbytes, pick))
            del between
            second = torch.zeros(SIZES[pick % 5], dtype=torch.uint8, device=DEVICE)
            script.append(("fill", 0, second.data_ptr(), second.nbytes, 0))
            part.add_(3)
            script.append(("change", part.data_ptr(), part.data_ptr(), part.nbytes, 3))
            return first, second

        graph, made = capture(program, pool=self.pool, stream=self.stream)
        for what, _, target, num_bytes, _ in script:
            if what != "change":
                self.oracle.fill(target, num_bytes, 0)
        self.oracle.write(source.data_ptr(), read)  # a capture changes nothing; a result may lie there
        self.graphs.append((graph, script))
        for tensor in made:
            self.own(tensor)

    def replay(self, size, pick):
        if not self.graphs:
            return
        graph, script = self.graphs[pick % len(self.graphs)]
        graph.replay()
        for what, source, target, num_bytes, value in script:
            if what == "fill":
                self.oracle.fill(target, num_bytes, value)
            else:
                self.oracle.write(target, self.oracle.read(source, num_bytes) + np.uint8(value))

    def checkpoint(self, size, pick):
        self.states.append((self.backend.checkpoint(self.pool, 0), dict(self.oracle.live)))

    def restore(self, size, pick):
        """Owners release their blocks; some addresses of the state get new owners, the others are unused."""
        if not self.states:
            return
        state, live = self.states[pick % len(self.states)]
        while self.owned:
            self.disown(0, 0)
        keep = [address for number, address in enumerate(live) if (pick + number) % 3]
        owners = [
            self.backend.tensor_at(TensorPlace(at, live[at], (live[at],), (1,), 0, torch.uint8, 0)) for at in keep
        ]
        dead = [address for address in live if address not in keep]
        self.backend.restore(self.pool, 0, state, [owner.untyped_storage() for owner in owners], dead)
        for owner in owners:
            self.own(owner)

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check(self):
        assert self.backend.has_live(self.pool, 0, set(self.oracle.live))
        for tensor in self.everything():
            expected = self.oracle.read(tensor.data_ptr(), tensor.nbytes)
            assert np.array_equal(tensor.cpu().numpy(), expected)


ACTS = ("make", "make", "drop", "write", "borrow", "disown", "capture", "replay", "checkpoint", "restore")
STEPS = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, len(SIZES) - 1), st.integers(0, 200)), max_size=25)


@settings(max_examples=examples(60))
@given(STEPS)
@example([("make", 2, 1), ("disown", 0, 0), ("capture", 0, 0)])  # results lie in memory that the capture reads
def test_a_pool_is_its_bytes_whatever_happens(steps):
    with device("h100"):
        world = World()
        for act, size, pick in steps:
            getattr(world, act)(size, pick)
            world.check()
        for tensors in (world.owned, world.borrowed):
            tensors.clear()
        assert world.backend.has_live(world.pool, 0, set())

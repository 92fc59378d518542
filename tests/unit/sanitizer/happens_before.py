"""The slow oracle of the engine: reachability in an explicit happens-before graph, byte by byte."""

BLOCKING = ("s3", "s4")
"""The streams that are ordered with the default stream, s0."""

SIZE = 24
"""Bytes of each tensor; ``h`` is the pinned one."""


def touched_bytes(text):
    """Tensor and set of byte offsets of an access, the slow way."""
    name, _, rest = text.partition("[")
    if not rest:
        return name, set(range(SIZE))
    numbers = [int(n) for n in rest[:-1].split(":")]
    if len(numbers) == 2:
        return name, set(range(*numbers))
    low, high, step, run = numbers
    return name, {at + i for at in range(low, high, step) for i in range(run)}


class Graph:
    """Nodes are operations; ``before[n]`` is every node that is done when n begins, by construction of edges."""

    def __init__(self, ops):
        self.before, self.touches = [], []
        self.host, self.last, self.recorded = None, {}, {}
        self.users, self.awaited, self.released, self.replaced = {}, {}, {}, []
        for operation in ops:
            getattr(self, operation["op"], self.ignore)(**{k: v for k, v in operation.items() if k != "op"})

    def node(self, parents, touches=()):
        known = set()
        for parent in parents:
            if parent is not None:
                known |= self.before[parent] | {parent}
        self.before.append(known)
        self.touches.append(list(touches))
        return len(self.before) - 1

    def ignore(self, **fields):
        pass

    def predecessors(self, stream):
        others = BLOCKING if stream == "s0" else ["s0"] if stream in BLOCKING else []
        return [self.last.get(s) for s in [stream, *others]]

    def enqueue(self, stream, more=(), touches=()):
        for _, name, _ in touches:
            self.users.setdefault(name, set()).add(stream)
        self.last[stream] = self.node([self.host, *self.predecessors(stream), *more], touches)
        return self.last[stream]

    def launch(self, stream, reads, writes):
        self.enqueue(
            stream, touches=[(False, *touched_bytes(r)) for r in reads] + [(True, *touched_bytes(w)) for w in writes]
        )

    def event_record(self, event, stream):
        self.recorded[event] = self.last[stream] = self.stream_end(stream)

    def event_wait(self, event, stream):
        if event in self.recorded:
            self.last[stream] = self.node([*self.predecessors(stream), self.recorded[event]])

    def event_sync(self, event):
        self.host = self.node([self.host, self.recorded.get(event)])

    event_query = event_sync

    def event_delete(self, event):
        self.recorded.pop(event, None)

    def stream_sync(self, stream):
        self.host = self.stream_end(stream)

    stream_query = stream_sync

    def device_sync(self):
        self.host = self.node([self.host, *self.last.values()])

    def host_read(self, t):
        self.host = self.node([self.host], [(False, *touched_bytes(t))])

    def host_write(self, t):
        self.host = self.node([self.host], [(True, *touched_bytes(t))])

    def record_stream(self, t, stream):
        if t == "h" or stream != "s0":  # the device's allocator orders the stream of its pool by itself
            self.awaited.setdefault(t, set()).add(stream)

    def free(self, t):
        """The allocator waits for the streams of `record_stream`; for pinned memory, for every stream that used it."""
        awaited = self.awaited.pop(t, set()) | (self.users.get(t, set()) if t == "h" else set())
        for stream in awaited:  # the allocator records an event on it
            self.last[stream] = self.stream_end(stream)
            self.released.setdefault(t, set()).update(self.before[self.last[stream]])

    def stream_end(self, stream):
        """A point after all that the stream holds, and no work of its own."""
        return self.node([self.host, *self.predecessors(stream)])

    def alloc(self, t, reuse=None, **fields):
        if reuse:
            self.replaced.append((t, self.released.pop(t, set()), len(self.before)))

    def racing(self):
        """For each node that touches memory, in order, whether it races with an earlier one."""
        return [self.is_racing(node) for node, touches in enumerate(self.touches) if touches]

    def is_racing(self, node):
        return any(self.meet(earlier, node) for earlier in range(node) if earlier not in self.before[node])

    def meet(self, one, two):
        """Whether both touch a byte that at least one of them writes, and the allocator did not wait between them."""
        return any(
            (write or other_write) and name == other_name and these & those and not self.was_awaited(name, one, two)
            for write, name, these in self.touches[one]
            for other_write, other_name, those in self.touches[two]
        )

    def was_awaited(self, name, one, two):
        return any(name == t and one in released and two >= first for t, released, first in self.replaced)

"""Random programs of the kind of ``../shared/races``: three streams, blocks that come and go, views, copies, a host."""

from hypothesis import strategies as st

TENSORS = ["a", "b", "c", "d"]
STREAMS = ["s0", "s1", "s2"]
EVENTS = ["e", "f"]
PARTS = ["", "", "[0:64]", "[64:128]", "[32:96]", "[0:120:16:8]", "[8:128:16:8]"]
STEPS = ["alloc", "free", "record_stream", "launch", "launch", "launch", "d2h", "h2d", "host_read", "host_write"]
STEPS += ["event_record", "event_wait", "edge", "edge", "event_sync", "stream_sync", "device_sync"]
PROLOGUE = [{"op": "alloc", "t": t, "bytes": 128, "stream": "s0"} for t in "ab"]
PROLOGUE += [{"op": "alloc", "t": "h", "bytes": 128, "host": True}, {"op": "host_write", "t": "h"}]
PROLOGUE += [{"op": "launch", "stream": "s0", "reads": [], "writes": [t]} for t in "ab"] + [{"op": "device_sync"}]


class _Writer:
    """Turns drawn numbers into operations that make sense where they stand."""

    def __init__(self):
        self.ops, self.live = list(PROLOGUE), ["a", "b"]

    def add(self, step, n, m, k):
        stream, alive = STREAMS[n % 3], sorted(self.live)
        t, u = alive[m % len(alive)], alive[k % len(alive)]
        if step == "launch":
            reads = [t + PARTS[m % len(PARTS)]] if k % 3 else []
            writes = [u + PARTS[k % len(PARTS)]] if m % 3 else []
            self.put("launch", stream=stream, reads=reads, writes=writes)
        elif step in ("d2h", "h2d"):
            reads, writes = (t, "h") if step == "d2h" else ("h", t)
            self.put("launch", stream=stream, reads=[reads], writes=[writes])
        elif step in ("alloc", "free", "edge"):
            getattr(self, step)(stream, t, m, k)
        elif step == "record_stream":
            self.put(step, t=t, stream=stream)
        elif step in ("host_read", "host_write"):
            self.put(step, t="h")
        elif step in ("event_record", "event_wait"):
            self.put(step, event=EVENTS[m % 2], stream=stream)
        else:
            self.put(step, **{"event_sync": {"event": EVENTS[m % 2]}, "stream_sync": {"stream": stream}}.get(step, {}))

    def put(self, op, **fields):
        self.ops.append({"op": op, **fields})

    def alloc(self, stream, _, m, k):
        new = [t for t in TENSORS if t not in self.live]
        if new:
            self.live.append(new[m % len(new)])
            self.put("alloc", t=self.live[-1], bytes=128, stream=stream)
            if k % 4:
                self.put("launch", stream=stream, reads=[], writes=[self.live[-1]])

    def free(self, _, t, *__):
        if len(self.live) > 1:
            self.live.remove(t)
            self.put("free", t=t)

    def edge(self, stream, _, m, __):
        event = f"x{len(self.ops)}"
        self.put("event_record", event=event, stream=stream)
        self.put("event_wait", event=event, stream=STREAMS[m % 3])


def written(steps):
    """The operations."""
    writer = _Writer()
    for step in steps:
        writer.add(*step)
    return writer.ops


programs = st.lists(st.tuples(st.sampled_from(STEPS), *[st.integers(0, 11)] * 3), max_size=14).map(written)

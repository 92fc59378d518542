"""Programs of the kind of ``../shared/races``, made up: a title, what is expected, the operations.

What they are about: events that are recorded again, or too early, or on another stream; views that share a byte or
none; blocks that are handed out again; pinned memory that is still being copied; orders that come by a third stream.
"""


def alloc(t, stream="s0", **more):
    return {"op": "alloc", "t": t, "bytes": 1024, "stream": stream, **more}


def pinned(t):
    return {"op": "alloc", "t": t, "bytes": 1024, "host": True}


def launch(stream, reads=(), writes=()):
    reads, writes = ([x] if isinstance(x, str) else list(x) for x in (reads, writes))
    return {"op": "launch", "stream": stream, "reads": reads, "writes": writes}


def record(event, stream):
    return {"op": "event_record", "event": event, "stream": stream}


def wait(event, stream):
    return {"op": "event_wait", "event": event, "stream": stream}


def event_sync(event):
    return {"op": "event_sync", "event": event}


def stream_sync(stream):
    return {"op": "stream_sync", "stream": stream}


def free(t):
    return {"op": "free", "t": t}


def record_stream(t, stream):
    return {"op": "record_stream", "t": t, "stream": stream}


def host_read(t):
    return {"op": "host_read", "t": t}


def host_write(t):
    return {"op": "host_write", "t": t}


DEVICE_SYNC = {"op": "device_sync"}

CASES = [
    (
        "event re-recorded: wait took the first",
        "race",
        [
            alloc("t"),
            launch("s1", [], "t"),
            record("e", "s1"),
            wait("e", "s2"),
            launch("s1", [], "t"),
            record("e", "s1"),
            launch("s2", "t", []),
        ],
    ),
    (
        "event re-recorded: waited after the second",
        "clean",
        [
            alloc("t"),
            launch("s1", [], "t"),
            record("e", "s1"),
            launch("s1", [], "t"),
            record("e", "s1"),
            wait("e", "s2"),
            launch("s2", "t", []),
        ],
    ),
    (
        "re-recorded on another stream: the first stream is not covered",
        "race",
        [
            alloc("t"),
            alloc("u"),
            launch("s1", [], "t"),
            record("e", "s1"),
            launch("s3", [], "u"),
            record("e", "s3"),
            wait("e", "s2"),
            launch("s2", "t", []),
        ],
    ),
    (
        "record_stream of the wrong stream",
        "race",
        [
            alloc("x"),
            launch("s0", [], "x"),
            record("e", "s0"),
            wait("e", "s1"),
            pinned("h"),
            launch("s1", "x", "h"),
            record_stream("x", "s2"),
            free("x"),
            alloc("y", reuse="x"),
            launch("s0", [], "y"),
        ],
    ),
    (
        "record_stream before the last use on that stream covers it",
        "clean",
        [
            alloc("x"),
            launch("s0", [], "x"),
            record("e", "s0"),
            wait("e", "s1"),
            record_stream("x", "s1"),
            alloc("o", "s1"),
            launch("s1", "x", "o"),
            free("x"),
            alloc("y"),
            launch("s0", [], "y"),
        ],
    ),
    (
        "three streams, transitive",
        "clean",
        [
            alloc("t"),
            launch("s1", [], "t"),
            record("a", "s1"),
            wait("a", "s2"),
            launch("s2", [], []),
            record("b", "s2"),
            wait("b", "s3"),
            launch("s3", "t", []),
        ],
    ),
    (
        "three streams, the middle recorded before it waited",
        "race",
        [
            alloc("t"),
            launch("s1", [], "t"),
            record("a", "s1"),
            record("b", "s2"),
            wait("a", "s2"),
            wait("b", "s3"),
            launch("s3", "t", []),
        ],
    ),
    (
        "strided columns that overlap by one element",
        "race",
        [alloc("m"), launch("s1", [], "m[0:992:64:36]"), launch("s2", [], "m[32:1024:64:32]")],
    ),
    (
        "interleaved, even and odd elements",
        "clean",
        [alloc("m"), launch("s1", [], "m[0:1020:8:4]"), launch("s2", [], "m[4:1024:8:4]")],
    ),
    (
        "host writes a pinned buffer still being sent",
        "race",
        [
            pinned("h"),
            alloc("d"),
            host_write("h"),
            launch("s1", "h", "d"),
            host_write("h"),
            stream_sync("s1"),
            launch("s0", "d", []),
        ],
    ),
    (
        "host writes it after the event",
        "clean",
        [
            pinned("h"),
            alloc("d"),
            host_write("h"),
            launch("s1", "h", "d"),
            record("e", "s1"),
            event_sync("e"),
            host_write("h"),
            launch("s0", "d", []),
        ],
    ),
    (
        "host waits for an event recorded too early",
        "race",
        [
            alloc("x"),
            pinned("h"),
            launch("s0", [], "x"),
            record("e", "s0"),
            launch("s0", "x", "h"),
            event_sync("e"),
            host_read("h"),
        ],
    ),
    (
        "host waits for another stream",
        "race",
        [alloc("x"), pinned("h"), launch("s0", [], "x"), launch("s0", "x", "h"), stream_sync("s1"), host_read("h")],
    ),
    (
        "host sync orders third stream",
        "clean",
        [
            alloc("t"),
            launch("s1", [], "t"),
            record("e", "s1"),
            wait("e", "s2"),
            stream_sync("s2"),
            launch("s3", "t", []),
        ],
    ),
    (
        "in-place chain ping-pong, one back edge missing",
        "race",
        [
            alloc("t"),
            launch("s0", [], "t"),
            record("a", "s0"),
            wait("a", "s1"),
            launch("s1", "t", "t"),
            record("b", "s1"),
            wait("b", "s0"),
            launch("s0", "t", "t"),
            launch("s1", "t", "t"),
        ],
    ),
    (
        "in-place chain ping-pong",
        "clean",
        [
            alloc("t"),
            launch("s0", [], "t"),
            record("a", "s0"),
            wait("a", "s1"),
            launch("s1", "t", "t"),
            record("b", "s1"),
            wait("b", "s0"),
            launch("s0", "t", "t"),
            record("c", "s0"),
            wait("c", "s1"),
            launch("s1", "t", "t"),
        ],
    ),
    (
        "two readers then a writer that waits for one",
        "race",
        [
            alloc("t"),
            launch("s0", [], "t"),
            DEVICE_SYNC,
            launch("s1", "t", []),
            launch("s2", "t", []),
            record("e", "s1"),
            wait("e", "s0"),
            launch("s0", [], "t"),
        ],
    ),
    (
        "free on side pool, reuse by side, main still reads",
        "race",
        [
            alloc("b0", "s1"),
            launch("s1", [], "b0"),
            record("e", "s1"),
            wait("e", "s0"),
            alloc("o", "s0"),
            launch("s0", "b0", "o"),
            free("b0"),
            alloc("b1", "s1", reuse="b0"),
            launch("s1", [], "b1"),
        ],
    ),
    (
        "as X18, side waits for main before the drop",
        "clean",
        [
            alloc("b0", "s1"),
            launch("s1", [], "b0"),
            record("e", "s1"),
            wait("e", "s0"),
            alloc("o", "s0"),
            launch("s0", "b0", "o"),
            record("f", "s0"),
            wait("f", "s1"),
            free("b0"),
            alloc("b1", "s1", reuse="b0"),
            launch("s1", [], "b1"),
        ],
    ),
    (
        "D2H then H2D through one pinned buffer without a wait",
        "race",
        [
            alloc("x"),
            alloc("y"),
            pinned("h"),
            launch("s0", [], "x"),
            DEVICE_SYNC,
            launch("s1", "x", "h"),
            launch("s2", "h", "y"),
            DEVICE_SYNC,
            launch("s0", "y", []),
        ],
    ),
    (
        "D2H then H2DEVICE_SYNC, waited",
        "clean",
        [
            alloc("x"),
            alloc("y"),
            pinned("h"),
            launch("s0", [], "x"),
            DEVICE_SYNC,
            launch("s1", "x", "h"),
            record("e", "s1"),
            wait("e", "s2"),
            launch("s2", "h", "y"),
            DEVICE_SYNC,
            launch("s0", "y", []),
        ],
    ),
    (
        "waits on the wrong half",
        "race",
        [
            alloc("a"),
            launch("s1", [], "a[0:512]"),
            record("e", "s1"),
            launch("s1", [], "a[512:1024]"),
            wait("e", "s2"),
            launch("s2", "a[256:1024]", []),
        ],
    ),
    (
        "waits on the right half",
        "clean",
        [
            alloc("a"),
            launch("s1", [], "a[0:512]"),
            record("e", "s1"),
            launch("s1", [], "a[512:1024]"),
            wait("e", "s2"),
            launch("s2", "a[256:512]", []),
        ],
    ),
    (
        "reuse across two lives",
        "race",
        [
            alloc("x"),
            launch("s0", [], "x"),
            record("e", "s0"),
            wait("e", "s1"),
            alloc("o", "s1"),
            launch("s1", "x", "o"),
            free("x"),
            alloc("y", reuse="x"),
            free("y"),
            alloc("z", reuse="x"),
            launch("s0", [], "z"),
        ],
    ),
    (
        "event waited twice, second wait stale",
        "race",
        [
            alloc("t"),
            launch("s1", [], "t"),
            record("e", "s1"),
            wait("e", "s2"),
            launch("s2", "t", []),
            launch("s1", [], "t"),
            wait("e", "s2"),
            launch("s2", "t", []),
        ],
    ),
]

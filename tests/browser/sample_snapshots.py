"""Memory snapshots as an allocator leaves them: devices, streams, private pools, growing segments, waits."""

import random

from cudalens import Trace
from cudalens.frames import RunInfo
from cudalens.frames.snapshots.build import snapshot_frames

BASE = 0x7F00_0000_0000
SEGMENT = 1 << 20
HOSTILE = "</script><img src=x onerror=alert(1)>"


def random_snapshot(seed, num_steps=300):
    """A snapshot whose history began after a third of `num_steps` steps."""
    draw = random.Random(seed)
    machine = _Machine(draw)
    for step in range(num_steps):
        machine.is_recording = step >= num_steps // 3
        draw.choice([machine.alloc, machine.alloc, machine.alloc, machine.free, machine.finish, machine.release])()
    return {"segments": machine.segments(), "device_traces": machine.traces, "allocator_settings": {}}


def trace_of(snapshot, name="sample", **blocks):
    """The Trace of `snapshot`; `blocks`: columns of the frame blocks to replace."""
    found = snapshot_frames(snapshot)
    info = RunInfo(name=name, source="file:torch_snapshot", options=found.options, extra=found.extra)
    frames = dict(found.frames)
    frames["blocks"] = frames["blocks"].assign(**blocks)
    return Trace(info, **frames)


def stack_of(number):
    """Stack `number`: three stack frames that share their callers."""
    return [
        {"filename": f"/app/model_{number}.py", "name": f"layer_{number}", "line": number + 1},
        {"filename": "/app/model.py", "name": ["forward", "step", HOSTILE][number % 3], "line": 7},
        {"filename": "/app/main.py", "name": "main", "line": 1},
    ]


class _Machine:
    """Segments of 1 MiB, or of one that grows by 1 MiB; blocks of multiples of 512 bytes, first fit."""

    def __init__(self, draw):
        self.draw, self.is_recording, self.time_us = draw, False, 1_000
        self.traces = [[], []]
        self.spaces = []  # {device, stream, pool, grows, addr, size, blocks: {addr: [size, requested, pending, stack]}}
        self.num = 0

    def log(self, action, space, addr, size, stack=()):
        self.time_us += self.draw.randint(1, 50)
        if self.is_recording:
            row = {"action": action, "addr": addr, "size": size, "stream": space["stream"], "time_us": self.time_us}
            self.traces[space["device"]].append(row | {"pool_id": space["pool"], "frames": list(stack)})

    def alloc(self):
        draw = self.draw
        device, stream, pool = draw.randrange(2), draw.choice([0, 0, 64]), draw.choice([(0, 0), (0, 0), (0, 1)])
        requested = draw.randint(1, SEGMENT // 5)
        size = -(-requested // 512) * 512
        key = (device, stream, pool)
        mine = [space for space in self.spaces if (space["device"], space["stream"], space["pool"]) == key]
        found = next(((s, addr) for s in mine for addr in [_gap(s, size)] if addr is not None), None)
        space, addr = found or self.grow(mine, key)
        stack = stack_of(draw.randrange(9))
        space["blocks"][addr] = [size, requested, False, stack]
        self.log("alloc", space, addr, requested, stack)

    def grow(self, mine, key):
        growing = next((space for space in mine if space["grows"]), None)
        if growing:
            addr = growing["addr"] + growing["size"]
            growing["size"] += SEGMENT
            self.log("segment_map", growing, addr, SEGMENT)
            return growing, addr
        device, stream, pool = key
        self.num += 1
        space = {"device": device, "stream": stream, "pool": pool, "grows": stream == 64, "blocks": {}}
        space |= {"addr": BASE + self.num * 256 * SEGMENT, "size": SEGMENT}
        self.spaces.append(space)
        self.log("segment_map" if space["grows"] else "segment_alloc", space, space["addr"], SEGMENT)
        return space, space["addr"]

    def held(self, pending):
        return [(s, addr) for s in self.spaces for addr, block in s["blocks"].items() if block[2] is pending]

    def free(self):
        held = self.held(pending=False)
        if held:
            space, addr = self.draw.choice(held)
            block = space["blocks"][addr]
            block[2] = True
            self.log("free_requested", space, addr, block[1])
            if self.draw.random() < 0.7:
                self.complete(space, addr)

    def finish(self):
        waiting = self.held(pending=True)
        if waiting:
            self.complete(*self.draw.choice(waiting))

    def complete(self, space, addr):
        self.log("free_completed", space, addr, space["blocks"].pop(addr)[1])

    def release(self):
        for space in [s for s in self.spaces if not s["blocks"] and not s["grows"]]:
            self.spaces.remove(space)
            self.log("segment_free", space, space["addr"], space["size"])

    def segments(self):
        return [_segment(space) for space in sorted(self.spaces, key=lambda s: s["addr"])]


def _gap(space, size):
    at = space["addr"]
    for addr in sorted(space["blocks"]):
        if addr - at >= size:
            return at
        at = addr + space["blocks"][addr][0]
    return at if space["addr"] + space["size"] - at >= size else None


def _segment(space):
    blocks, at, end = [], space["addr"], space["addr"] + space["size"]

    def idle(stop):
        if stop > at:
            free = {"address": at, "size": stop - at, "requested_size": 0, "state": "inactive", "frames": []}
            blocks.append(free)

    for addr in sorted(space["blocks"]):
        size, requested, pending, stack = space["blocks"][addr]
        idle(addr)
        state = "active_pending_free" if pending else "active_allocated"
        blocks.append({"address": addr, "size": size, "requested_size": requested, "state": state, "frames": stack})
        at = addr + size
    idle(end)
    return {
        "device": space["device"],
        "address": space["addr"],
        "total_size": space["size"],
        "stream": space["stream"],
        "segment_type": "large",
        "segment_pool_id": space["pool"],
        "is_expandable": space["grows"],
        "blocks": blocks,
    }

"""Histories of an allocator that is simulated step by step, with all that it held at each step: the slow oracle."""

from dataclasses import dataclass, field

BASE = 0x7F00_0000_0000
SLOT = 4096
SLOTS = 8  # of a segment


@dataclass
class Allocator:
    """Segments of `SLOTS` slots; a block takes one slot, whatever was asked for, rounded to 512 bytes."""

    device: int = 0
    trace: list = field(default_factory=list)
    states: list = field(default_factory=list)
    segments: dict = field(default_factory=dict)
    blocks: dict = field(default_factory=dict)  # address: [requested, stream, pending, stack, row of allocation]
    clock: list = field(default_factory=lambda: [1000])
    is_recording: bool = False

    def log(self, action, addr, size, stream, stack=None):
        if not self.is_recording:
            return
        self.clock[0] += 1
        frames = [] if stack is None else [{"filename": "a.py", "name": f"f{stack}", "line": stack + 1}, ROOT]
        row = {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": self.clock[0]}
        self.trace.append(row | {"frames": frames})
        self.states.append(self.state())

    def state(self):
        active = {addr: (block[0], block[2]) for addr, block in self.blocks.items()}
        return {
            "active": active,
            "allocated_bytes": sum(rounded(r) for r, pending in active.values() if not pending),
            "active_bytes": sum(rounded(r) for r, _ in active.values()),
            "requested_bytes": sum(r for r, _ in active.values()),
            "reserved_bytes": len(self.segments) * SLOT * SLOTS,
            "segments": set(self.segments),
        }

    def place(self, stream):
        """The first free slot of the stream's segments, in a new segment where there is none."""
        for segment, owner in self.segments.items():
            for slot in range(SLOTS):
                if owner == stream and segment + slot * SLOT not in self.blocks:
                    return segment + slot * SLOT
        segment = BASE + self.device * (1 << 40)
        while segment in self.segments:
            segment += SLOT * SLOTS
        self.segments[segment] = stream
        self.log("segment_alloc", segment, SLOT * SLOTS, stream)
        return segment

    def alloc(self, requested, stream, stack):
        addr = self.place(stream)
        self.blocks[addr] = [requested, stream, False, stack, len(self.trace) if self.is_recording else None]
        self.log("alloc", addr, requested, stream, stack)

    def free(self, which, is_waiting):
        held = [addr for addr, block in self.blocks.items() if not block[2]]
        if held:
            addr = held[which % len(held)]
            block = self.blocks[addr]
            block[2] = True
            self.log("free_requested", addr, block[0], block[1], block[3])
            if not is_waiting:
                self.complete(addr)

    def finish(self, which):
        waiting = [addr for addr, block in self.blocks.items() if block[2]]
        if waiting:
            self.complete(waiting[which % len(waiting)])

    def complete(self, addr):
        requested, stream, *_ = self.blocks.pop(addr)
        self.log("free_completed", addr, requested, stream)

    def empty_cache(self):
        for segment in list(self.segments):
            if not any(segment + slot * SLOT in self.blocks for slot in range(SLOTS)):
                stream = self.segments.pop(segment)
                self.log("segment_free", segment, SLOT * SLOTS, stream)

    def snapshot_segments(self):
        return [self._segment(segment, stream) for segment, stream in sorted(self.segments.items())]

    def _segment(self, segment, stream):
        blocks = []
        for addr in range(segment, segment + SLOT * SLOTS, SLOT):
            requested, _, pending, stack, _ = self.blocks.get(addr, (0, stream, False, None, None))
            used = rounded(requested) if addr in self.blocks else 0
            state = "active_pending_free" if pending else "active_allocated"
            frames = [] if stack is None else [{"filename": "a.py", "name": f"f{stack}", "line": stack + 1}, ROOT]
            if used:
                blocks.append(
                    {"address": addr, "size": used, "requested_size": requested, "state": state, "frames": frames}
                )
            if used < SLOT:
                rest = {
                    "address": addr + used,
                    "size": SLOT - used,
                    "requested_size": 0,
                    "state": "inactive",
                    "frames": [],
                }
                blocks.append(rest)
        return {
            "device": self.device,
            "address": segment,
            "total_size": SLOT * SLOTS,
            "stream": stream,
            "segment_type": "small",
            "segment_pool_id": (0, 0),
            "blocks": blocks,
        }


ROOT = {"filename": "main.py", "name": "main", "line": 1}


def rounded(requested):
    return max(-(-requested // 512), 1) * 512


def played(steps, num_before, device=0, clock=None):
    """An allocator that did `steps`, the first `num_before` of them unrecorded."""
    allocator = Allocator(device, clock=clock or [1000])
    for i, (kind, number, size, stream) in enumerate(steps):
        if i == num_before:
            allocator.is_recording = True
            allocator.start = allocator.state()
        if kind == "alloc":
            allocator.alloc(size, stream, number % 5)
        elif kind == "free":
            allocator.free(number, is_waiting=stream != 0)
        elif kind == "finish":
            allocator.finish(number)
        else:
            allocator.empty_cache()
    if num_before >= len(steps):
        allocator.start = allocator.state()
    return allocator

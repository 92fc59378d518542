"""The allocator against what real ones did: recorded memory histories, replayed action for action.

A history that begins with the process is replayed from nothing. One that begins later is replayed from the state that
its snapshot implies: the blocks live at the end, with the history undone. Each alloc must get the recorded address.
"""

from __future__ import annotations

import gzip
import io
import pickle
from pathlib import Path

import pytest
from fake_host import FakeHost, make

from cudalens.virtual.allocator import AddressSpace

_FOLDER = Path(__file__).resolve().parents[5] / "shared" / "recorded" / "snapshots"
#: Of our own programs, on an H100 and an H200 with torch 2.11.
_OWN = Path(__file__).resolve().parents[3] / "data" / "snapshots"
_FILES = {
    "silmont_mem_snapshot.pickle": (97, 9),
    "silmont_forward_bf16_128.pickle": (2811, 0),
    "medium_128_inference_memory_snapshot.pickle": (3840, 0),
    "medium_256_training_memory_snapshot.pickle": (19430, 0),
    "nvidia-h200/mlp_training.pickle.gz": (380, 20),
    "nvidia-h200/convolutions.pickle.gz": (533, 14),
    "nvidia-h200/transformer_training.pickle.gz": (5570, 47),
    "nvidia-h100-80gb-hbm3/transformer_training.pickle.gz": (5570, 47),
}  # file -> actions, and segments made during it


class _Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"a snapshot names the global {module}.{name}")


class _Fed(AddressSpace):
    """Gives segments the recorded addresses; where the driver puts them is not the allocator's choice."""

    def __init__(self, addresses):
        super().__init__(0)
        self.addresses = list(addresses)

    def reserve(self, num_bytes):
        return self.addresses.pop(0)

    def release(self, address, num_bytes):
        pass


def _load(name):
    if name.endswith(".gz"):
        return _Plain(io.BytesIO(gzip.decompress((_OWN / name).read_bytes()))).load()
    path = _FOLDER / name
    if not path.exists():
        pytest.skip(f"recorded snapshots are not here: {path}")
    with open(path, "rb") as file:
        return _Plain(file).load()


def _live_at_start(snapshot):
    """(address -> requested bytes) of the blocks allocated before the history began."""
    live = {
        block["address"]: block["requested_size"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }
    for entry in reversed(snapshot["device_traces"][0]):
        if entry["action"] == "alloc":
            assert live.pop(entry["addr"]) == entry["size"]
        elif entry["action"] == "free_requested":
            live[entry["addr"]] = entry["size"]
    return live


def _seed(allocator, snapshot):
    """Give the allocator the segments and live blocks that there were when the history began."""
    made = {e["addr"] for e in snapshot["device_traces"][0] if e["action"] == "segment_alloc"}
    live, blocks = _live_at_start(snapshot), {}
    for segment in snapshot["segments"]:
        if segment["address"] not in made:
            blocks |= _seed_segment(allocator, segment, live)
    return blocks


def _pieces(segment, live):
    """(size, requested bytes or None where free) of the blocks that tile a segment."""
    here, end = segment["address"], segment["address"] + segment["total_size"]
    unsplit = 0 if segment["segment_type"] == "small" else 1 << 20  # a smaller rest is not split off
    mine = sorted(address for address in live if here <= address < end)
    for address, following in zip(mine, [*mine, end][1:], strict=True):
        if address > here:
            yield address - here, None
        size = -(-live[address] // 512) * 512
        here = following if following - address - size <= unsplit else address + size
        yield here - address, live[address]
    if here < end:
        yield end - here, None


def _seed_segment(allocator, segment, live):
    heap, small = allocator._heap, segment["segment_type"] == "small"
    pool = heap.pools.small if small else heap.pools.large
    allocator._reserve.space.addresses.insert(0, segment["address"])
    rest = allocator._reserve.new_segment(pool, segment["stream"], segment["total_size"], None)
    blocks = {}
    for size, requested in _pieces(segment, live):
        block = rest
        if rest.size > size:
            rest = block.split(size)
        if requested is not None:
            block.is_allocated, block.requested_size = True, requested
            heap._all_usage.take(size, requested)
            heap._usage[small].take(size, requested)
            blocks[block.address] = block
            continue
        pool.insert(block)
        if size < segment["total_size"]:
            heap._count_inactive(small, 1, size)
    return blocks


def _facts(segments, *, with_stale):
    """The segments without stack frames and, unless requested, without the requested size of free blocks."""
    return [
        {key: value for key, value in segment.items() if key not in ("frames", "blocks")}
        | {
            "blocks": [
                {
                    key: value
                    for key, value in block.items()
                    if key != "frames" and (key != "requested_size" or with_stale or block["state"] != "inactive")
                }
                for block in segment["blocks"]
            ]
        }
        for segment in segments
    ]


@pytest.mark.parametrize("name", _FILES)
def test_a_recorded_history_replayed_gives_its_actions_and_its_segments(name):
    snapshot = _load(name)
    trace = snapshot["device_traces"][0]
    made = [entry["addr"] for entry in trace if entry["action"] == "segment_alloc"]
    assert (len(trace), len(made)) == _FILES[name]
    allocator, _ = make(total=1 << 40, host=FakeHost(), space=_Fed([]))
    live = _seed(allocator, snapshot)
    allocator._reserve.space.addresses = made
    allocator.record_history("all", None)
    for entry in trace:
        if entry["action"] == "alloc":
            block = allocator.malloc(entry["size"], entry["stream"])
            live[block.address] = block
        elif entry["action"] == "free_requested":
            allocator.free(live.pop(entry["addr"]))
    mine = allocator.snapshot()
    fields = ("action", "addr", "size", "stream")
    assert [[e[f] for f in fields] for e in mine["trace"]] == [[e[f] for f in fields] for e in trace]
    whole = len(made) == len(snapshot["segments"])
    assert _facts(mine["segments"], with_stale=whole) == _facts(snapshot["segments"], with_stale=whole)
    _counters_agree(allocator, snapshot["segments"])


def _counters_agree(allocator, segments):
    stats = allocator.stats()
    blocks = [(s, b) for s in segments for b in s["blocks"]]
    free = [b["size"] for s, b in blocks if b["state"] == "inactive" and len(s["blocks"]) > 1]
    expected = {
        "reserved_bytes": sum(s["total_size"] for s in segments),
        "allocated_bytes": sum(s["allocated_size"] for s in segments),
        "active_bytes": sum(s["active_size"] for s in segments),
        "requested_bytes": sum(s["requested_size"] for s in segments),
        "segment": len(segments),
        "inactive_split": len(free),
        "inactive_split_bytes": sum(free),
    }
    assert {name: stats[name]["all"]["current"] for name in expected} == expected


def test_stack_frames_of_a_split_segment_are_where_torch_has_them():
    """Torch keeps a segment's frames with the part that stays free when it is split: a split segment shows none."""
    snapshot = _load("silmont_mem_snapshot.pickle")
    trace = snapshot["device_traces"][0]
    allocator, _ = make(total=1 << 40, space=_Fed([e["addr"] for e in trace if e["action"] == "segment_alloc"]))
    allocator.record_history("all", "all")
    live = {}
    for entry in trace:
        if entry["action"] == "alloc":
            block = allocator.malloc(entry["size"], entry["stream"], stack=lambda entry=entry: entry["frames"])
            live[block.address] = block
        elif entry["action"] == "free_requested":
            allocator.free(live.pop(entry["addr"]), stack=entry["frames"])
    mine = allocator.snapshot()
    assert [s["frames"] for s in mine["segments"]] == [s["frames"] for s in snapshot["segments"]]
    assert [b["frames"] for s in mine["segments"] for b in s["blocks"]] == [
        b["frames"] for s in snapshot["segments"] for b in s["blocks"]
    ]
    assert [e["frames"] for e in mine["trace"]] == [e["frames"] for e in trace]

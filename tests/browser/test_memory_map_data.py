"""What the page makes of the memory payload is what cudalens.analysis finds in the frames, at every kind of moment."""

import pytest

from cudalens.analysis import blocks_at, bytes_by_stack, fragmentation, segment_lifetimes
from cudalens.views.memory.map_payload import pack

from .sample_snapshots import random_snapshot, trace_of

DECODE = """
import { curvesOf } from "/js/memory/curves.js";
import { decodeMemory } from "/js/memory/data.js";
import { momentAt } from "/js/memory/moment.js";
import { stackSums, stackTree } from "/js/memory/stacks.js";
window.read = async (path) => {
  window.data = await decodeMemory(new Uint8Array(await (await fetch(path)).arrayBuffer()));
  const { hidden, devices } = data.header;
  return { rows: data.numRows, num: data.allocations.n, hidden, devices: devices.map(({ index }) => index) };
};
window.curves = (k) =>
  Object.fromEntries(Object.entries(curvesOf(data, k)).map(([name, values]) => [name, [...values]]));
window.moment = (k, row) => {
  const { allocations, strips, sums } = momentAt(data, k, row);
  const { addr, bytes, requested, released } = data.allocations;
  const address = (offset) => String(BigInt(data.header.base) + BigInt(offset));
  const tree = stackTree(data.stacks);
  const stacks = stackSums(tree, data.allocations, allocations);
  const name = (node) => (node ? data.stacks.frameAt(tree.frame[node]).name : "");
  return {
    sums,
    allocations: [...allocations].map((i) => [address(addr[i]), bytes[i], requested[i], released[i] <= row]),
    strips: strips.map(({ addr, bytes }) => [address(addr), bytes]),
    stacks: [...stacks.bytes.keys()].filter((n) => stacks.num[n])
      .map((n) => [tree.depth[n], name(n), stacks.bytes[n], stacks.num[n]]),
  };
};
window.isReady = true;
"""


@pytest.fixture
def open_trace(module_page):
    def read(trace, **options):
        page = module_page(DECODE, {"/memory": pack(trace, **options)})
        return page, page.evaluate("() => read('/memory')")

    return read


def totals(trace, device, name):
    """What a device held after each action, by the frame: an action of another device changes nothing."""
    memory = trace.memory
    own = memory[f"{name}_bytes"].where(memory["device"].eq(device))
    return [None if value != value else int(value) for value in own.ffill().to_numpy(float, na_value=float("nan"))]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_moment_is_what_analysis_finds(open_trace, seed):
    trace = trace_of(random_snapshot(seed))
    page, facts = open_trace(trace, compress=seed != 2)
    assert facts["rows"] == len(trace.memory)
    pieces = segment_lifetimes(trace)
    for k, device in enumerate(facts["devices"]):
        for row in (-1, 0, facts["rows"] // 3, facts["rows"] // 2, facts["rows"] - 1):
            shown = page.evaluate("([k, row]) => moment(k, row)", [k, row])
            alive = blocks_at(trace, row=row)
            alive = alive[alive["device"].eq(device).to_numpy(bool)].sort_values("addr")
            pending = alive["state"] == "active_pending_free"
            columns = (alive["addr"].astype(str), alive["num_bytes"], alive["requested_bytes"], pending)
            assert shown["allocations"] == [list(row) for row in zip(*columns, strict=True)]
            there = pieces[(pieces["device"] == device) & (pieces["added"].fillna(-1) <= row)]
            there = there[there["removed"].fillna(1 << 60) > row]
            assert sum(size for _, size in shown["strips"]) == there["num_bytes"].sum()
            assert {addr for addr, _ in shown["strips"]} <= set(there["addr"].astype(str))
            nodes = bytes_by_stack(trace, alive)
            names = nodes["function"].astype(object).where(nodes["function"].notna(), "")
            expected = zip(nodes["depth"], names, nodes["num_bytes"], nodes["num_blocks"], strict=True)
            assert sorted(map(tuple, shown["stacks"])) == sorted(node for node in expected if node[3])


@pytest.mark.parametrize("share", [None, 0.5, 0.0])
def test_curves_are_the_frames_totals_whatever_is_left_out(open_trace, share):
    trace = trace_of(random_snapshot(4))
    full, bare = len(pack(trace)), len(pack(trace, max_bytes=0))
    max_bytes = None if share is None else bare + int(share * (full - bare))
    page, facts = open_trace(trace, max_bytes=max_bytes)
    assert (facts["hidden"]["num"] > 0) is (share is not None)
    assert (facts["num"] > 0) is (share != 0)
    for k, device in enumerate(facts["devices"]):
        curves = page.evaluate("(k) => curves(k)", k)
        for name in ("allocated", "active", "reserved"):
            expected = totals(trace, device, name)
            known = [i for i, value in enumerate(expected) if value is not None]
            assert known
            assert [curves[name][i + 1] for i in known] == [expected[i] for i in known]


def test_the_end_is_as_fragmented_as_analysis_states(open_trace):
    trace = trace_of(random_snapshot(5))
    page, facts = open_trace(trace)
    for k, row in enumerate(fragmentation(trace).to_dict("records")):
        sums = page.evaluate("([k, row]) => moment(k, row).sums", [k, facts["rows"] - 1])
        assert [sums[name] for name in ("reserved", "internal", "external", "empty", "largest")] == [
            row[f"{name}_bytes"] for name in ("reserved", "internal", "external", "empty", "largest_free")
        ]


def test_gaps_are_counted_alike_at_the_end_and_before(open_trace):
    """The page's own count, used for moments without a snapshot, equals the count from a snapshot."""
    trace = trace_of(random_snapshot(6))
    page, facts = open_trace(trace)
    page.evaluate("() => data.header.devices.forEach((device) => delete device.end)")
    for k, row in enumerate(fragmentation(trace).to_dict("records")):
        sums = page.evaluate("([k, row]) => moment(k, row).sums", [k, facts["rows"] - 1])
        assert [sums[name] for name in ("internal", "external", "empty", "largest")] == [
            row[f"{name}_bytes"] for name in ("internal", "external", "empty", "largest_free")
        ]

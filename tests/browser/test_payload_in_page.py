"""What the page decodes is what the frame holds, for random traces and for hard ones."""

import numpy as np
import pandas as pd
import pytest

from cudalens.frames import RunInfo, Trace, build_events, build_memory
from cudalens.views import assets
from cudalens.views.sections.clean_text import without_controls
from cudalens.views.timeline import payload
from cudalens.views.timeline.payload import pack

DECODE = """
import { decodePayload } from "/js/payload/payload.js";
import { NUM_SHADES, THEME, groupOf, nameHash, tonesOf } from "/js/shared/theme.js";
window.decode = async (path) => {
  const data = await decodePayload(new Uint8Array(await (await fetch(path)).arrayBuffer()));
  await data.detailsReady;
  const { header, n } = data;
  const numbers = ["start", "dur", "self", "launch", "parent", "depth", "flags"];
  const columns = Object.fromEntries(numbers.map((k) => [k, [...data[k]]]));
  const curve = (values) => [...values].map((v) => (Number.isNaN(v) ? null : v));
  const text = (ids, texts) => [...ids].map((id) => texts[id]);
  const row = Array.from({ length: n }, (_, i) => data.rowOf(i));
  const back = row.map((k) => data.eventOf(k));
  return { n, t0: header.t0, ...columns, row, back,
    name: text(data.name, header.names), cat: text(data.cat, header.cats),
    lane: text(data.lane, header.lanes), detail: Array.from({ length: n }, (_, i) => data.detail(i)),
    memory: data.memory.map((m) => ({ label: m.label, ts: [...m.ts], allocated: curve(m.allocated) })) };
};
window.theme = () => ({ NUM_SHADES, THEME });
window.colours = (pairs, mode) => pairs.map(([cat, name]) => {
  const tone = groupOf(cat, name) * NUM_SHADES + (nameHash(name) % NUM_SHADES);
  const { css, ink } = tonesOf(mode);
  return [THEME.groups[groupOf(cat, name)].key, css[tone], ink[tone]];
});
window.isReady = true;
"""

HOSTILE = ["</script><img src=x onerror=alert(1)>", "é🙂\u202e", "", "\x00\n", "x" * 5000, "__proto__"]


def random_trace(seed: int, n: int) -> Trace:
    """Events that touch, nest, overlap and tie, on two threads and two streams, with 64-bit ids and rising memory."""
    rng = np.random.default_rng(seed)
    on_device = rng.random(n) < 0.3
    base = [0, 1_700_000_000_000_000_000, -(2**40)][seed % 3]
    span = int(10 ** rng.integers(1, 12))

    def nullable(values, mask, dtype):
        return pd.Series(values).astype(dtype).mask(mask).array

    ids = rng.integers(-(2**63), 2**63 - 1, n)
    events = build_events(
        {
            "ts": base + rng.integers(0, span, n),
            "dur": np.where(rng.random(n) < 0.2, 0, rng.integers(0, span, n) >> rng.integers(0, 20, n)),
            "is_instant": rng.random(n) < 0.05,
            "name": pd.Categorical(rng.choice([*HOSTILE, "ProfilerStep#4", "aten::mm"], n)),
            "cat": pd.Categorical(np.where(on_device, "kernel", rng.choice(["cpu_op", "cuda_runtime", "overhead"], n))),
            "device": nullable(np.zeros(n), ~on_device, "Int32"),
            "stream": nullable(rng.choice([7, 2**62], n), ~on_device, "Int64"),
            "pid": nullable(np.full(n, 2**55), on_device, "Int64"),
            "tid": nullable(rng.integers(1, 3, n), on_device, "Int64"),
            "correlation_id": nullable(rng.integers(0, n, n), rng.random(n) < 0.5, "Int64"),
            "external_id": nullable(ids, rng.random(n) < 0.5, "Int64"),
            "shapes": pd.Categorical([None if k % 3 else f"[{k % 4}]" for k in range(n)]),
        },
        async_mask=~on_device & (rng.random(n) < 0.1),
    )
    memory = build_memory(
        {
            "ts": base + np.sort(rng.integers(0, span, n)),
            "action": ["alloc"] * n,
            "num_bytes": rng.integers(0, 2**40, n),
            "device_type": pd.Categorical(rng.choice(["cpu", "cuda"], n)),
            "allocated_bytes": nullable(rng.integers(0, 2**50, n), rng.random(n) < 0.1, "Int64"),
        },
        events,
    )
    return Trace(RunInfo(name="random", source="cpu"), events=events, memory=memory)


@pytest.mark.parametrize(("seed", "n"), [(0, 0), (1, 1), (2, 40), (3, 300), (4, 2000), (5, 2000)])
@pytest.mark.parametrize("compress", [True, False])
def test_the_page_decodes_what_the_frame_holds(module_page, seed, n, compress):
    trace = random_trace(seed, n)
    page = module_page(DECODE, {"/data": pack(trace, compress=compress)})
    data = page.evaluate("decode('/data')")
    events = trace.events
    assert data["n"] == n
    row = data["row"]
    assert sorted(row) == list(range(n))
    assert data["back"] == list(range(n))
    seen = events.iloc[row]
    assert [int(data["t0"]) + int(s) for s in data["start"]] == seen["ts"].tolist()
    assert data["dur"] == seen["dur"].tolist()
    assert data["self"] == seen["self_dur"].tolist()
    assert data["depth"] == seen["depth"].tolist()
    assert [-1 if p < 0 else row[p] for p in data["parent"]] == seen["parent"].fillna(-1).tolist()
    assert [-1 if p < 0 else row[p] for p in data["launch"]] == seen["launch"].fillna(-1).tolist()
    assert [flags & 1 for flags in data["flags"]] == seen["is_instant"].astype(int).tolist()
    assert data["name"] == [
        without_controls(name if len(name) <= 2000 else name[:2000] + "… [5,000 characters]") for name in seen["name"]
    ]
    assert data["cat"] == seen["cat"].tolist()
    assert [lane["kind"] == "device" for lane in data["lane"]] == seen["device"].notna().tolist()
    for name in ("external_id", "shapes"):
        want = [None if pd.isna(v) else str(v) for v in seen[name]]
        assert [detail.get(name) for detail in data["detail"]] == want


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_the_page_decodes_the_last_events_as_rows_of_the_whole_frame(module_page, monkeypatch, seed):
    monkeypatch.setattr(payload, "MIN_EVENTS", 100)
    trace = random_trace(seed, 2000)
    packed = pack(trace, max_bytes=payload._HEADER_RESERVE + 25_000)
    assert len(packed) <= payload._HEADER_RESERVE + 25_000
    data = module_page(DECODE, {"/data": packed}).evaluate("decode('/data')")
    first = 2000 - data["n"]
    assert 0 < first < 2000
    row, seen = data["row"], trace.events.iloc[data["row"]]
    assert sorted(row) == list(range(first, 2000))
    assert data["back"] == list(range(data["n"]))
    assert [int(data["t0"]) + int(s) for s in data["start"]] == seen["ts"].tolist()
    assert data["dur"] == seen["dur"].tolist()
    assert data["self"] == seen["self_dur"].tolist()
    for name in ("parent", "launch"):
        known = seen[name].fillna(-1)
        assert [-1 if p < 0 else row[p] for p in data[name]] == known.where(known >= first, -1).tolist()
    begin = trace.events["ts"].iloc[first]
    for curve in data["memory"]:
        want = trace.memory[(trace.memory["device_type"] == curve["label"]) & (trace.memory["ts"] >= begin)]
        assert [int(data["t0"]) + int(t) for t in curve["ts"]] == want["ts"].tolist()


def test_the_page_decodes_the_memory_curve(module_page):
    trace = random_trace(3, 500)
    data = module_page(DECODE, {"/data": pack(trace)}).evaluate("decode('/data')")
    assert len(data["memory"]) == 2
    for curve in data["memory"]:
        want = trace.memory[trace.memory["device_type"] == curve["label"]]
        assert [int(data["t0"]) + int(t) for t in curve["ts"]] == want["ts"].tolist()
        assert curve["allocated"] == [None if pd.isna(v) else v for v in want["allocated_bytes"]]


def test_many_lanes(module_page):
    n = 2000
    events = build_events(
        {
            "ts": np.arange(n),
            "dur": np.ones(n, np.int64),
            "name": pd.Categorical(["x"] * n),
            "cat": pd.Categorical([f"category {k % 300}" for k in range(n)]),
            "tid": pd.array(range(n), dtype="Int64"),
        }
    )
    blob = pack(Trace(RunInfo(name="lanes", source="cpu"), events=events))
    data = module_page(DECODE, {"/data": blob}).evaluate("decode('/data')")
    assert len({lane["label"] for lane in data["lane"]}) == n
    assert [data["cat"][data["row"].index(k)] for k in range(n)] == events["cat"].tolist()


def test_a_damaged_payload_reports_it(module_page):
    blob = pack(random_trace(2, 40), compress=False)
    page = module_page(DECODE, {"/short": blob[: len(blob) // 2], "/other": b"<html>no payload</html>"})
    messages = [page.evaluate(f"decode('{path}').then(() => '', (e) => e.message)") for path in ("/short", "/other")]
    assert "it ends at byte" in messages[0]
    assert "do not begin with CLP1" in messages[1]


def test_the_page_and_python_share_one_palette(module_page):
    page = module_page(DECODE)
    assert page.evaluate("theme().THEME") == assets.theme()
    pairs = [("kernel", "sgemm"), ("kernel", "ncclDevKernel_AllReduce"), ("cpu_op", "aten::mm"), ("nothing", "é🙂")]
    for mode in ("light", "dark"):
        for (cat, name), (key, css, ink) in zip(
            pairs, page.evaluate("([p, m]) => colours(p, m)", [pairs, mode]), strict=True
        ):
            fill = assets.color_of(cat, name, mode)
            red, green, blue = (int(fill[k : k + 2], 16) for k in (1, 3, 5))
            assert (key, css, ink) == (assets.group_of(cat, name), f"rgb({red},{green},{blue})", assets.ink_on(fill))
            assert assets.contrast(fill, ink) >= 4.5

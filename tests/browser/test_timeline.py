"""The canvas timeline, by real gestures in a real browser, and what it paints against a slow oracle."""

import numpy as np
import pandas as pd
import pytest

from cudalens.frames import RunInfo, Trace, build_events
from cudalens.views.timeline.payload import pack

SCRIPT = """
import { decodePayload } from "/js/payload/payload.js";
import { createTimeline } from "/js/timeline/timeline.js";
import * as lod from "/js/timeline/lod.js";
window.lod = lod;
window.calls = [];
window.hovers = [];
window.open_ = async (options = {}) => {
  window.data = await decodePayload(new Uint8Array(await (await fetch("/data")).arrayBuffer()));
  window.tl = createTimeline(document.getElementById("root"), data, { theme: "light", ...options,
    onHover: (event) => hovers.push(event),
    onSelect: ({ range, event, names }) => calls.push({ range, event, names: names && [...names] }) });
};
// Pixels of the canvas at (x, y) px, as [r, g, b].
window.pixel = (x, y) => {
  const canvas = document.querySelector("#root canvas");
  const ratio = canvas.width / canvas.clientWidth;
  const copy = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, -Math.round(x * ratio), -Math.round(y * ratio));
  return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
window.isReady = true;
"""
BODY = '<div id="root"></div><div style="height: 3000px">the page goes on</div>'


def small_trace() -> Trace:
    """A step with two ops; the second launches two kernels on two streams; a worker thread; a hostile name."""
    rows = [
        # name, cat, ts, dur, device, stream, tid, correlation
        ("ProfilerStep#3", "user_annotation", 0, 10_000, None, None, 1, None),
        ("aten::add", "cpu_op", 500, 2_000, None, None, 1, None),
        ("aten::mm", "cpu_op", 3_000, 5_000, None, None, 1, None),
        ("cudaLaunchKernel", "cuda_runtime", 4_000, 500, None, None, 1, 11),
        ("cudaLaunchKernel", "cuda_runtime", 5_000, 500, None, None, 1, 12),
        ("</script><img src=x onerror=alert(1)>", "cpu_op", 1_000, 8_000, None, None, 2, None),
        ("gemm", "kernel", 6_000, 1_500, 0, 7, None, 11),
        ("ncclAllReduce", "kernel", 7_000, 3_000, 0, 9, None, 12),
    ]
    name, cat, ts, dur, device, stream, tid, correlation = zip(*rows, strict=True)
    return Trace(
        RunInfo(name="small", source="cpu"),
        events=build_events(
            {
                "ts": ts,
                "dur": dur,
                "name": pd.Categorical(name),
                "cat": pd.Categorical(cat),
                "device": pd.array(device, dtype="Int32"),
                "stream": pd.array(stream, dtype="Int64"),
                "pid": pd.array([None if d is not None else 1 for d in device], dtype="Int64"),
                "tid": pd.array(tid, dtype="Int64"),
                "correlation_id": pd.array(correlation, dtype="Int64"),
            }
        ),
    )


def busy_trace(seed: int, n: int, span: int, num_threads: int = 2) -> Trace:
    """Random events, most of them far shorter than a pixel of the whole span, with silence between bursts."""
    rng = np.random.default_rng(seed)
    burst = rng.integers(0, 8, n) * (span // 8)
    events = build_events(
        {
            "ts": burst + rng.integers(0, span // 20, n),
            "dur": (rng.random(n) ** 8 * span / 30).astype(np.int64),
            "name": pd.Categorical([f"op{k}" for k in rng.integers(0, 40, n)]),
            "cat": pd.Categorical(rng.choice(["cpu_op", "cuda_runtime", "user_annotation"], n)),
            "tid": pd.array(rng.integers(0, num_threads, n), dtype="Int64"),
        }
    )
    return Trace(RunInfo(name="busy", source="cpu"), events=events)


class Timeline:
    """The timeline in a page, in the terms of the tests."""

    def __init__(self, page):
        self.page = page
        self.canvas = page.locator("#root canvas")

    def js(self, text, *arguments):
        return self.page.evaluate(text, *arguments)

    def view(self):
        return self.js("tl.getView()")

    def span(self):
        low, high = self.view()
        return high - low

    def named(self, name, k=0):
        """Index of the k-th event of a name."""
        found = self.js("name => [...data.name.keys()].filter((i) => data.header.names[data.name[i]] === name)", name)
        return found[k]

    def point(self, event, share=0.5):
        """A point of the page on the event, at a share of its length."""
        box, canvas = self.js("i => tl.boxOf(i)", event), self.canvas.bounding_box()
        return canvas["x"] + box["x"] + box["width"] * share, canvas["y"] + box["y"] + 8

    def calls(self):
        return self.js("calls")

    def spoken(self):
        return self.page.locator("#root [aria-live]").text_content()

    def wait(self, condition):
        self.page.wait_for_function(condition)

    def settle(self):
        """Wait until two frames have passed and the window no longer moves."""
        self.js("""() => new Promise((done) => {
          let before = null;
          const look = () => {
            const now = JSON.stringify(tl.getView());
            if (now === before) done();
            else { before = now; requestAnimationFrame(() => requestAnimationFrame(look)); }
          };
          requestAnimationFrame(look);
        })""")


@pytest.fixture
def open_timeline(module_page):
    def open_it(trace=None, options=None, **context):
        page = module_page(SCRIPT, {"/data": pack(small_trace() if trace is None else trace)}, body=BODY, **context)
        page.evaluate("options => open_(options)", options or {})
        timeline = Timeline(page)
        timeline.settle()
        return timeline

    return open_it


@pytest.fixture
def timeline(open_timeline):
    return open_timeline()


def test_a_click_selects_the_event_under_the_pointer_exactly(timeline):
    for event in timeline.js("[...data.name.keys()]"):
        for share in (0.02, 0.98):
            timeline.js("() => { calls.length = 0; tl.select(null); }")
            x, y = timeline.point(event, share)
            timeline.page.mouse.click(x, y)
            assert timeline.calls() == [{"range": None, "event": event, "names": None}]


def test_a_click_beside_all_events_clears_the_selection(timeline):
    timeline.page.mouse.click(*timeline.point(timeline.named("gemm")))
    x, y = timeline.point(timeline.named("gemm"), -3)
    timeline.page.mouse.click(x, y)
    assert [call["event"] for call in timeline.calls()] == [timeline.named("gemm"), None]


def test_the_wheel_scrolls_the_page_until_the_timeline_was_clicked(timeline):
    page = timeline.page
    whole = timeline.view()
    x, y = timeline.point(timeline.named("aten::mm"))
    page.mouse.move(x, y)
    page.mouse.wheel(0, 120)
    timeline.wait("window.scrollY > 0")
    assert timeline.view() == whole
    page.evaluate("scrollTo(0, 0)")
    timeline.wait("window.scrollY === 0")
    page.mouse.click(x, y)
    page.mouse.wheel(0, -300)
    timeline.wait(f"tl.getView()[1] - tl.getView()[0] < {(whole[1] - whole[0]) * 0.9}")
    page.mouse.move(x, 650)
    page.mouse.move(x, y)
    before = timeline.view()
    page.mouse.wheel(0, 120)
    timeline.wait("window.scrollY > 0")
    assert timeline.view() == before, "leaving the timeline gives the wheel back to the page"


def test_ctrl_wheel_zooms_around_the_pointer(timeline):
    event = timeline.named("gemm")
    x, y = timeline.point(event, 0)
    span = timeline.span()
    timeline.page.mouse.move(x, y)
    timeline.page.keyboard.down("Control")
    timeline.page.mouse.wheel(0, -200)
    timeline.wait(f"tl.getView()[1] - tl.getView()[0] < {span * 0.8}")
    timeline.page.keyboard.up("Control")
    assert timeline.point(event, 0)[0] == pytest.approx(x, abs=1.5)


def test_a_drag_pans_with_the_pointer(timeline):
    timeline.js("tl.zoomTo(2000, 8000)")
    event = timeline.named("aten::mm")
    x, y = timeline.point(event)
    timeline.page.mouse.move(x, y)
    timeline.page.mouse.down()
    timeline.page.mouse.move(x + 90, y, steps=4)
    timeline.page.mouse.up()
    timeline.settle()
    assert timeline.span() == pytest.approx(6000)
    assert timeline.point(event)[0] == pytest.approx(x + 90, abs=1.5)
    assert timeline.calls() == [], "a drag is no click"


@pytest.mark.parametrize("where", ["shift", "ruler"])
def test_a_range_is_dragged_out(timeline, where):
    start, end = timeline.named("aten::mm"), timeline.named("cudaLaunchKernel", 1)
    (x0, y), (x1, _) = timeline.point(start, 0), timeline.point(end, 1)
    if where == "ruler":
        y = timeline.canvas.bounding_box()["y"] + 38
    else:
        timeline.page.keyboard.down("Shift")
    timeline.page.mouse.move(x0, y)
    timeline.page.mouse.down()
    timeline.page.mouse.move(x1, y, steps=5)
    timeline.page.mouse.up()
    timeline.page.keyboard.up("Shift")
    ((low, high),) = [call["range"] for call in timeline.calls()]
    ns_per_px = timeline.span() / (timeline.canvas.bounding_box()["width"] * 0.8)
    assert (low, high) == (pytest.approx(3000, abs=2 * ns_per_px), pytest.approx(5500, abs=2 * ns_per_px))


def test_a_double_click_zooms_to_the_event_and_0_fits_again(timeline):
    whole = timeline.view()
    event = timeline.named("gemm")
    timeline.page.mouse.dblclick(*timeline.point(event))
    timeline.wait("tl.getView()[1] - tl.getView()[0] <= 6001")
    low, high = timeline.view()
    assert (low + high) / 2 == pytest.approx(6750)
    timeline.page.keyboard.press("0")
    timeline.settle()
    assert timeline.view() == pytest.approx(whole)
    timeline.page.keyboard.press("f")
    timeline.wait("tl.getView()[1] - tl.getView()[0] <= 6001")
    low, high = timeline.view()
    assert (low + high) / 2 == pytest.approx(6750), "F zooms to the selection"


def test_w_a_s_d_move_while_held(timeline):
    timeline.js("tl.zoomTo(2000, 8000)")
    timeline.js("tl.focus()")
    conditions = {
        "d": "tl.getView()[0] > {0}",
        "a": "tl.getView()[0] < {0}",
        "w": "tl.getView()[1] - tl.getView()[0] < {1}",
        "s": "tl.getView()[1] - tl.getView()[0] > {1}",
    }
    for key, condition in conditions.items():
        before, span = timeline.view()[0], timeline.span()
        timeline.page.keyboard.down(key)
        timeline.wait(condition.format(before, span))
        timeline.page.keyboard.up(key)
        timeline.settle()


def test_w_a_s_d_step_where_motion_is_unwanted(open_timeline):
    timeline = open_timeline(reduced_motion="reduce")
    timeline.js("tl.focus()")
    before = timeline.span()
    timeline.page.keyboard.press("w")
    assert timeline.span() < before
    timeline.page.keyboard.press("f")
    assert timeline.span() == pytest.approx(before), "at once"


def test_events_can_be_walked_and_chosen_by_keys_alone(timeline):
    press = timeline.page.keyboard.press
    for _ in range(12):
        press("Tab")
        if timeline.js("document.activeElement.tagName") == "CANVAS":
            break
    press("Enter")
    assert timeline.spoken().startswith("gemm, kernel, lasts 1.50 µs, starts at 6.00 µs, on GPU 0 · stream 7")
    press("l")
    assert timeline.spoken().startswith("cudaLaunchKernel, cuda_runtime, lasts 500 ns, starts at 4.00 µs")
    press("ArrowRight")
    assert "starts at 5.00 µs" in timeline.spoken()
    press("ArrowUp")
    assert timeline.spoken().startswith("aten::mm")
    press("ArrowLeft")
    assert timeline.spoken().startswith("aten::add")
    press("ArrowUp")
    assert timeline.spoken().startswith("ProfilerStep#3")
    press("ArrowDown")
    press("Enter")
    assert timeline.calls()[-1]["event"] in (timeline.named("aten::add"), timeline.named("aten::mm"))
    press("Escape")
    assert timeline.calls()[-1]["event"] is None
    press("Tab")
    assert timeline.js("document.activeElement.tagName") != "CANVAS", "Tab leads out again"


def test_search_counts_steps_and_clears(timeline):
    timeline.js("tl.focus()")
    timeline.page.keyboard.press("/")
    timeline.page.keyboard.type("LAUNCH")
    matches = timeline.page.locator("#root .cltl-matches")
    assert matches.text_content() == "2 matches"
    for key, want in [("Enter", 0), ("Enter", 1), ("Enter", 0), ("Shift+Enter", 1)]:
        timeline.page.keyboard.press(key)
        assert timeline.calls()[-1]["event"] == timeline.named("cudaLaunchKernel", want)
        assert matches.text_content() == f"{want + 1} of 2"
    timeline.page.keyboard.press("Escape")
    assert matches.text_content() == ""
    assert timeline.js("document.activeElement.tagName") == "CANVAS"
    assert timeline.js("[tl.search('no such name'), tl.search('aten')]") == [0, 2]


def test_search_and_chosen_names_dim_the_rest(timeline):
    box = timeline.js("i => tl.boxOf(i)", timeline.named("gemm"))
    at = [box["x"] + box["width"] - 12, box["y"] + 3]
    plain = timeline.js("([x, y]) => pixel(x, y)", at)
    timeline.js("tl.search('aten')")
    timeline.settle()
    assert timeline.js("([x, y]) => pixel(x, y)", at) == [0xD9, 0xDE, 0xE4]
    timeline.js("tl.search('')")
    timeline.js("id => tl.setNames(new Set([id]))", timeline.js(f"data.name[{timeline.named('gemm')}]"))
    timeline.settle()
    assert timeline.js("([x, y]) => pixel(x, y)", at) == plain
    timeline.js("tl.setNames(null)")


def test_hover_shows_name_duration_and_launch(timeline):
    timeline.page.mouse.move(*timeline.point(timeline.named("ncclAllReduce")))
    tip = timeline.page.locator("#root .cltl-tip")
    assert tip.is_visible()
    text = tip.inner_text()
    for part in ("ncclAllReduce", "3.00 µs", "kernel", "launched by cudaLaunchKernel, 2.00 µs earlier"):
        assert part in text
    timeline.page.mouse.move(*timeline.point(timeline.named("ncclAllReduce"), -5))
    assert tip.is_hidden()
    assert timeline.js("hovers") == [timeline.named("ncclAllReduce"), None]


def test_hostile_names_stay_text(timeline):
    event = timeline.named("</script><img src=x onerror=alert(1)>")
    timeline.page.mouse.move(*timeline.point(event))
    assert "onerror" in timeline.page.locator("#root .cltl-tip").inner_text()
    timeline.page.mouse.click(*timeline.point(event))
    assert "onerror" in timeline.spoken()
    assert timeline.page.locator("#root img").count() == 0


def test_a_click_on_a_label_folds_the_lane(timeline):
    mm, worker = timeline.named("aten::mm"), timeline.named("</script><img src=x onerror=alert(1)>")
    before = timeline.js("i => tl.boxOf(i).y", worker)
    canvas = timeline.canvas.bounding_box()
    step = timeline.js("i => tl.boxOf(i)", timeline.named("ProfilerStep#3"))
    timeline.page.mouse.click(canvas["x"] + 40, canvas["y"] + step["y"] + 8)
    assert timeline.js("i => tl.boxOf(i)", mm) is None
    assert timeline.js("i => tl.boxOf(i).y", worker) < before
    assert timeline.spoken() == "thread 1 folded"
    timeline.js("i => tl.select(i)", mm)
    assert timeline.js("i => tl.boxOf(i)", mm) is not None, "selecting an event unfolds its lane"


def test_themes_switch(timeline):
    """The background of the labels and of the lanes, beneath the last one."""
    spots = "[pixel(8, 60), pixel(document.querySelector('#root canvas').clientWidth - 3, 100)]"
    light = timeline.js(spots)
    timeline.js("tl.setTheme('dark')")
    timeline.settle()
    dark = timeline.js(spots)
    assert all(sum(a) > 700 and sum(b) < 100 for a, b in zip(light, dark, strict=True))


def test_it_follows_its_container_and_the_density_of_the_screen(open_timeline):
    timeline = open_timeline(device_scale_factor=2)
    assert timeline.js("[document.querySelector('canvas').width / document.querySelector('canvas').clientWidth]") == [2]
    timeline.js("document.getElementById('root').style.width = '500px'")
    timeline.wait("document.querySelector('#root canvas').clientWidth < 500")
    event = timeline.named("ncclAllReduce")
    timeline.page.mouse.click(*timeline.point(event))
    assert timeline.calls()[-1]["event"] == event


def test_arrows_lead_from_the_launch_to_its_kernel(timeline):
    timeline.js("i => tl.select(i)", timeline.named("ncclAllReduce"))
    timeline.settle()
    box = timeline.js("i => tl.boxOf(i)", timeline.named("ncclAllReduce"))
    tip = timeline.js("([x, y]) => pixel(x, y)", [box["x"], box["y"] + box["height"] + 4])
    assert tip == [0x6E, 0x3C, 0x00], "the arrow's head points at the kernel from below, in the arrows' colour"


def test_setters_do_not_call_back(timeline):
    timeline.js("() => { tl.setRange(1000, 2000); tl.select(1); tl.setNames(new Set([0])); tl.setRange(null); }")
    timeline.settle()
    assert timeline.calls() == []


def test_destroy_leaves_nothing(timeline):
    timeline.js("() => { tl.destroy(); document.dispatchEvent(new Event('scroll')); }")
    assert timeline.page.locator("#root > *").count() == 0


@pytest.mark.parametrize("trace", [Trace(RunInfo(name="empty", source="cpu")), busy_trace(0, 1, 1000)])
def test_nothing_and_next_to_nothing_can_be_shown(open_timeline, trace):
    timeline = open_timeline(trace)
    timeline.js("tl.focus()")
    for key in ("Enter", "ArrowLeft", "ArrowUp", "l", "z", "f", "c", "Enter", "Escape", "n", "End", "PageDown"):
        timeline.page.keyboard.press(key)
    timeline.settle()
    assert timeline.js("tl.stats().frames") > 0


def test_many_lanes_scroll(open_timeline):
    timeline = open_timeline(busy_trace(1, 6000, 10_000_000, num_threads=2000))
    last = timeline.js("data.n - 1")
    timeline.js("i => tl.select(i)", last)
    timeline.settle()
    box, canvas = timeline.js("i => tl.boxOf(i)", last), timeline.canvas.bounding_box()
    assert 50 <= box["y"] <= canvas["height"]


PAINT = """([t0, w, width]) => {
  const rows = lod.assignRows(data);
  const tone = lod.assignTones(data);
  const index = lod.gatherRows(data, rows, tone);
  const pixels = Uint32Array.from({ length: 256 }, (_, k) => k);
  const painted = [];
  for (let r = 0; r + 1 < index.first.length; r++) {
    const out = new Uint32Array(width);
    lod.paintRow(index, r, { t0, w, out, base: 0, width, minWidth: Infinity }, pixels, () => {});
    painted.push([...out].map((v) => [v & 0xffffff, v >>> 24]));
  }
  const end = [...data.start].map((s, i) => rows.ends.get(i) ?? s + data.dur[i]);
  return { painted, end, tone: [...tone], row: [...data.lane].map((l, i) => index.laneRow[l] + rows.row[i]) };
}"""


@pytest.mark.parametrize("zoom", [1, 7, 60, 4000])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_painted_agrees_with_a_slow_oracle(open_timeline, seed, zoom):
    span, width = 10_000_000, 300
    timeline = open_timeline(busy_trace(seed, 3000, span))
    w = span / width / zoom
    t0 = span / 8 * 3 - 20 * w
    result = timeline.js(PAINT, [t0, w, width])
    start, end = np.array(timeline.js("[...data.start]")), np.array(result["end"])
    dur, tone, row = end - start, np.array(result["tone"]), np.array(result["row"])
    assert_rows_are_disjoint(start, end, row)
    for r, painted in enumerate(result["painted"]):
        mine = np.flatnonzero(row == r)
        for x, (color, alpha) in enumerate(painted):
            low, high = t0 + x * w, t0 + (x + 1) * w
            inside = np.minimum(end[mine], high) - np.maximum(start[mine], low)
            is_point = (dur[mine] == 0) & (start[mine] >= low) & (start[mine] < high)
            seen = mine[(inside > 0) | is_point]
            busy = inside[inside > 0].sum() / w
            if len(seen) == 0:
                assert alpha == 0, "a gap is shown as a gap"
                continue
            assert alpha > 0, "what ran is shown"
            assert tone[seen][dur[seen] == dur[seen].max()].tolist().count(color) > 0 or busy >= 1 - 1e-9
            if busy < 1 - 1e-9:
                assert alpha == pytest.approx(88 + (255 - 88) * busy, abs=1)
            elif len(seen) == 1:
                assert (color, alpha) in {(tone[seen[0]], 255), (tone[seen[0]], 150)}


def test_an_event_that_starts_at_the_edge_of_a_pixel_is_painted(open_timeline):
    """The whole trace in windows of many widths: rounding finds the pixel before the edge in some of them."""
    timeline = open_timeline(busy_trace(1, 3000, 10_000_000))
    painted = timeline.js(
        """() => {
          const longest = 1_000_003;
          const index = {
            first: Uint32Array.of(0, 1, 2), s: Float64Array.of(2e6, 0), e: Float64Array.of(3e6, longest),
            sum: Float64Array.of(0, 1e6, 1e6 + longest), tone: new Uint8Array(2), at: Uint32Array.of(0, 1), maxima: [],
          };
          const shares = [];
          for (let width = 300; width < 900; width++) {
            const w = (longest * 1.04) / width;
            const t0 = Math.round((-0.02 * longest) / w) * w;
            const out = new Uint32Array(width);
            const target = { t0, w, out, base: 0, width, minWidth: Infinity };
            lod.paintRow(index, 1, target, new Uint32Array(8), () => {});
            shares.push(out.filter((pixel) => pixel !== 0).length / width);
          }
          return shares;
        }"""
    )
    assert min(painted) == pytest.approx(1 / 1.04, abs=0.01)


def test_an_event_is_drawn_short_only_for_a_much_longer_one(open_timeline):
    timeline = open_timeline(busy_trace(1, 3000, 10_000_000))
    cuts = timeline.js(
        "[...lod.assignRows(data).ends].map(([i, end]) => [data.start[i], end, data.start[i] + data.dur[i]])"
    )
    assert cuts, "the trace has events that overlap without enclosing each other"
    assert all(start < end < whole for start, end, whole in cuts)


def assert_rows_are_disjoint(start, end, row):
    for r in np.unique(row):
        mine = np.flatnonzero(row == r)
        order = mine[np.lexsort((end[mine], start[mine]))]
        assert (end[order][:-1] <= start[order][1:]).all()


def test_children_are_beneath_their_callers(open_timeline):
    timeline = open_timeline(busy_trace(3, 2000, 1_000_000))
    row = timeline.js("[...lod.assignRows(data).row]")
    parent = timeline.js("[...data.parent]")
    assert all(row[i] > row[p] for i, p in enumerate(parent) if p >= 0)


def test_longest_in_agrees_with_a_scan(open_timeline):
    timeline = open_timeline(busy_trace(4, 5000, 1_000_000))
    faults = timeline.js("""() => {
      const index = lod.gatherRows(data, lod.assignRows(data), lod.assignTones(data));
      const faults = [];
      const m = index.at.length;
      for (let k = 0; k < 4000; k++) {
        const a = (k * 7919) % m;
        const b = Math.min(m, a + 1 + ((k * k) % (k % 3 ? 40 : m)));
        let best = a;
        for (let p = a; p < b; p++) if (index.e[p] - index.s[p] > index.e[best] - index.s[best]) best = p;
        if (lod.longestIn(index, a, b) !== best) faults.push([a, b]);
      }
      return faults;
    }""")
    assert faults == []


def notebook_trace() -> Trace:
    """A cell that takes 10 us, inside three frames of libraries; a second thread that waits."""
    around = ["<frozen runpy>(88): _run_code", "asyncio/events.py(80): _run", "IPython/core/async_helpers.py(140): run"]
    calls = [*around, "/tmp/ipykernel_1/2.py(1): <module>"]
    waits = ["threading.py(1002): _bootstrap", "threading.py(331): wait"]
    names = [*calls, "aten::mm", *waits]
    return Trace(
        RunInfo(name="cell", source="cpu"),
        events=build_events(
            {
                "ts": [0] * len(calls) + [4_000] + [0, 0],
                "dur": [10_000] * len(calls) + [2_000] + [10_000] * 2,
                "name": pd.Categorical(names),
                "cat": pd.Categorical(["python_function"] * len(calls) + ["cpu_op"] + ["python_function"] * 2),
                "pid": pd.array([1] * len(names), dtype="Int64"),
                "tid": pd.array([1] * (len(calls) + 1) + [2] * 2, dtype="Int64"),
            }
        ),
    )


def test_frames_around_a_notebooks_cell_take_one_row(open_timeline):
    timeline = open_timeline(notebook_trace())
    names = ("<frozen runpy>(88): _run_code", "/tmp/ipykernel_1/2.py(1): <module>", "aten::mm")
    outer, cell, mm = (timeline.named(name) for name in names)
    tops = [timeline.js("i => tl.boxOf(i)", event)["y"] for event in (outer, cell, mm)]
    assert np.diff(tops).tolist() == [18, 18]
    timeline.page.mouse.move(*timeline.point(outer))
    tip = timeline.page.locator("#root .cltl-tip").inner_text()
    assert "3 enclosing frames, the innermost: IPython/core/async_helpers.py(140): run" in tip
    folded = timeline.named("asyncio/events.py(80): _run")
    timeline.js("i => tl.select(i)", folded)
    timeline.settle()
    timeline.canvas.press("ArrowDown")
    assert timeline.js("i => tl.boxOf(i)", folded) is None


def test_a_thread_that_only_waits_is_folded(open_timeline):
    timeline = open_timeline(notebook_trace())
    assert timeline.js("i => tl.boxOf(i)", timeline.named("threading.py(1002): _bootstrap")) is not None
    assert timeline.js("i => tl.boxOf(i)", timeline.named("threading.py(331): wait")) is None

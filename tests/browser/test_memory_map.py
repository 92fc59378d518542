"""The memory map in a real browser: hover, choosing, brushing time, keys, colours, call stacks, without a network."""

import json
import re

import pandas as pd
import pytest

from cudalens.frames import RunInfo, Trace, build_events
from cudalens.views.memory.map_payload import pack

from .sample_snapshots import HOSTILE, random_snapshot, trace_of

READY = ".cudalens[data-state=ready]"
APP = "#cudalens-app"
MAP = "cudalensReport.panels.memoryMap"
SETTLED = f"{APP} .mm-table tbody tr"


@pytest.fixture(scope="module")
def trace():
    plain = trace_of(random_snapshot(11), HOSTILE)
    is_used = (plain.blocks["state"] != "inactive").to_numpy()
    names = pd.Series([json.dumps([f"{HOSTILE}{k}"]) if used else None for k, used in enumerate(is_used)])
    category = pd.Categorical(
        ["activation" if used else None for used in is_used], categories=plain.blocks["category"].cat.categories
    )
    return trace_of(random_snapshot(11), HOSTILE, names=pd.Categorical(names), category=category)


@pytest.fixture(scope="module")
def report(trace, tmp_path_factory):
    return trace.to_html(tmp_path_factory.mktemp("memory") / "report.html").as_uri()


@pytest.fixture
def page(offline_page, report):
    offline_page.goto(report)
    offline_page.wait_for_selector(READY)
    offline_page.wait_for_selector(SETTLED)
    return offline_page


def block(page, k=0):
    """The middle of block `k` of the map at hand, on the page, and its size."""
    return page.evaluate(
        f"""(k) => {{
            const map = {MAP}, {{ moment, data }} = map, allocation = moment.allocations[k];
            const strip = moment.strips.findIndex(({{ first, end }}) => first <= k && k < end);
            const {{ addr, bytes }} = data.allocations;
            const hit = {{ strip, allocation, from: addr[allocation], bytes: bytes[allocation] }};
            const [box] = map.pool.boxesOf(hit);
            const at = document.querySelector("{APP} .mm-canvas").getBoundingClientRect();
            return {{ x: at.left + box.x + box.width / 2, y: at.top + box.y + box.height / 2, bytes: hit.bytes }};
        }}""",
        k,
    )


def test_hovering_shows_what_a_block_is_and_a_click_all_of_it(page):
    place = block(page)
    page.mouse.move(place["x"], place["y"])
    tip = page.locator(f"{APP} .mm-map .mm-tip")
    tip.wait_for(state="visible")
    assert HOSTILE in tip.inner_text()
    assert "activation" in tip.inner_text()
    page.mouse.click(place["x"], place["y"])
    details = page.locator(f"{APP} .mm-details").inner_text()
    assert f"({place['bytes']:,} bytes)" in details
    assert "/app/main.py:1 main" in details
    assert "in use" in details


def test_gaps_are_distinguished_from_blocks(page):
    page.locator(f"{APP} .mm-canvas").focus()
    seen = set()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
        seen.add(page.locator(f"{APP} .mm-details h4").first.inner_text())
    assert seen == {"Block", "Free memory"}


def test_keys_reach_every_block_in_turn(page):
    page.locator(f"{APP} .mm-canvas").focus()
    page.keyboard.press("Home")
    chosen = [page.evaluate(f"{MAP}.chosen.allocation")]
    for _ in range(2000):
        page.keyboard.press("ArrowRight")
        now = page.evaluate(f"[{MAP}.chosen.strip, {MAP}.chosen.from, {MAP}.chosen.allocation]")
        if now == page.evaluate("window.before ?? null"):
            break
        page.evaluate("(now) => (window.before = now)", now)
        chosen.append(now[2])
    assert {allocation for allocation in chosen if allocation >= 0} == set(
        page.evaluate(f"[...{MAP}.moment.allocations]")
    )
    page.keyboard.press("Escape")
    assert page.locator(f"{APP} .mm-details").is_hidden()


def test_zooming_by_keys_shows_fewer_bytes_and_zero_all_of_them(page):
    page.locator(f"{APP} .mm-canvas").focus()
    before = page.evaluate(f"{MAP}.pool.stats().lines")
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert page.evaluate(f"{MAP}.pool.stats().lines") > before
    page.keyboard.press("0")
    assert page.evaluate(f"{MAP}.pool.stats().lines") == before


def curve_box(page):
    return page.locator(f"{APP} .mm-curve-canvas").bounding_box()


def test_a_click_on_the_curve_shows_the_blocks_of_that_moment(page, trace):
    box = curve_box(page)
    page.mouse.click(box["x"] + box["width"] * 0.4, box["y"] + 60)
    page.wait_for_function(f"() => {MAP}.moment.row < {MAP}.data.numRows - 1")
    row = page.evaluate(f"{MAP}.moment.row")
    assert f"action {row + 1:,} of {len(trace.memory):,}" in page.locator(f"{APP} .mm-moment").inner_text()
    alive = f"""() => {{ const {{ alloc, done }} = {MAP}.data.allocations;
        return [...{MAP}.moment.allocations].every((i) => alloc[i] <= {row} && {row} < done[i]); }}"""
    assert page.evaluate(alive)


def test_dragging_along_the_curve_shows_what_was_allocated_then_and_stayed(page):
    box = curve_box(page)
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 60)
    page.mouse.up()
    page.wait_for_function(f"() => {MAP}.since !== null && {MAP}.moment.row > {MAP}.since")
    words = page.locator(f"{APP} .mm-moment")
    page.wait_for_function(
        "(at) => document.querySelector(at).innerText.includes('and stayed')", arg=f"{APP} .mm-moment"
    )
    made = page.evaluate(
        f"""() => {{ const {{ allocations }} = {MAP}.data;
            return [...{MAP}.moment.allocations].filter((i) => allocations.alloc[i] > {MAP}.since).length; }}"""
    )
    assert f"in {made} block" in words.inner_text()
    page.locator(f"{APP} .mm-curve-canvas").focus()
    page.keyboard.press("Escape")
    page.wait_for_function(f"() => {MAP}.since === null")


def test_the_peak_is_within_reach_of_the_keyboard(page, trace):
    page.locator(f"{APP} .mm-curve-canvas").focus()
    page.keyboard.press("p")
    page.wait_for_function(
        "(at) => document.querySelector(at).innerText.startsWith('At the peak')", arg=f"{APP} .mm-moment"
    )
    device = page.evaluate(f"{MAP}.data.header.devices[{MAP}.moment.device].index")
    memory = trace.memory[trace.memory["device"].eq(device).to_numpy(bool)]
    assert page.evaluate(f"{MAP}.moment.row") == memory["allocated_bytes"].astype("int64").idxmax()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        "(at) => !document.querySelector(at).innerText.startsWith('At the peak')", arg=f"{APP} .mm-moment"
    )


@pytest.mark.parametrize(
    ("mode", "label"), [("category", "activation"), ("stream", "stream 64"), ("age", "up to"), ("stack", "layer_")]
)
def test_colours_state_what_was_asked_for(page, mode, label):
    page.locator(f"{APP} .mm-choice [data-key={mode}]").first.click()
    assert label in page.locator(f"{APP} .mm-legend").last.inner_text()
    assert page.locator(f"{APP} .mm-choice[aria-label=Colour] [aria-pressed=true]").get_attribute("data-key") == mode


def test_another_colour_reaches_the_canvas(page):
    drawn = f"() => document.querySelector('{APP} .mm-canvas').toDataURL()"
    before = page.evaluate(drawn)
    page.locator(f"{APP} .mm-choice [data-key=age]").click()
    page.wait_for_function(f"(before) => ({drawn})() !== before", arg=before)
    aged = page.evaluate(drawn)
    page.locator(f"{APP} .mm-choice[aria-label=Colour] [data-key=category]").click()
    page.wait_for_function(f"(before) => ({drawn})() !== before", arg=aged)
    page.wait_for_function(f"(before) => ({drawn})() === before", arg=before)


def test_a_row_of_the_table_makes_all_others_pale(page):
    page.locator(f"{APP} .mm-choice[aria-label=By] [data-key=stack]").click()
    drawn = f"() => document.querySelector('{APP} .mm-canvas').toDataURL()"
    before = page.evaluate(drawn)
    page.locator(SETTLED).first.focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"(before) => ({drawn})() !== before", arg=before)
    assert page.locator(f"{SETTLED}[data-picked]").count() == 1
    assert page.locator(f"{SETTLED}[data-picked]").first.get_attribute("aria-pressed") == "true"


def test_call_stacks_zoom_and_are_searched(page):
    page.locator(f"{APP} .mm-flame-canvas").click(position={"x": 20, "y": 19 * 2.5})
    assert page.evaluate(f"{MAP}.flame.textOf({MAP}.flame.root)") != "all"
    page.get_by_role("button", name="Whole graph").click()
    assert page.evaluate(f"{MAP}.flame.root") == 0
    page.get_by_label("Search call stacks").fill("main")
    found = page.locator(f"{APP} .mm-flame .mm-muted")
    page.wait_for_function(
        "(at) => document.querySelector(at).innerText.includes('100 %')", arg=f"{APP} .mm-flame .mm-muted"
    )
    page.get_by_label("Search call stacks").fill("no such function")
    assert found.inner_text() == "nothing fits"


def test_blocks_without_a_call_stack_have_a_bar_of_their_own(offline_page, tmp_path):
    snapshot = random_snapshot(2)
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    for actions in snapshot["device_traces"]:
        for action in actions[::2]:
            action["frames"] = []
    for block_ in blocks[::2]:
        block_["frames"] = []
    offline_page.goto(trace_of(snapshot).to_html(tmp_path / "report.html").as_uri())
    offline_page.wait_for_selector(f"{APP} .mm-flame-canvas")
    sums = offline_page.evaluate(
        f"""() => {{
          const {{ graph, textOf }} = {MAP}.flame;
          const {{ parent, weight }} = graph;
          const own = [...parent.keys()].filter((node) => parent[node] === 0);
          return [weight[0], own.reduce((sum, node) => sum + weight[node], 0), textOf(parent.length - 1)];
        }}"""
    )
    assert sums[0] == sums[1] > 0
    assert sums[2] == "no call stack"


def test_each_device_has_a_map_of_its_own(page):
    page.locator(f"{APP} .mm-choice[aria-label=Device] [data-key='1']").click()
    page.wait_for_function(f"() => {MAP}.moment.device === 1")
    assert page.evaluate(f"[...{MAP}.moment.allocations].every((i) => {MAP}.data.allocations.device[i] === 1)")


def test_foreign_text_stays_text(page):
    assert page.locator("img").count() == 0
    assert HOSTILE in page.locator("h1").inner_text()


def test_pictures_and_tables_are_without_scripts(page):
    assert page.locator("#cudalens-static .cudalens-memory svg").count() >= 3
    assert page.locator("#cudalens-static .cudalens-memory table").count() == 6
    titles = page.locator("#cudalens-static .cudalens-memory th:first-child").all_inner_texts()
    assert [re.sub(r" of [\d.]+ \w+", "", title) for title in titles] == [
        "held by",
        "at the end, by category",
        "at the end, by line",
        "at the peak, by category",
        "at the peak, by line",
        "pool at the end",
    ]


def test_it_is_below_the_timeline_and_follows_its_selection(offline_page, trace, tmp_path):
    events = build_events(
        {
            "ts": [0, 10_000_000],
            "dur": [5, 5],
            "name": pd.Categorical(["aten::mm", "aten::add"]),
            "cat": pd.Categorical(["cpu_op", "cpu_op"]),
            "tid": pd.array([1, 1], dtype="Int64"),
        }
    )
    frames = {name: trace.frames[name] for name in ("memory", "blocks", "stacks")}
    both = Trace(RunInfo(name="both", source="cpu"), events=events, **frames)
    offline_page.goto(both.to_html(tmp_path / "both.html").as_uri())
    offline_page.wait_for_selector(READY)
    tops = [offline_page.locator(f"{APP} {at}").bounding_box()["y"] for at in (".cl-timeline", ".cl-memory-map")]
    assert tops == sorted(tops)
    assert offline_page.locator(f"{APP} .cl-memory").is_hidden()
    ts = trace.memory["ts"].to_numpy()
    offline_page.evaluate("(range) => cudalensReport.selection.set({ range }, 'test')", [int(ts[20]), int(ts[90])])
    offline_page.wait_for_function(f"() => {MAP}.moment.row === 90 && {MAP}.since === 20")


def test_a_dark_page_and_a_narrow_one_keep_everything_in_sight(context_of, report):
    context = context_of(viewport={"width": 380, "height": 700}, color_scheme="dark")
    narrow = context.new_page()
    narrow.goto(report)
    narrow.wait_for_selector(READY)
    assert narrow.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert narrow.locator(f"{APP}[data-theme=dark] .mm-canvas").count() == 1
    # The brightest pixel of the labels of the time axis, below the curve.
    brightest = narrow.evaluate(
        """selector => {
          const canvas = document.querySelector(selector), ratio = canvas.width / canvas.clientWidth;
          const top = Math.round((canvas.clientHeight - 14) * ratio), height = canvas.height - top;
          const { data } = canvas.getContext("2d").getImageData(0, top, canvas.width, height);
          return data.reduce((most, value, k) => (k % 4 === 1 && value > most ? value : most), 0);
        }""",
        f"{APP} .mm-curve-canvas",
    )
    assert brightest > 150


def test_blocks_alone_make_a_map_without_a_curve(offline_page, tmp_path):
    snapshot = random_snapshot(3)
    alone = trace_of(snapshot["segments"])
    offline_page.goto(alone.to_html(tmp_path / "alone.html").as_uri())
    offline_page.wait_for_selector(READY)
    offline_page.wait_for_selector(SETTLED)
    assert offline_page.locator(f"{APP} .mm-curve-canvas").count() == 0
    assert len(pack(alone)) > 0
    assert offline_page.evaluate(f"{MAP}.moment.allocations.length") > 0


@pytest.mark.parametrize("mode", ["category", "stack", "stream"])
def test_bands_stack_up_to_what_was_allocated_at_each_moment(page, mode):
    """The bands of the curve against sums over all allocations, at moments near and far from each other."""
    wrong = page.evaluate(
        f"""(mode) => {{
            const map = {MAP}, {{ data }} = map, {{ allocations, header, numRows }} = data, wrong = [];
            map.setColor(mode);
            const device = map.moment.device;
            for (const row of [-1, 0, 1, 5, numRows >> 1, (numRows >> 1) + 1, 3, numRows - 2, numRows - 1]) {{
                const sums = {{}};
                let all = 0;
                for (let i = 0; i < allocations.n; i++) {{
                    if (allocations.device[i] !== device) continue;
                    if (allocations.alloc[i] > row || allocations.released[i] <= row) continue;
                    all += allocations.bytes[i];
                    const label = header.categories[allocations.category[i] - 1] ?? "not known";
                    sums[label] = (sums[label] ?? 0) + allocations.bytes[i];
                }}
                const found = map.curve.bandsAt(row);
                const total = Object.values(found).reduce((sum, bytes) => sum + bytes, 0);
                if (total !== all) wrong.push([row, total, all]);
                if (mode !== "category") continue;
                for (const [label, bytes] of Object.entries(found)) {{
                    if (bytes !== (sums[label] ?? 0)) wrong.push([row, label, bytes, sums[label]]);
                }}
            }}
            return wrong;
        }}""",
        mode,
    )
    assert wrong == []


def test_a_band_says_what_it_is_and_how_much(page):
    labels = page.locator(f"{APP} .mm-curve-legend .mm-key").all_text_contents()
    assert "activation" in labels
    canvas = page.locator(f"{APP} .mm-curve-canvas").bounding_box()
    page.mouse.move(canvas["x"] + canvas["width"] - 20, canvas["y"] + canvas["height"] - 25)
    tip = page.locator(f"{APP} .mm-curve .mm-tip")
    tip.wait_for(state="visible")
    first = tip.locator("div").first.inner_text()
    assert first.partition(":")[0] in labels
    assert first.endswith(("B", "iB"))

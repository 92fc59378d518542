"""Lanes of the timeline: pinned, moved, folded and filtered with the list of lanes, by dragging, and by keys."""

from cudalens.views.timeline.payload import pack

from .test_timeline import BODY, SCRIPT, Timeline, busy_trace


def test_a_reader_arranges_the_lanes(module_page):
    trace = busy_trace(3, 4000, 10_000_000, num_threads=12)
    page = module_page(SCRIPT, {"/data": pack(trace)}, body=BODY)
    page.evaluate("open_()")
    timeline = Timeline(page)
    timeline.settle()
    first_of = page.evaluate("data.header.lanes.map((_, l) => [...data.lane.keys()].find((i) => data.lane[i] === l))")
    labels = page.evaluate("data.header.lanes.map(({ label }) => label)")

    def top(lane):
        return timeline.js("i => tl.boxOf(i).y", first_of[lane])

    def button(what, lane):
        return page.get_by_role("button", name=f"{what}: {labels[lane]}", exact=True)

    def scroll(px):
        timeline.js("y => { document.querySelector('.cltl-frame').scrollTop = y; }", px)
        timeline.settle()

    page.get_by_role("button", name="Lanes", exact=True).click()
    button("Pin on top", 2).click()
    assert timeline.spoken() == f"{labels[2]} pinned"
    assert top(2) < top(0) < top(1) < top(3)
    pinned = top(2)
    scroll(5000)
    assert top(2) == pinned, "a pinned lane stays"
    assert top(0) < 0, "the others scroll"
    timeline.js("i => tl.select(i)", first_of[0])
    timeline.settle()
    assert top(0) > pinned, "a revealed event is not below the pinned lanes"
    page.mouse.click(*timeline.point(first_of[2]))
    assert timeline.calls()[-1]["event"] == first_of[2], "a click on a pinned lane selects its event"
    scroll(0)
    button("Move down", 0).press("Enter")
    assert top(1) < top(0) < top(3)
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == f"Move down: {labels[0]}"
    button("Move up", 1).click()
    assert top(2) < top(1), "pinned lanes stay above the others"
    canvas = timeline.canvas.bounding_box()
    page.mouse.move(canvas["x"] + 40, canvas["y"] + top(1) + 8)
    page.mouse.down()
    page.mouse.move(canvas["x"] + 40, canvas["y"] + top(0) + 8, steps=4)
    page.mouse.up()
    assert top(0) < top(1) < top(3), "a dragged label moves its lane"
    button("Pin on top", 2).click()
    assert top(2) < top(0), "an unpinned lane is the first of the others"
    button("Fold to one row", 3).click()
    assert button("Fold to one row", 3).get_attribute("aria-pressed") == "true"


def test_a_filter_dims_the_other_names_of_its_lane_only(module_page):
    page = module_page(SCRIPT, {"/data": pack(busy_trace(3, 400, 10_000_000))}, body=BODY)
    page.evaluate("open_()")
    lanes = page.evaluate("data.header.lanes.map(({ label }) => label)")
    num_dim = """([lane, text]) => [...data.lane.keys()].filter((i) => {
      const box = tl.boxOf(i);
      const isOther = data.lane[i] === lane && box.width > 2 && !data.header.names[data.name[i]].includes(text);
      return isOther && String(pixel(box.x + box.width / 2, box.y + 3)) === "217,222,228";
    }).length"""
    assert [page.evaluate(num_dim, [lane, "op7"]) for lane in (0, 1)] == [0, 0]
    page.get_by_role("button", name="Lanes", exact=True).click()
    page.get_by_label(f"Filter names: {lanes[1]}").fill("op7")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    untouched, dimmed = (page.evaluate(num_dim, [lane, "op7"]) for lane in (0, 1))
    assert untouched == 0
    assert dimmed >= 5

"""The graph tree in a real browser: rows that open, keys, folds, paths, no overlap, and hostile text."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_graphs import failed_rows, fan_rows, graphs_trace, hostile_graphs, large_rows, layers_rows

from cudalens.report import to_html
from cudalens.views import notebook

READY = ".cudalens[data-state=ready]"
APP = "#cudalens-app"
ROW = f"{APP} .cg-row > summary"


@pytest.fixture
def open_report(offline_page, tmp_path):
    def open_report(trace):
        offline_page.goto(to_html(trace, tmp_path / "report.html").as_uri())
        offline_page.wait_for_selector(READY)
        return offline_page

    return open_report


def focused(page):
    return page.evaluate("document.activeElement.querySelector('b')?.textContent ?? document.activeElement.textContent")


def test_a_report_of_graphs_alone_shows_them_and_nothing_else(open_report):
    page = open_report(graphs_trace(source="virtual:h100"))
    assert page.title() == "CUDA graphs of cell-7"
    answer = page.locator(f"{APP} .cl-verdict strong").inner_text()
    assert answer == (
        "4 graphs, replayed 960 of 1,009 calls, 4.1x faster than eager (310 µs less a replay), 312 MiB reserved"
    )
    assert page.locator(f"{APP} .cl-badge").inner_text() == "simulated: h100"
    assert page.locator(ROW).count() == 4
    for part in (".cl-timeline", ".cl-table", ".cl-memory", "canvas"):
        assert not any(found.is_visible() for found in page.locator(f"{APP} {part}").all())


def test_a_failed_check_is_above_everything(open_report):
    page = open_report(graphs_trace(failed_rows(), events=True, races=True))
    parts = [".cudalens-graph-checks", ".cg-frame", ".cudalens-race", "canvas"]
    tops = [page.locator(f"{APP} {part}").first.bounding_box()["y"] for part in parts]
    assert tops == sorted(tops)
    assert page.locator(f"{APP} .cg-tag.is-bad").inner_text() == "✗ differs"


def test_rows_go_by_keys_and_open_to_what_is_known(open_report):
    page = open_report(graphs_trace())
    page.locator(ROW).first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert focused(page) == "decode"
    facts = page.locator(f"{APP} .cg-row[open] dl").inner_text()
    for expected in ("number 1 of decode", "9 used without a copy, 1 copied", "eager 410 µs, replay 100 µs", "In[7]:3"):
        assert expected in facts
    page.keyboard.press("ArrowLeft")
    assert page.locator(f"{APP} .cg-row[open]").count() == 0
    page.keyboard.press("End")
    assert focused(page) == "sample"
    page.keyboard.press("Home")
    assert focused(page) == "prefill"


def test_folds_open_and_the_current_one_is_found(open_report):
    page = open_report(graphs_trace(layers_rows(60)))
    visible = page.locator(f"{ROW} >> visible=true")
    assert visible.count() == 8
    page.get_by_role("button", name="Unfold all").click()
    assert visible.count() == 121
    page.get_by_role("button", name="Close all").click()
    assert visible.count() == 8
    page.get_by_role("button", name="Unfold all").click()
    page.get_by_role("button", name="Go to current").click()
    assert page.evaluate("document.activeElement.closest('.cg-stop').classList.contains('is-current')")
    box = page.evaluate("document.activeElement.getBoundingClientRect().toJSON()")
    frame = page.locator(f"{APP} .cg-frame").bounding_box()
    assert frame["y"] <= box["top"]
    assert box["bottom"] <= frame["y"] + frame["height"]


def test_a_path_shows_itself_in_the_tree(open_report):
    page = open_report(graphs_trace())
    paths = page.locator(f"{APP} .cudalens-graph-paths button")
    paths.nth(1).click()
    traced = page.locator(f"{APP} .cg-stop.is-traced > .cg-row b:first-of-type").all_inner_texts()
    assert [name for name in traced if not name.strip().endswith("x")] == ["prefill", "decode"]
    assert paths.nth(1).get_attribute("aria-pressed") == "true"
    paths.nth(1).click()
    assert page.locator(f"{APP} .is-traced").count() == 0


OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll("#cudalens-app .cg-row > summary")]
    .filter((row) => row.getClientRects().length).map((row) => row.getBoundingClientRect());
  let overlaps = 0;
  for (let k = 1; k < boxes.length; k++) overlaps += boxes[k].top < boxes[k - 1].bottom - 0.5;
  const cells = [...document.querySelectorAll("#cudalens-app .cg-row > summary > span")]
    .filter((cell) => cell.getClientRects().length);
  for (let k = 1; k < cells.length; k++) {
    const [a, b] = [cells[k - 1], cells[k]].map((cell) => cell.getBoundingClientRect());
    if (cells[k].parentElement === cells[k - 1].parentElement) overlaps += b.left < a.right - 0.5;
  }
  return [boxes.length, overlaps, document.documentElement.scrollWidth - innerWidth];
}"""


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize(("rows", "number"), [(large_rows(), 300), (fan_rows(), 81)])
def test_nothing_overlaps_and_the_page_never_scrolls_sideways(open_report, width, rows, number):
    page = open_report(graphs_trace(rows))
    page.set_viewport_size({"width": width, "height": 800})
    if (unfold := page.get_by_role("button", name="Unfold all")).count():
        unfold.click()
    assert page.evaluate(OVERLAPS) == [number, 0, 0]


def test_hostile_texts_stay_text(open_report):
    page = open_report(hostile_graphs())
    assert page.evaluate("window.pwned") is None
    assert page.locator(f"{APP} img, {APP} style").count() == 0
    assert page.locator(ROW).count() == 7


def test_the_picture_needs_no_script(offline_page):
    offline_page.set_content(f"<body>{notebook.static_html(graphs_trace())}</body>")
    row = offline_page.locator(".cg-row > summary").nth(1)
    row.focus()
    offline_page.keyboard.press("Enter")
    assert offline_page.locator(".cg-row[open] dl").is_visible()

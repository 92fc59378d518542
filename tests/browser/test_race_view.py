"""The race diff in a real browser: the list, the filter, the cards, copying, the timeline, and hostile text."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_races import DIFF, clean_trace, hostile_races, many_races, race_trace, races_frame, read_after_write
from sample_traces import T0, gpu_trace

from cudalens.frames import StackTable
from cudalens.report import to_html
from cudalens.views import notebook

READY = ".cudalens[data-state=ready]"
APP = "#cudalens-app"
CARD = f"{APP} .cudalens-race"


@pytest.fixture
def open_report(offline_page, tmp_path):
    def open_report(trace, page=offline_page):
        page.goto(to_html(trace, tmp_path / "report.html").as_uri())
        page.wait_for_selector(READY)
        return page

    return open_report


def items(page):
    return page.locator(f"{APP} .cl-race-list [role=option]")


def chosen(page):
    """Number of the race whose card is shown, as its heading says; the list must agree."""
    head = page.locator(f"{CARD} > h4").inner_text()
    (item,) = page.locator(f"{APP} .cl-race-list [aria-selected=true] b").all_inner_texts()
    assert head.startswith(f"{item} of ")
    return int(head.split(".")[0])


def test_a_report_of_races_alone_shows_them_and_nothing_else(open_report):
    page = open_report(race_trace())
    assert page.title() == "Races of cell-7"
    assert page.locator(f"{APP} .cl-verdict strong").inner_text() == "2 races, seen 514 times"
    assert page.locator(CARD).count() == 1
    assert page.locator(f"{CARD} > h4").inner_text() == "1. use after free of other · seen twice"
    for part in (".cl-timeline", ".cl-table", ".cl-memory", "canvas"):
        assert not any(found.is_visible() for found in page.locator(f"{APP} {part}").all())


def test_one_race_needs_no_list(open_report):
    page = open_report(many_races(1))
    assert page.locator(f"{APP} .cl-race-list").count() == 0
    assert page.locator(CARD).is_visible()


def test_a_clean_run_reports_it(open_report):
    page = open_report(clean_trace())
    assert page.locator(f"{APP} .cl-verdict").inner_text() == "no races: 1,204 operations on 3 streams checked"
    assert page.locator(CARD).count() == 0


def test_clicking_shows_another_card(open_report):
    page = open_report(race_trace())
    items(page).nth(1).click()
    assert chosen(page) == 2
    rows = page.locator(f"{CARD} .cl-race-sides tbody tr").all_inner_texts()
    assert rows[0].split("\t") == ["Operation", "mul_ writes self", "sum reads self"]
    assert rows[1].split("\t") == ["Stream", "stream 0x5581e0", "the default stream"]
    common = page.locator(f"{CARD} .cudalens-race-stack details").first
    assert common.locator("li").first.is_hidden()
    common.locator("summary").click()
    assert common.locator("li").first.is_visible()


def test_the_list_goes_by_keys(open_report):
    page = open_report(many_races(40))
    page.locator(f"{APP} .cl-race-list").focus()
    for key, number in (("ArrowDown", 2), ("ArrowDown", 3), ("ArrowUp", 2), ("PageDown", 12), ("End", 40),
                        ("ArrowDown", 40), ("Home", 1), ("ArrowUp", 1)):  # fmt: skip
        page.keyboard.press(key)
        assert chosen(page) == number, key
        active = page.locator(f"{APP} .cl-race-list").get_attribute("aria-activedescendant")
        assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    page.keyboard.press("End")
    assert page.evaluate(
        """() => {
          const box = (selector) => document.querySelector('#cudalens-app ' + selector).getBoundingClientRect();
          const [list, item] = [box('.cl-race-list'), box('.cl-race-list [aria-selected=true]')];
          return item.top >= list.top - 1 && item.bottom <= list.bottom + 1;
        }"""
    ), "the chosen race is in sight"


def test_the_filter_keeps_one_kind(open_report):
    page = open_report(many_races(40))
    tools = page.locator(f"{APP} .cl-race-tools button")
    assert tools.all_inner_texts() == [
        "all 40", "use after free 10", "read after write 10", "write after write 10", "write after read 10",
    ]  # fmt: skip
    items(page).nth(12).click()
    tools.nth(2).click()
    assert tools.nth(2).get_attribute("aria-pressed") == "true"
    assert items(page).count() == 10
    assert all(text.startswith(f"{k}. read after write") for k, text in enumerate(items(page).all_inner_texts(), 11))
    assert chosen(page) == 13, "what was looked at stays, where the filter lets it"
    tools.nth(1).click()
    assert chosen(page) == 1
    tools.nth(0).click()
    assert items(page).count() == 40


def test_hundreds_of_races_build_one_card_at_a_time(open_report):
    page = open_report(many_races(900))
    assert items(page).count() == 900
    assert page.locator(CARD).count() == 1
    assert page.evaluate("() => document.querySelectorAll('#cudalens-app *').length") < 900 * 6 + 600


def test_the_diff_is_copied_unchanged(context_of, tmp_path):
    context = context_of()
    page = context.new_page()
    page.goto(to_html(race_trace(), tmp_path / "r.html").as_uri())
    page.wait_for_selector(READY)
    # Headless Chromium has no clipboard to read: what the page hands over is what counts.
    page.evaluate(
        "() => Object.defineProperty(navigator, 'clipboard', "
        "{ value: { writeText: async (text) => { window.copied = text; } } })"
    )
    items(page).nth(1).click()
    button = page.locator(f"{CARD} .cl-race-copy button")
    button.click()
    page.wait_for_function("() => window.copied !== undefined")
    assert page.evaluate("() => window.copied") == DIFF
    assert button.inner_text() == "Copied"


def test_without_a_clipboard_the_diff_is_selected(context_of, tmp_path):
    page = context_of().new_page()
    page.goto(to_html(race_trace(), tmp_path / "r.html").as_uri())
    page.wait_for_selector(READY)
    page.evaluate(
        "() => { Object.defineProperty(navigator, 'clipboard', { value: undefined }); "
        "document.execCommand = () => false; }"
    )
    items(page).nth(1).click()
    button = page.locator(f"{CARD} .cl-race-copy button")
    button.click()
    page.wait_for_function("() => getSelection().toString().includes('wait_stream')")
    assert button.inner_text() == "Selected: press Ctrl+C"


def test_with_events_races_come_first_and_the_timeline_stays(open_report):
    page = open_report(race_trace(events=True))
    box = {
        name: page.locator(f"{APP} {name}").first.bounding_box()["y"]
        for name in (".cl-verdict", ".cudalens-race", "canvas")
    }
    assert box[".cl-verdict"] < box[".cudalens-race"] < box["canvas"]
    assert page.locator(f"{APP} .cl-table-host tbody tr").count() == 7


def marked_trace():
    """Two races, the second of them seen right after the second aten::copy_ had ended."""
    stacks = StackTable()
    rows = [
        read_after_write(stacks, kind="use after free", ts=T0 + 40_000),
        read_after_write(stacks, second_op="aten::copy_", ts=T0 + 1_251_000),
    ]
    return gpu_trace().replace(races=races_frame(rows), stacks=stacks.to_frame())


def index_of(page, start):
    return page.evaluate(
        """start => {
          const { data } = cudalensReport;
          return [...data.start].findIndex((t, i) => t === start && data.launch[i] >= 0);
        }""",
        start,
    )


def test_the_kernel_of_a_race_is_marked_and_leads_to_its_card(open_report):
    page = open_report(marked_trace())
    timeline = "cudalensReport.panels.timeline"
    kernel = index_of(page, 1_460_000)
    assert page.evaluate(f"i => {timeline}.raceOf(i)", kernel) == 1
    assert page.evaluate(f"() => {timeline}.raceOf(0)") is None
    assert chosen(page) == 1
    page.evaluate("event => cudalensReport.selection.set({ event }, 'timeline')", kernel)
    assert chosen(page) == 2


def test_choosing_a_race_brings_its_kernel_into_view(open_report):
    page = open_report(marked_trace())
    page.evaluate("() => cudalensReport.panels.timeline.zoomTo(0, 50_000)")
    items(page).nth(1).click()
    page.wait_for_function(
        "() => { const [t0, t1] = cudalensReport.panels.timeline.getView(); return t0 < 1_460_000 && t1 > 1_490_000; }"
    )


def test_the_marks_are_painted(open_report):
    reddish = """() => {
      const canvas = document.querySelector('#cudalens-app .cl-timeline canvas');
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      let found = 0;
      for (let i = 0; i < data.length; i += 4) found += data[i] === 229 && data[i + 1] === 72 && data[i + 2] === 77;
      return found;
    }"""
    assert open_report(gpu_trace()).evaluate(reddish) == 0
    assert open_report(marked_trace()).evaluate(reddish) > 60


def test_hostile_texts_are_inert(open_report, offline_page):
    for events in (False, True):
        page = open_report(hostile_races(events=events))
        for k in range(2):
            items(page).nth(k).click()
            for fold in page.locator(f"{CARD} summary").all():
                fold.click()
        assert page.evaluate("() => window.pwned") is None
        assert page.locator("img").count() == 0
        assert page.locator(f"{APP} .cudalens-races style").count() == 0
        assert page.locator("[onload], [onerror]").count() == 0
        assert "</script><img src=x" in page.locator(CARD).inner_text()


def test_the_page_refuses_elements_that_it_does_not_know(module_page):
    page = module_page(
        'import { buildMarkup } from "/js/shared/markup.js"; window.build = buildMarkup; window.isReady = true;'
    )
    refused = page.evaluate(
        "() => { try { build(['p', {}, ['script', {}]]); } catch (error) { return error.message; } }"
    )
    assert "script" in refused
    shown = page.evaluate(
        """() => build(['p', { onclick: 'x()', style: 'x', href: 'javascript:x', class: 'a' }, '<b>',
          ['svg', {}, ['rect', { x: '1' }]]]).outerHTML"""
    )
    assert shown == '<p class="a">&lt;b&gt;<svg><rect x="1"></rect></svg></p>'


def test_without_javascript_the_cards_can_be_read(context_of, tmp_path):
    page = context_of(java_script_enabled=False).new_page()
    page.goto(to_html(race_trace(), tmp_path / "r.html").as_uri())
    cards = page.locator("#cudalens-static .cudalens-race")
    assert cards.nth(0).is_visible()
    assert cards.nth(1).is_hidden()
    page.locator("#cudalens-static .cl-race-fold > summary").nth(1).click()
    assert cards.nth(1).locator(".cl-race-code").is_visible()


def contrasts(page, selector):
    """Contrast of each text with the page behind it, by WCAG."""
    return page.evaluate(
        """selector => {
          const rgba = (text) => {
            const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
            context.fillStyle = text;
            context.fillRect(0, 0, 1, 1);
            const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
            return [r, g, b, a / 255];
          };
          const over = ([r, g, b, a], under) => [r, g, b].map((c, k) => c * a + under[k] * (1 - a));
          const ground = (node) => {
            if (!node) return [255, 255, 255];
            const own = rgba(getComputedStyle(node).backgroundColor);
            return own[3] === 1 ? own.slice(0, 3) : over(own, ground(node.parentElement));
          };
          const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
          const light = (rgb) => {
            const [r, g, b] = rgb.map((v) => linear(v / 255));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          return [...document.querySelectorAll(selector)].filter((node) => node.checkVisibility()).map((node) => {
            const back = ground(node);
            const ink = over(rgba(getComputedStyle(node).color), back);
            const [low, high] = [light(back), light(ink)].sort((a, b) => a - b);
            return (high + 0.05) / (low + 0.05);
          });
        }""",
        selector,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_on_its_ground(open_report, offline_page, scheme):
    offline_page.emulate_media(color_scheme=scheme)
    page = open_report(race_trace())
    items(page).nth(1).click()
    measured = contrasts(
        page, ", ".join(f"{APP} .cudalens-races {tag}" for tag in ("p", "td", "th", "span", "li", "b", "code", "small"))
    )
    assert len(measured) > 40
    assert min(measured) >= 4.5


@pytest.mark.parametrize("width", [340, 700, 1400])
def test_the_page_never_scrolls_sideways(open_report, offline_page, width):
    offline_page.set_viewport_size({"width": width, "height": 800})
    for trace in (race_trace(), many_races(30), hostile_races(events=True)):
        page = open_report(trace)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_saved_picture_is_readable_on_any_page(offline_page, tmp_path, scheme):
    style = (
        "html { color-scheme: light dark } body { background: light-dark(#fff, #111); color: light-dark(#111, #eee) }"
    )
    path = tmp_path / "saved.html"
    html = notebook.static_html(race_trace())
    path.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style><body>{html}</body>", encoding="utf-8")
    offline_page.emulate_media(color_scheme=scheme)
    offline_page.goto(path.as_uri())
    offline_page.evaluate("() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    texts = ", ".join(f".cudalens-race {tag}" for tag in ("p", "td", "th", "span", "summary"))
    assert min(contrasts(offline_page, texts)) >= 4.5

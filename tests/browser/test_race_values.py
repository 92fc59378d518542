"""Races by value in a real browser: the tabs of a card, the pictures of a tensor, both orders; live and saved."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_races import race_trace
from sample_values import value_exploration, value_trace

from cudalens.report import to_html
from cudalens.views import notebook

READY = ".cudalens[data-state=ready]"
APP = "#cudalens-app"
CARD = f"{APP} .cudalens-race"
SEEDS = ["rush:4<1", "hold:4<1"]
STYLE = "html { color-scheme: light dark } body { background: light-dark(#fff, #111); color: light-dark(#111, #eee) }"


@pytest.fixture
def open_report(offline_page, tmp_path):
    def open_report(trace, page=offline_page):
        page.goto(to_html(trace, tmp_path / "report.html").as_uri())
        page.wait_for_selector(READY)
        return page

    return open_report


@pytest.fixture
def open_html(offline_page, tmp_path):
    """Opens HTML as a saved notebook shows it."""

    def open_html(html, **media):
        path = tmp_path / "saved.html"
        path.write_text(f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><body>{html}", encoding="utf-8")
        offline_page.emulate_media(**media)
        offline_page.goto(path.as_uri())
        return offline_page

    return open_html


def tabs(page):
    return page.locator(f"{CARD} [role=tab]")


def show(page, title):
    page.locator(f"{APP} .cl-race-list [role=option]", has_text=title).click()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_confirmed_race_opens_on_its_values(open_report, seed):
    page = open_report(value_trace(seed))
    show(page, "read after write")
    assert tabs(page).all_inner_texts() == ["Accesses", "Values"]
    assert tabs(page).nth(1).get_attribute("aria-selected") == "true"
    assert page.locator(f"{CARD} .cl-race-sides").is_hidden()
    values = page.locator(f"{CARD} .cudalens-race-value")
    assert "Confirmed by value: 3 values differ" in values.inner_text()
    figures = values.locator(".cl-value-figure")
    captions = ["In the program's order", "In the order that shows it", "Where they differ"]
    assert figures.all_inner_texts() == captions * 2
    assert all(figure.is_visible() for figure in figures.all())
    assert values.locator(".cl-race-scroll svg").is_visible()
    again = "%cudasan confirm" if seed.startswith("hold") else f"%cudasan explore --replay {seed}"
    assert again in values.inner_text()


def test_what_is_painted_is_what_differs(open_report):
    """The left half differs from a third of the height on; the right half nowhere."""
    page = open_report(value_trace())
    show(page, "read after write")
    picture = page.locator(f"{CARD} .cl-value-figure svg").nth(2)
    picture.scroll_into_view_if_needed()
    red = picture.evaluate(
        """svg => {
          const box = svg.getBoundingClientRect();
          const node = (x, y) => document.elementFromPoint(box.left + box.width * x, box.top + box.height * y);
          const at = (x, y) => node(x, y).getAttribute('fill');
          return [at(0.2, 0.1), at(0.2, 0.6), at(0.2, 0.9), at(0.8, 0.6)];
        }"""
    )
    assert red == ["currentColor", "#e5484d", "#e5484d", "currentColor"]


def test_the_first_values_that_differ_are_listed(open_report):
    page = open_report(value_trace())
    show(page, "read after write")
    rows = [row.split("\t") for row in page.locator(f"{CARD} .cl-race-samples").first.locator("tr").all_inner_texts()]
    assert rows[0] == ["Element", "Program's order", "Order that shows it"]
    assert rows[1][0] == "[64, 0]"
    assert rows[-1][0] == "[191, 3]"
    assert rows[-1][2] == "nan"


def test_tabs_go_by_click_and_by_key(open_report):
    page = open_report(value_trace())
    show(page, "read after write")
    tabs(page).nth(0).click()
    assert page.locator(f"{CARD} .cl-race-sides").is_visible()
    assert page.locator(f"{CARD} .cudalens-race-value").is_hidden()
    page.keyboard.press("ArrowRight")
    assert tabs(page).nth(1).evaluate("tab => document.activeElement === tab")
    assert page.locator(f"{CARD} .cudalens-race-value").is_visible()
    page.keyboard.press("ArrowLeft")
    assert page.locator(f"{CARD} .cl-race-code").is_visible()


def test_other_races_open_on_their_accesses(open_report):
    page = open_report(value_trace())
    show(page, "use after free")
    assert tabs(page).nth(0).get_attribute("aria-selected") == "true"
    tabs(page).nth(1).click()
    assert "Benign so far: the same bits in 20 schedules" in page.locator(f"{CARD} .cudalens-race-value").inner_text()
    show(page, "write after write")
    assert tabs(page).count() == 0
    assert page.locator(f"{CARD} .cl-race-sides").is_visible()


def test_without_values_there_are_no_tabs(open_report):
    assert tabs(open_report(race_trace())).count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_result_is_shown_alone(open_html, seed, scheme):
    page = open_html(value_exploration(seed)._repr_html_(), color_scheme=scheme)
    assert page.locator(".cudalens-races > p").first.inner_text().startswith("1 of 3 races confirmed by value")
    folds = page.locator(".cl-race-fold")
    assert [fold.evaluate("fold => fold.open") for fold in folds.all()] == [True, False, False]
    assert "Not tried: its accesses were not seen on two streams" in folds.nth(2).inner_text()
    assert page.locator(".cl-value-figure svg").first.is_visible()
    title = "Delayed run that shows it" if seed.startswith("hold") else "Order that shows it"
    assert title in folds.first.locator(".cl-race-scroll:has(svg)").inner_text()


def test_a_saved_notebook_shows_it_without_a_script(context_of, tmp_path):
    page = context_of(java_script_enabled=False).new_page()
    path = tmp_path / "saved.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{notebook.static_html(value_trace())}", encoding="utf-8")
    page.goto(path.as_uri())
    card = page.locator(".cudalens-race", has_text="Confirmed by value")
    assert card.locator(".cl-value-figure").first.is_visible()
    assert card.locator(".cl-race-sides").is_visible()


@pytest.mark.parametrize("width", [340, 1100])
def test_no_page_scrolls_sideways(open_report, offline_page, width):
    offline_page.set_viewport_size({"width": width, "height": 800})
    page = open_report(value_trace())
    show(page, "read after write")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")

import re
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_races import hostile_races, many_races, race_trace
from test_mimebundle import Markup

from cudalens.views.races.model import race_views
from cudalens.views.races.section import card
from cudalens.views.sections.markup import Node, element, for_notebooks, svg


def test_names_of_attributes_are_written_as_html_has_them():
    node = element("td", "a", None, class_="x", aria_label="b", colspan=2, open=True, hidden=False, title=None)
    assert node.html() == '<td class="x" aria-label="b" colspan="2" open="">a</td>'
    assert node.json() == ["td", {"class": "x", "aria-label": "b", "colspan": "2", "open": ""}, "a"]


@given(st.text(), st.text())
def test_any_text_stays_text(inner, value):
    found = Markup(element("p", element("b", inner), inner, title=value).html())
    assert found.elements == {"p", "b"}
    assert set(found.attributes) == {"title"}


def test_the_text_of_a_node_is_what_it_shows():
    assert element("p", "a", element("b", "c", element("i", "d")), "e").text() == "acde"


def test_a_picture_has_its_size_and_a_name():
    node = svg(10, 4, "<what>", element("rect"))
    assert node.html().startswith('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 4" width="10" height="4"')
    assert "<title>&lt;what&gt;</title>" in node.html()


def nodes_of(node):
    yield node
    for child in node.children:
        if isinstance(child, Node):
            yield from nodes_of(child)


def test_pictures_of_a_notebook_hide_themselves_where_style_sheets_and_their_tags_are_dropped():
    two = "".join(svg(10, 10, label, element("text", "axis")).html() for label in ("one", "two"))
    html = for_notebooks(f'<div class="cudalens-static"><p>verdict</p>{two}</div>')
    stripped = re.sub(r"<style>.*?</style>|</?(svg|title|text)\b[^>]*>", "", html)
    assert re.findall(r'<bdi style="display:none">(.*?)</bdi>', stripped) == ["oneaxis", "twoaxis"]
    assert "Trust Notebook" not in stripped
    assert html.count("<style>") == 1
    assert for_notebooks("<p>no picture</p>") == "<p>no picture</p>"


@pytest.mark.parametrize("trace", [race_trace(), many_races(4), hostile_races()], ids=["plain", "many", "hostile"])
def test_the_page_allows_every_element_and_attribute_of_a_card(trace):
    """`js/shared/markup.js` leaves out what it does not know, so the lists there must hold all that cards use."""
    text = files("cudalens.views").joinpath("js", "shared", "markup.js").read_text()
    sets = dict(re.findall(r"const ([A-Z]+) = new Set\(\[([^\]]*)\]", text))
    known = {name: set(re.findall(r'"([^"]+)"', items)) for name, items in sets.items()}
    for race in race_views(trace):
        for node in nodes_of(card(1, race)):
            assert node.tag in known["TAGS"] | known["SHAPES"]
            assert set(node.attributes) <= known["ATTRIBUTES"] | {"xmlns"}

import gzip
import json

import pytest
from sample_races import (
    DIFF,
    clean_trace,
    hostile_races,
    many_races,
    race_trace,
    races_frame,
    read_after_write,
    use_after_free,
)
from sample_traces import HOSTILE, gpu_trace
from test_mimebundle import ALLOWED, Markup

from cudalens.frames import StackTable, Trace
from cudalens.report import to_html
from cudalens.views import assets, notebook
from cudalens.views.races import section as races
from cudalens.views.races.model import MAX_DIFF, MAX_STACK, StackLine, folded, race_views
from cudalens.views.sections.markup import UNTRUSTED
from cudalens.views.sections.page import facts

CARD_ELEMENTS = {"code", "dd", "details", "dl", "dt", "pre", "rect", "span", "summary", "g"}


def trace_of(**changes):
    stacks = StackTable()
    row = read_after_write(stacks, **changes)
    return Trace(race_trace().info, races=races_frame([row]), stacks=stacks.to_frame())


def only(trace):
    (race,) = race_views(trace)
    return race


def table_rows(node):
    """Texts of the table's rows: label, earlier, later."""
    table = next(child.children[0] for child in node.children if "cl-race-scroll" in child.attributes.get("class", ""))
    rows = ([cell.text().strip() for cell in row.children] for row in table.children[1].children)
    return {label: sides for label, *sides in rows}


def test_races_come_worst_first_then_by_count():
    trace = many_races(8)
    assert [(race.kind, race.count) for race in race_views(trace)] == [
        ("use after free", 8),
        ("use after free", 4),
        ("read after write", 6),
        ("read after write", 2),
        ("write after write", 7),
        ("write after write", 3),
        ("write after read", 5),
        ("write after read", 1),
    ]


def test_suppressed_races_are_not_shown():
    stacks = StackTable()
    rows = [read_after_write(stacks, is_suppressed=True), use_after_free(stacks)]
    trace = Trace(race_trace().info, races=races_frame(rows), stacks=stacks.to_frame())
    assert [race.row for race in race_views(trace)] == [1]
    alone = Trace(race_trace().info, races=races_frame(rows[:1]), stacks=stacks.to_frame())
    assert not races.has_races(alone)
    assert races.section(alone) is None


def test_a_card_holds_both_accesses_side_by_side():
    rows = table_rows(races.card(1, only(trace_of())))
    assert rows["Operation"] == ["mul_ writes self", "sum reads self"]
    assert rows["Stream"] == ["stream 0x5581e0", "the default stream"]
    assert rows["Tensor"] == ["grads float32[1024, 1024]"] * 2
    assert rows["Bytes"] == ["bytes 0 to 4,194,303 (4.00 MiB)"] * 2
    assert rows["Where"] == ["In[7]:5", "In[7]:8"]
    assert rows["Line"] == ["grads.mul_(scale)", "total = grads.sum()"]


def test_stack_frames_in_common_are_folded_and_the_others_marked():
    card = races.card(1, only(trace_of()))
    frames = [
        "called from In[7], line 5, in scale_gradscalled from In[7], line 11, in step",
        "called from In[7], line 8, in total",
    ]
    assert table_rows(card)["Call stack"] == frames
    (common, _) = (node for node in card.children if node.attributes.get("class") == "cudalens-race-stack")
    title = "3 stack frames in common: In[7]:12 in <module>"
    assert common.text() == f"{title}In[7]:12 in <module>train.py:88 in fittrain.py:140 in main"


def test_a_stack_that_both_share_has_no_mark():
    stacks = StackTable()
    row = read_after_write(stacks)
    row["second_stack"] = row["first_stack"]
    trace = Trace(race_trace().info, races=races_frame([row]), stacks=stacks.to_frame())
    card = races.card(1, only(trace))
    assert "Call stack" not in table_rows(card)
    assert "5 stack frames in common: In[7]:5 in scale_grads" in card.text()


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [("abc", "xbc", (1, 1, 2)), ("abc", "abc", (0, 0, 3)), ("", "abc", (0, 3, 0)), ("abc", "abd", (3, 3, 0)),
     ("bc", "abc", (0, 1, 2))],
)  # fmt: skip
def test_folding_is_from_the_outside(first, second, expected):
    stacks = [tuple(StackLine("", letter) for letter in letters) for letters in (first, second)]
    assert folded(*stacks) == expected


def test_memory_states_where_it_came_from_and_was_freed():
    stacks = StackTable()
    trace = Trace(race_trace().info, races=races_frame([use_after_free(stacks)]), stacks=stacks.to_frame())
    text = races.card(1, only(trace)).text()
    assert "both touch bytes 0 to 1,023 (1.00 KiB) of the block's 8.00 KiB" in text
    assert "Allocated at In[8]:7: other = torch.zeros(2048, device='cuda')" in text
    assert "The earlier tensor was freed at In[8]:6: del batch" in text


def test_the_diff_is_whole_and_coloured_and_states_that_it_was_checked():
    card = races.card(1, only(trace_of()))
    html = card.html()
    assert '<span class="cl-diff-add">+    torch.cuda.current_stream().wait_stream(side)\n</span>' in html
    assert '<span class="cl-diff-file">--- In[7]\n</span>' in html
    assert '<span class="cl-diff-hunk">@@ -4,3 +4,4 @@\n</span>' in html
    assert "checked on the recorded run: the race is gone and nothing else changed" in html.lower()
    assert DIFF in card.text()


def test_a_diff_keeps_its_tabs_and_is_cut_only_where_it_is_endless():
    diff = "+\tif x:\n+\t\ty = '" + "z" * 900 + "'\n"
    assert "\n".join(only(trace_of(fix_diff=diff)).fix_diff) + "\n" == diff
    lines = only(trace_of(fix_diff="+x\n" * MAX_DIFF)).fix_diff
    assert lines[-1].startswith("… [60,000 characters")
    assert sum(map(len, lines)) < MAX_DIFF + 100


@pytest.mark.parametrize(
    ("fix", "html"),
    [
        ("`a<b` before `c`.", "<code>a&lt;b</code> before <code>c</code>."),
        ("an odd ` here", "an odd ` here"),
        ("`a` and ` b", "<code>a</code> and ` b"),
        ("plain", "plain"),
    ],
)
def test_code_in_the_words_of_a_fix_is_code(fix, html):
    assert f"<strong>Fix: </strong>{html}</p>" in races.card(1, only(trace_of(fix=fix))).html()


def test_without_a_fix_the_card_reports_it():
    text = races.card(1, only(trace_of(fix=None, fix_diff=None))).text()
    assert "No fix was found" in text
    assert "hecked on the recorded run" not in text


def test_what_is_missing_is_left_out():
    """A race of a recorded program has no places, no stacks, no operators' arguments."""
    names = ("place", "source", "stack", "argument", "op", "shape", "dtype", "tensor", "stream")
    missing = {f"{side}_{name}": None for side in ("first", "second") for name in names}
    missing |= {f"alloc_{name}": None for name in ("place", "source", "stack")}
    race = only(trace_of(between=None, block_bytes=None, overlap_bytes=None, **missing))
    rows = table_rows(races.card(1, race))
    assert set(rows) == {"Operation", "Stream", "Bytes"}
    assert rows["Operation"] == ["an operation writes", "an operation reads"]
    assert "not recorded" in races.card(1, race).text()


def test_endless_stacks_and_texts_are_cut():
    stacks = StackTable()
    deep = stacks.add([f"f.py({k}): g" for k in range(500)])
    row = read_after_write(stacks, first_stack=deep, first_source="x" * 10_000, first_op="o" * 10_000)
    trace = Trace(race_trace().info, races=races_frame([row]), stacks=stacks.to_frame())
    race = only(trace)
    assert len(race.first.site.stack) == MAX_STACK
    assert len(race.first.site.source) == len(race.first.op) == 300


@pytest.mark.parametrize("between", ["[", "{}", '"text"', "[1, null]", '[{"act": 3, "stream": {}}]', "[" * 100_000])
def test_a_broken_story_is_no_reason_to_fail(between):
    race = only(trace_of(between=between))
    assert races.card(1, race).html()


def unpacked(trace):
    return json.loads(gzip.decompress(races.pack(trace)))


def test_the_page_gets_every_race_with_its_card():
    trace = race_trace()
    model = unpacked(trace)
    assert model["more"] == 0
    assert [entry["row"] for entry in model["races"]] == [1, 0]
    assert model["races"][1]["places"] == ["In[7]:5", "In[7]:8"]
    assert model["races"][1]["times"] == "512 times"
    assert model["races"][1]["card"] == races.card(2, race_views(trace)[1]).json()
    assert races.pack(trace) == races.pack(trace)


def test_thousands_of_races_stay_bounded():
    trace = many_races(1500)
    model = unpacked(trace)
    assert len(model["races"]) + model["more"] == 1500
    assert 100 < len(model["races"]) <= races.MAX_CARDS
    assert len(races.pack(trace)) < 500_000
    html = notebook.static_html(trace, "id")
    assert len(html.encode()) <= notebook.MAX_HTML_BYTES
    assert "more in trace.races" in html


def test_the_picture_of_a_notebook_leads_with_the_verdict_and_the_worst_race():
    html = notebook.static_html(race_trace())
    verdict = html.index("<strong>2 races, seen 514 times</strong>")
    assert verdict < html.index("Race 1</strong>: use after free") < html.index("Race 2</strong>: read after write")
    assert html.count('<details class="cl-race-fold"') == 2
    assert html.count('<details class="cl-race-fold" open=""') == 1
    found = Markup(html)
    assert found.elements <= ALLOWED | CARD_ELEMENTS
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in html


def test_a_trace_without_races_has_no_trace_of_them():
    assert "cudalens-races" not in notebook.static_html(gpu_trace())


@pytest.mark.parametrize("events", [False, True])
def test_hostile_texts_stay_text(events, tmp_path):
    trace = hostile_races(events=events)
    found = Markup(notebook.static_html(trace, "id"))
    assert found.elements <= ALLOWED | CARD_ELEMENTS
    assert not any(name.startswith("on") or name in ("src", "href") for name in found.attributes)
    ours = notebook._STYLE.removeprefix("<style>").removesuffix("</style>") + assets.style("races")
    ours += assets.style("findings") + assets.style("steps") + assets.style("costs") if events else ""
    ours += UNTRUSTED.partition("<style>")[2].partition("</style>")[0]
    assert "".join(found.styles) == ours
    page = to_html(trace, tmp_path / "r.html").read_text()
    assert "<img" not in page
    assert HOSTILE not in page


def test_facts_show_which_parts_have_data():
    assert {name: facts(race_trace())[name] for name in ("hasRaces", "hasProfile")} == {
        "hasRaces": True,
        "hasProfile": False,
    }
    assert facts(race_trace(events=True))["hasProfile"] is True
    assert (facts(clean_trace())["hasRaces"], facts(clean_trace())["hasProfile"]) == (False, False)
    assert (facts(gpu_trace())["hasRaces"], facts(gpu_trace())["hasProfile"]) == (False, True)


def test_a_report_of_races_alone_is_called_so(tmp_path):
    assert "<title>Races of cell-7</title>" in to_html(race_trace(), tmp_path / "a.html").read_text()
    both = to_html(race_trace(events=True), tmp_path / "b.html").read_text()
    assert "<title>Profile of cell-3</title>" in both
    assert 'id="cudalens-races"' in both
    assert 'id="cudalens-races"' not in to_html(gpu_trace(), tmp_path / "c.html").read_text()

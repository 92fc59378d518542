"""The text of cells in the run info: whole cells within limits, and nothing of a file that is not valid."""

import json

import pytest

from cudalens.frames import RunInfo
from cudalens.frames.info import CELL_SOURCES_KEY, MAX_CELL, MAX_CELLS, cell_sources, sources_to_extra


def read(extra):
    return cell_sources(RunInfo(name="run", source="cpu", extra=extra))


def test_texts_are_read_as_they_were_kept():
    sources = {"In[1]": "x = 1\n", "In[20]": "print('ä')"}
    assert read(sources_to_extra(sources)) == sources
    assert read(sources_to_extra({"In[1]": "half of a pair: \ud800"})) == {"In[1]": "half of a pair: ?"}


def test_no_cells_make_no_entry():
    assert sources_to_extra({}) == {}
    assert read({}) == {}


def test_cells_that_do_not_fit_are_left_out_whole():
    fits = "x" * (MAX_CELL - len("In[2]"))
    sources = {"In[1]": f"{fits}x"} | {f"In[{number}]": fits for number in range(2, 9)}
    assert read(sources_to_extra(sources)) == {f"In[{number}]": fits for number in range(2, 2 + MAX_CELLS // MAX_CELL)}
    assert read(sources_to_extra({"In[1]": "x" * MAX_CELL, "In[2]": "y"})) == {"In[2]": "y"}


@pytest.mark.parametrize("text", ["", "[", "[]", '{"In[1]": 3}', "[" * 100_000, "\ud800"])
def test_a_file_with_other_contents_has_no_cells(text):
    assert read({CELL_SOURCES_KEY: text}) == {}


def test_a_file_with_too_much_text_has_the_cells_that_fit():
    assert list(read({CELL_SOURCES_KEY: f'{{"In[1]": "{"x" * (MAX_CELL + 1)}", "In[2]": "y"}}'})) == ["In[2]"]


def test_a_file_with_many_names_has_those_that_fit():
    names = {f"In[{number}]" * 100: "" for number in range(1_000)}
    kept = read({CELL_SOURCES_KEY: json.dumps(names)})
    assert 0 < sum(map(len, kept)) <= MAX_CELLS

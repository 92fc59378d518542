"""The text of cells in the run info: whole cells within limits, and nothing of a file that is not valid."""

import pytest

from cudalens.frames import RunInfo
from cudalens.frames.cell_sources import CELL_SOURCES_KEY, MAX_CELL, MAX_CELLS, cell_sources, to_extra


def read(extra):
    return cell_sources(RunInfo(name="run", source="cpu", extra=extra))


def test_texts_are_read_as_they_were_kept():
    sources = {"In[1]": "x = 1\n", "In[20]": "print('ä')"}
    assert read(to_extra(sources)) == sources
    assert read(to_extra({"In[1]": "half of a pair: \ud800"})) == {"In[1]": "half of a pair: ?"}


def test_no_cells_make_no_entry():
    assert to_extra({}) == {}
    assert read({}) == {}


def test_cells_that_do_not_fit_are_left_out_whole():
    fits = "x" * MAX_CELL
    sources = {"In[1]": f"{fits}x"} | {f"In[{number}]": fits for number in range(2, 9)} | {"In[9]": ""}
    kept = read(to_extra(sources))
    assert list(kept) == [*(f"In[{number}]" for number in range(2, 2 + MAX_CELLS // MAX_CELL)), "In[9]"]
    assert {len(text) for text in kept.values()} == {MAX_CELL, 0}


@pytest.mark.parametrize("text", ["", "[", "[]", '{"In[1]": 3}', "[" * 100_000, "\ud800"])
def test_a_file_with_other_contents_has_no_cells(text):
    assert read({CELL_SOURCES_KEY: text}) == {}


def test_a_file_with_too_much_text_has_the_cells_that_fit():
    assert list(read({CELL_SOURCES_KEY: f'{{"In[1]": "{"x" * (MAX_CELL + 1)}", "In[2]": "y"}}'})) == ["In[2]"]

"""Names of streams in reports: those of the program's variables, also where the function has returned."""

import linecache
import warnings

import pytest

import cudalens
import cudalens.virtual
from cudalens.sanitizer import RaceWarning

LOCAL_VARIABLE = """
import torch

def main():
    side = torch.cuda.Stream()
    x = torch.ones(64, device="cuda")
    with torch.cuda.stream(side):
        x.add_(1)

main()
"""

ATTRIBUTE_OF_AN_OBJECT = """
import torch

class Loader:
    def __init__(self):
        self.copies = torch.cuda.Stream()
        self.x = torch.ones(64, device="cuda")

    def fill(self):
        self.x.fill_(1)

    def step(self):
        with torch.cuda.stream(self.copies):
            self.fill()

Loader().step()
"""

ITEM_OF_A_LIST = """
import torch

def main():
    streams = [torch.cuda.Stream() for _ in range(2)]
    x = torch.ones(64, device="cuda")
    with torch.cuda.stream(streams[1]):
        x.add_(1)

main()
"""

SET_WITHOUT_A_BLOCK = """
import torch

def main(side, other):
    x = torch.ones(64, device="cuda")
    with torch.cuda.stream(side):
        torch.cuda.set_stream(other)
        x.add_(1)

main(torch.cuda.Stream(), torch.cuda.Stream())
"""


TWO_STREAMS_OF_ONE_NAME = """
import torch

def add(s, state):
    with torch.cuda.stream(s):
        state.add_(1)

def main(*streams):
    state = torch.zeros(64, device="cuda")
    torch.cuda.synchronize()
    for stream in streams:
        add(stream, state)

main(torch.cuda.Stream(), torch.cuda.Stream())
"""


def run(text, path, **options):
    """Races of a program in a file, which has ended."""
    path.write_text(text)
    linecache.checkcache(str(path))
    with cudalens.virtual.device("h100"), cudalens.sanitize(**options) as san:
        exec(compile(text, str(path), "exec"), {"__name__": "program"})
    return san


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (LOCAL_VARIABLE, "stream side"),
        (ATTRIBUTE_OF_AN_OBJECT, "stream self.copies"),
        (ITEM_OF_A_LIST, "stream streams[1]"),
    ],
    ids=["local variable", "attribute", "item"],
)
def test_a_stream_of_a_function_that_has_returned_has_its_name(text, name, tmp_path):
    san = run(text, tmp_path / "program.py")
    (row,) = san.frames()["races"].to_dict("records")
    assert (row["first_stream_name"], row["second_stream_name"]) == ("the default stream", name)


def test_two_streams_of_one_name_are_numbered(tmp_path):
    san = run(TWO_STREAMS_OF_ONE_NAME, tmp_path / "program.py")
    (row,) = san.frames()["races"].to_dict("records")
    assert (row["first_stream_name"], row["second_stream_name"]) == ("stream s", "stream s (2)")
    assert "let stream s (2) wait for stream s (wait_stream)" in row["fix"]


def test_no_name_is_taken_from_a_block_in_which_the_stream_is_set(tmp_path):
    san = run(SET_WITHOUT_A_BLOCK, tmp_path / "program.py")
    (row,) = san.frames()["races"].to_dict("records")
    assert row["second_stream_name"].startswith("stream 0x")


def test_warnings_and_errors_have_the_names(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(LOCAL_VARIABLE, tmp_path / "program.py", on_race="warn")
    (text,) = [str(each.message) for each in caught if each.category is RaceWarning]
    assert "on stream side at" in text
    with pytest.raises(cudalens.RaceError, match="on stream side at"):
        run(LOCAL_VARIABLE, tmp_path / "program.py", on_race="raise")


def test_variables_of_functions_that_still_run_have_names(tmp_path):
    import torch

    with cudalens.virtual.device("h100"):
        pool = {"copies": torch.cuda.Stream()}
        with cudalens.sanitize() as san:
            x = torch.ones(64, device="cuda")
            with torch.cuda.stream(next(iter(pool.values()))):
                x.add_(1)
        (row,) = san.frames()["races"].to_dict("records")
    assert row["second_stream_name"] == "stream pool['copies']"

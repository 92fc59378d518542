"""Damaged files of every format are read or refused; `tools/fuzz_reading.py` does the same with thousands."""

from itertools import islice

import pytest
from budget import examples
from trace_mutations import mutations, outcome, seeds

FORMATS = (
    "chrome",
    "chrome.gz",
    "cudalens",
    "nsys",
    "nvprof",
    "rocpd",
    "rpd",
    "rocprofv3 json",
    "xplane",
    "perfetto",
    "snapshot",
    "memory timeline",
    "tar",
    "zip",
)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    return seeds(tmp_path_factory.mktemp("seeds"))


def test_the_formats(intact):
    assert tuple(intact) == FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused(intact, name, tmp_path):
    assert outcome(intact[name], tmp_path / "intact").kind == "read"
    for damaged in islice(mutations(intact[name], name), examples(10)):
        found = outcome(damaged, tmp_path / "damaged")
        assert found.kind in ("read", "refused"), (name, found)

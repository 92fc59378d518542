"""The texts that users read are found by ``tools/all_texts.py``, and are in the words of users."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from all_texts import all_texts, texts_of_docs, texts_of_python, texts_of_script

#: Sentences that readers outside of the project did not understand.
UNCLEAR = (
    "not modelled:",
    "the same idle time. Expected gain",
    "and the call itself took the time",
    "before a clock is read",
    "is outside of its",
    "replayed, if the rank",
    "still alive, of all",
    "from before the recording",
    "under the manager",
)


def test_texts_that_are_shown_are_told_from_keys_and_documentation():
    python = """
def section(rows):
    \"\"\"Documentation is not shown.\"\"\"
    return Note(f"{rows} rows are left", key="left")
"""
    assert texts_of_python(python) == [(4, "{} rows are left")]
    script = 'say("3 blocks", `${left} are left`, "cl-table"); // "a comment is not shown"'
    assert texts_of_script(script) == [(1, "3 blocks"), (1, "{} are left")]
    assert texts_of_docs("# Title\n```python\nx = 1\n```\nA line.") == [(1, "# Title"), (5, "A line.")]


@pytest.mark.parametrize("kind", ["python", "script"])
def test_no_text_is_one_of_those_that_were_not_understood(kind):
    found = list(all_texts([kind]))
    assert len(found) > 100
    assert not [(name, line) for name, line, text in found if any(unclear in text for unclear in UNCLEAR)]

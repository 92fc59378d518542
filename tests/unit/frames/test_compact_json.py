"""JSON values without spaces: many at once are the same as each alone."""

import pytest

from cudalens.frames.lenient_json import compact_json, compact_json_of

VALUES = [
    (b"[1, 2,  3]", "[1,2,3]"),
    (b' [ [ ] , "a b" ]', '[[],"a b"]'),
    ('"é\\u00e9"'.encode(), '"é\\u00e9"'),
    (b"-1.50e+3", "-1.50e+3"),
    (b'"[1, 2]"', "[1,2]"),
    (b'"\\u005b1, 2]"', "[1,2]"),
    (b"null", None),
    (b'""', None),
]
BROKEN = [b"", b"[1,", b"1,2", b"nan", b'"\xff"', b"[01]"]


def test_the_values_of_a_list():
    raws, texts = zip(*VALUES, strict=True)
    assert compact_json_of(raws) == list(texts)
    assert compact_json_of([]) == []


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_value_is_missing_and_changes_no_other(broken):
    raws, texts = zip(*VALUES, strict=True)
    assert compact_json(broken) is None
    assert compact_json_of([*raws, broken]) == [*texts, None]

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
INTEGERS = [b"[1, 2,  3]", b"[ [ ] , [-1,\n2]]", b"7", b"-0", b"[\t12345678901234567 ]"]
BROKEN = [b"", b"[1,", b"1,2", b"nan", b'"\xff"', b"[01]"]


def test_the_values_of_a_list():
    raws, texts = zip(*VALUES, strict=True)
    assert compact_json_of(raws) == list(texts)
    assert compact_json_of([]) == []


@pytest.mark.parametrize("more", [[], [b"[1234567890123456789012]"], [b"1.5"], [b"null"], [b"[1e999]"]])
def test_lists_of_integers_are_as_each_alone(more):
    assert compact_json_of([*INTEGERS, *more]) == [compact_json(raw) for raw in (*INTEGERS, *more)]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_value_is_missing_and_changes_no_other(broken):
    raws, texts = zip(*VALUES, strict=True)
    assert compact_json(broken) is None
    assert compact_json_of([*raws, broken]) == [*texts, None]

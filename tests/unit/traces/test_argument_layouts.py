"""Arguments decoded by the keys that occur have the values that a search for every field finds."""

import json
import random

import msgspec
import pytest

from cudalens.frames.lenient_json import texts_of
from cudalens.frames.limits import Problems
from cudalens.traces.chrome.values import SPECS, Kind, Layouts, decode_args

KEYS = ["External id", "external id", "correlation", "stream", "Input Dims", "Call stack", "grid", "blocks per SM", "x",
        "Seq", "a\\b", "queued", "str\u00e9am"]  # fmt: skip
VALUES = [7, 0, -1, None, [1, 2], "text", 1.5, 1 << 70, {"a": []}]
USUAL = {"External id": 4, "correlation": 7, "stream": 3, "Input Dims": [1], "Call stack": "a;b", "grid": [1, 1, 1]}


def entries(rng, *, is_odd):
    for _ in range(rng.randrange(1, 8)):
        args = {key: USUAL.get(key, 2) for key in rng.sample(KEYS, rng.randrange(5))}
        if is_odd:
            args[rng.choice(KEYS)] = rng.choice(VALUES)
        text = json.dumps(args)
        yield msgspec.Raw(text.replace("stream", "str\\u0065am").encode() if rng.random() < 0.1 else text.encode())


def values(decoded, names, spec):
    """Each entry as a dict, with the default for what is not in `names`."""
    fields = msgspec.structs.fields(spec)
    found = [{f.name: getattr(one, f.name) if f.name in names else f.default for f in fields} for one in decoded]
    return [{k: bytes(v) if isinstance(v, msgspec.Raw) else v for k, v in one.items()} for one in found]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", [Kind.OP, Kind.DEVICE, Kind.CALL, Kind.OTHER])
def test_the_values_are_those_of_the_whole_struct(seed, kind):
    rng, spec, problems, expected_problems = random.Random(seed), SPECS[kind], Problems(), Problems()
    layouts = Layouts(problems)
    for group in range(12):
        raw = list(entries(rng, is_odd=seed % 2 and group % 3 == 2))
        found, names = layouts.decode(raw, spec, "here")
        expected, _ = decode_args(raw, spec, expected_problems, "here")
        everything = {field.name for field in msgspec.structs.fields(spec)}
        assert repr(values(found, names, spec)) == repr(values(expected, everything, spec))  # NaN equals no NaN
    assert problems.to_tuple() == expected_problems.to_tuple()


def test_groups_that_always_bring_new_keys_are_still_read():
    layouts, spec = Layouts(Problems()), SPECS[Kind.OP]
    for number in range(200):
        raw = [msgspec.Raw(json.dumps({f"k{number}": 1, "External id": number}).encode())]
        found, names = layouts.decode(raw, spec, "here")
        assert "external_id" in names
        assert found[0].external_id == number


def test_texts_that_utf8_can_hold_stay():
    assert texts_of(["a", "é"]) == ["a", "é"]
    assert texts_of(["a\ud800", "é"]) == ["a?", "é"]

"""The optional package zlib-ng decompresses as Python's zlib does, damaged data too."""

import gzip
import io
import random
import zlib

import pytest

from cudalens.frames.limits import Limit
from cudalens.traces import source
from cudalens.traces.source import Source, read_all

zlib_ng = pytest.importorskip("zlib_ng.zlib_ng", reason="zlib-ng is not installed")


def read(module, data, monkeypatch):
    monkeypatch.setattr(source, "zlib", module)
    found = Source(io.BytesIO(data), Limit("t.json.gz", None))
    return read_all(found), found.damage


@pytest.mark.parametrize("seed", range(60))
def test_both_read_the_same(seed, monkeypatch):
    rng = random.Random(seed)
    text = "".join(
        f'{{"ts": {rng.randrange(9000)}, "name": "{rng.choice("abc") * 9}"}},\n' for _ in range(4000)
    ).encode()
    data = bytearray(gzip.compress(text, rng.choice((1, 6, 9))) + gzip.compress(text[:999]))
    for _ in range(rng.randrange(3)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    data = bytes(data[: len(data) - rng.choice((0, 0, 1, 5, rng.randrange(len(data))))])
    (plain, damage), (fast, fast_damage) = (read(module, data, monkeypatch) for module in (zlib, zlib_ng))
    assert plain == fast
    assert (damage is None) == (fast_damage is None)

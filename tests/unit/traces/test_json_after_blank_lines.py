"""A Chrome trace that begins with a line break, which is also the first byte of protobuf messages."""

import json

import pytest

import cudalens

EVENTS = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": k, "dur": 1} for k in range(3)]


@pytest.mark.parametrize("before", ["\n  ", "\n", "\n\n\t ", "\r\n"])
@pytest.mark.parametrize("between", ["", "\n    "])
def test_blank_lines_before_json(tmp_path, before, between):
    text = json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": EVENTS})
    file = tmp_path / "trace.json"
    file.write_text(before + "{" + between + text[1:])
    assert len(cudalens.load(file)) == 3

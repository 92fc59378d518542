"""`cudalens mcp`, asked over stdio by the SDK's own client; and the folder that it does not leave."""

import asyncio
import json
import os
import sys

import pytest

pytest.importorskip("mcp_types", reason="the package mcp, version 2, is not installed")

import cudalens
from cudalens.__main__ import main
from cudalens.api.mcp_server import MAX_CHARACTERS, Folder, OpenTraces
from cudalens.errors import TraceError
from cudalens.frames import RunInfo, Trace, build_events

SOURCE = "import torch\n\n\ndef step():\n    x = torch.ones(3)\n    return x.item()\n"

#: What the client asks: a name for the answer, the tool, and its arguments.
ASKED = {
    "list": ("list_traces", {}),
    "open": ("open_trace", {"file": "a.cudalens"}),
    "brief": ("brief", {"file": "a.cudalens", "tokens": 600}),
    "findings": ("findings", {"file": "a.cudalens"}),
    "rows": (
        "query",
        {"file": "a.cudalens", "where": 'cat == "kernel"', "columns": "name,dur", "sort": "-dur", "limit": 2},
    ),
    "long": ("query", {"file": "a.cudalens", "limit": 200}),
    "path": ("critical_path", {"file": "a.cudalens", "by": "kind"}),
    "compare": ("compare", {"before": "a.cudalens", "after": "sub/b.cudalens"}),
    "source": ("source", {"file": "a.cudalens", "finding": 0}),
    "outside": ("brief", {"file": "../secret.cudalens"}),
    "dot file": ("brief", {"file": ".hidden.cudalens"}),
    "dot folder": ("brief", {"file": "sub/../.cache/c.cudalens"}),
    "absolute": ("brief", {"file": "/etc/passwd"}),
    "link": ("brief", {"file": "link.cudalens"}),
    "through a link": ("brief", {"file": "folder-link/secret.cudalens"}),
    "missing": ("brief", {"file": "nothing.cudalens"}),
    "damaged": ("brief", {"file": "damaged.json"}),
    "code": ("query", {"file": "a.cudalens", "where": "__import__('os').system('true')"}),
    "many": ("query", {"file": "a.cudalens", "limit": 100000}),
    "few": ("brief", {"file": "a.cudalens", "tokens": 3}),
    "no finding": ("source", {"file": "a.cudalens", "finding": 99}),
    "bad key": ("critical_path", {"file": "a.cudalens", "by": "colour"}),
}


def made(name, host_ns, stack=None):
    """30 launches, each after `host_ns` on the host, of work of 10 µs."""
    import numpy as np
    import pandas as pd

    ts, dur, names, cats, device, ids = [], [], [], [], [], []
    for k in range(30):
        at = k * (host_ns + 20_000)
        for start, length, text, cat, on in (
            (at, host_ns, "aten::prepare", "cpu_op", None),
            (at + host_ns, 5_000, "cudaLaunchKernel", "cuda_runtime", None),
            (at + host_ns + 6_000, 10_000, f"gemm {'x' * 3000}" if k == 3 else "gemm", "kernel", 0),
        ):
            ts, dur, names = [*ts, start], [*dur, length], [*names, text]
            cats, device, ids = [*cats, cat], [*device, on], [*ids, None if cat == "cpu_op" else k + 1]
    columns = {
        "ts": np.array(ts, np.int64),
        "dur": np.array(dur, np.int64),
        "name": pd.Categorical(names),
        "cat": pd.Categorical(cats),
        "device": pd.array(device, dtype="Int32"),
        "stream": pd.array([7 if on == 0 else None for on in device], dtype="Int64"),
        "pid": pd.array([None if on == 0 else 1 for on in device], dtype="Int64"),
        "tid": pd.array([None if on == 0 else 1 for on in device], dtype="Int64"),
        "correlation_id": pd.array(ids, dtype="Int64"),
    }
    return Trace(RunInfo(name=name, source="cuda"), events=build_events(columns))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    root = outside / "traces"
    (root / "sub").mkdir(parents=True)
    made("a", 1_000_000).save(root / "a.cudalens")
    made("b", 500_000).save(root / "sub" / "b.cudalens")
    made("secret", 1_000).save(outside / "secret.cudalens")
    (root / "damaged.json").write_text('{"traceEvents": [{"ph"')
    (root / "link.cudalens").symlink_to(outside / "secret.cudalens")
    (root / "folder-link").symlink_to(outside)
    made("secret", 1_000).save(root / ".hidden.cudalens")
    (root / ".cache").mkdir()
    made("secret", 1_000).save(root / ".cache" / "c.cudalens")
    return root


@pytest.fixture(scope="module")
def answers(folder):
    """The answers to `ASKED`, of one server process; and the names of its tools."""
    from mcp import Client, StdioServerParameters

    async def ask():
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "cudalens", "mcp", str(folder)], env=environment
        )
        async with Client(command) as client:
            tools = (await client.list_tools()).tools
            found = {name: await client.call_tool(tool, arguments) for name, (tool, arguments) in ASKED.items()}
        return tools, {name: (one.content[0].text, bool(one.is_error)) for name, one in found.items()}

    return asyncio.run(ask())


@pytest.fixture
def answer(answers):
    def of(name):
        text, is_error = answers[1][name]
        assert not is_error, text
        assert len(text) <= MAX_CHARACTERS + 5000
        return text

    return of


class TestOverStdio:
    def test_tools_are_described_and_read_only(self, answers):
        assert {tool.name for tool in answers[0]} == {tool for tool, _ in ASKED.values()}
        assert all(tool.description and tool.annotations.read_only_hint for tool in answers[0])

    def test_list(self, answer):
        files = [one["file"] for one in json.loads(answer("list"))["files"]]
        assert files == ["a.cudalens", "damaged.json", "sub/b.cudalens"]

    def test_open(self, answer, folder):
        found = json.loads(answer("open"))
        assert found["frames"]["events"]["rows"] == 90
        assert "dur" in found["frames"]["events"]["columns"]
        assert found["verdict"] == cudalens.load(folder / "a.cudalens").brief(600)["verdict"]

    def test_brief(self, answer, folder):
        assert answer("brief") == cudalens.load(folder / "a.cudalens").brief(600).text

    def test_findings(self, answer, folder):
        expected = cudalens.analysis.findings(cudalens.load(folder / "a.cudalens"))
        found = json.loads(answer("findings"))["findings"]
        assert [(one["title"], one["gain_ns"]) for one in found] == [(one.title, one.gain_ns) for one in expected]
        assert found

    def test_rows(self, answer):
        found = json.loads(answer("rows"))
        assert (found["shown"], found["total"]) == (2, 30)
        assert [row["dur"] for row in found["rows"]] == [10_000, 10_000]

    def test_long_answers_are_cut(self, answer):
        found = json.loads(answer("long"))
        assert found["total"] == 90
        assert max(len(row["name"]) for row in found["rows"]) == 200

    def test_critical_path(self, answer, folder):
        path = cudalens.analysis.critical_path(cudalens.load(folder / "a.cudalens"))
        found = json.loads(answer("path"))
        assert found["length_ns"] == path.length_ns
        assert sum(row["dur_ns"] for row in found["rows"]) == path.length_ns

    def test_compare(self, answer):
        assert "less time" in answer("compare")
        assert "aten::prepare" in answer("compare")

    def test_source_is_not_known(self, answer):
        assert "record stacks" in json.loads(answer("source"))["source"]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("outside", "there is no file"),
            ("absolute", "there is no file"),
            ("link", "there is no file"),
            ("through a link", "there is no file"),
            ("missing", "there is no file"),
            ("damaged", "damaged.json"),
            ("code", "no such function"),
            ("many", "limit is 100000; expected 1 to 200"),
            ("few", "expected at least 300"),
            ("no finding", "there is no finding 99"),
            ("bad key", "colour"),
        ],
    )
    def test_errors_say_why(self, answers, name, message):
        text, is_error = answers[1][name]
        assert is_error
        assert message in text
        assert "secret" not in text.replace("../secret", "").replace("folder-link/secret", "")


class TestFolder:
    def test_what_is_not_a_file(self, folder):
        with pytest.raises(TraceError, match="is not a file"):
            Folder(folder).file("sub")
        with pytest.raises(TraceError, match="there is no file"):
            Folder(folder).file("a\x00b")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
    def test_a_pipe(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(TraceError, match="is not a file"):
            Folder(tmp_path).file("pipe")
        assert Folder(tmp_path).names(5) == ([], False)

    def test_a_list_is_bounded(self, folder):
        found, has_more = Folder(folder).names(2)
        assert (len(found), has_more) == (2, True)

    def test_a_changed_file_is_read_again(self, tmp_path):
        traces, read = None, []
        path = made("first", 1000).save(tmp_path / "t.cudalens")
        traces = OpenTraces(Folder(tmp_path), lambda path: read.append(path) or cudalens.load(path))
        assert traces.get("t.cudalens").info.name == traces.get("t.cudalens").info.name == "first"
        assert len(read) == 1
        path.unlink()
        made("second", 2000).save(path)
        assert traces.get("t.cudalens").info.name == "second"

    def test_not_a_folder(self, folder, capsys):
        assert main(["mcp", str(folder / "a.cudalens")]) == 3
        assert "is not a folder" in capsys.readouterr().err


class TestSource:
    @pytest.fixture
    def lines(self, tmp_path):
        from dataclasses import replace

        from cudalens.analysis import Finding
        from cudalens.api.mcp_server import lines_around

        (tmp_path / "train.py").write_text(SOURCE)
        (tmp_path / "notes.txt").write_text(SOURCE)
        (tmp_path.parent / "outside.py").write_text(SOURCE)
        trace = Trace(RunInfo(name="t", source="cuda", code="a = 1\nb = 2\nc = a + b\n"))
        finding = Finding("r", "t", "w", 1, 1.0, (), None, "a", "high")
        return lambda place: lines_around(trace, Folder(tmp_path), replace(finding, place=place))

    def test_a_cell(self, lines):
        assert lines("In[7]:2") == {"lines": ["1: a = 1", "2: b = 2", "3: c = a + b"], "source": "the profiled cell"}

    def test_a_file_of_the_folder(self, lines):
        assert lines("train.py:6")["lines"][-1] == "6:     return x.item()"

    @pytest.mark.parametrize(
        "place", ["../outside.py:1", "/etc/passwd:1", "notes.txt:2", "nothing.py:3", "train.py", None]
    )
    def test_other_places(self, lines, place):
        assert lines(place)["lines"] == []

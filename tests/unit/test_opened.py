"""`cudalens.load`: it checks what it opens, and corrects what it can."""

import json

import pytest

import cudalens
from cudalens import traces
from cudalens.__main__ import main

US = 1_000_000  # the file's clock begins here, µs


def event(name, cat, ts, dur, tid=1, **args):
    return {"ph": "X", "name": name, "cat": cat, "pid": 1, "tid": tid, "ts": US + ts, "dur": dur, "args": args}


def kernel(ts, dur, correlation):
    on_device = {"pid": 0, "tid": 7}
    return event("gemm", "kernel", ts, dur, device=0, stream=7, correlation=correlation) | on_device


def events(offset):
    return [
        event("aten::mm", "cpu_op", 0.5, 30.25, **{"External id": 5}),
        event("cudaLaunchKernel", "cuda_runtime", 10.5, 5.25, correlation=41),
        event("cudaLaunchKernel", "cuda_runtime", 20.5, 5.25, correlation=42),
        kernel(10.5 + offset, 20.125, 41),
        kernel(40.5 + offset, 20.125, 42),
        event("cudaDeviceSynchronize", "cuda_runtime", 50, 80, correlation=43),
    ]


@pytest.fixture
def file(tmp_path):
    def write(found):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": found}))
        return path

    return write


def test_a_shifted_device_clock_is_corrected(file):
    healthy = traces.load(file(events(0)))
    path = file(events(-3.75))
    trace = cudalens.load(path)
    assert trace.info.trust.verdict == "repaired"
    for name in ("events", "syncs"):
        assert trace.frames[name].equals(healthy.frames[name])
    unchanged = cudalens.load(path, repair=False)
    assert unchanged.info.trust.verdict == "partial"
    assert unchanged.events.equals(traces.load(path).events)


def test_a_healthy_file_is_clean(file):
    assert cudalens.load(file(events(0))).info.trust.verdict == "clean"


def test_a_saved_trace_keeps_its_verdict(file, tmp_path):
    trace = cudalens.load(file(events(-3.75)))
    again = cudalens.load(trace.save(tmp_path / "a.cudalens"))
    assert again.info.trust == trace.info.trust


def test_the_shell_command_reports_by_its_exit_code(file, capsys):
    assert main(["check", str(file(events(0)))]) == 0
    assert capsys.readouterr().out == "clean: no check found anything wrong\n"
    path = str(file(events(-3.75)))
    assert main(["check", path]) == 0
    assert capsys.readouterr().out.startswith("repaired: 1 device row starts before the call that launched it began")
    assert main(["check", "--no-repair", path]) == 1
    assert capsys.readouterr().out.startswith("partial: ")
    lost = str(file([e for e in events(0) if e["args"].get("correlation") != 42 or e["cat"] != "kernel"]))
    assert main(["check", "--json", lost]) == 1
    result = json.loads(capsys.readouterr().out)
    assert (result["verdict"], result["findings"][0]["rule"]) == ("partial", "lost work")


def test_a_file_that_is_none_is_refused(tmp_path, capsys):
    (tmp_path / "x.json").write_text("[1, 2")
    assert main(["check", str(tmp_path / "x.json")]) == 3
    assert "x.json" in capsys.readouterr().err

"""Several files a call, standard input and output, JSON, and conditions of ``cudalens compare``."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

import cudalens
from cudalens.__main__ import main
from cudalens.commands.compare_traces import parse_condition
from cudalens.errors import AssertionSyntaxError


def chrome(path, dur, steps=1):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": i * 1000.0, "dur": dur + i % 3}
        for i in range(steps)
    ]
    events += [
        {**event, "cat": "user_annotation", "name": f"ProfilerStep#{i}"} for i, event in enumerate(events) if steps > 1
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return str(path)


@pytest.fixture
def files(tmp_path):
    return [chrome(tmp_path / f"{name}.json", dur) for name, dur in (("fast", 100), ("slow", 130))]


def stdin(monkeypatch, path):
    with open(path, "rb") as file:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(file.read())))


def test_summaries_of_several_files(files, capsys):
    assert main(["summary", *files]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("== ")] == [f"== {file}" for file in files]


def test_a_summary_as_json(files, capsys):
    assert main(["summary", "--json", files[0]]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["file"], found["num_events"], found["info"]["source"]) == (files[0], 1, "file:kineto")
    assert found["verdict"] == cudalens.load(files[0]).summary().verdict
    assert [row["name"] for row in found["costs"]] == ["aten::mm"]
    assert main(["summary", "--json", *files]) == 0
    assert [one["file"] for one in json.loads(capsys.readouterr().out)] == files


def test_an_assertion_that_fails_on_one_of_two_files(files, capsys):
    assert main(["summary", *files, "--assert", "wall < 110 us"]) == 1
    captured = capsys.readouterr()
    assert "1 of 1 assertion does not hold on 'slow'" in captured.err
    assert captured.out.count("== ") == 2


def test_checks_of_several_files(files, capsys):
    assert main(["check", "--json", *files]) == 0
    assert list(json.loads(capsys.readouterr().out)) == files


def test_standard_input(files, capsys, monkeypatch):
    stdin(monkeypatch, files[0])
    assert main(["summary", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_events"] == 1


def test_standard_output(files, capfdbinary):
    assert main(["convert", files[0], "-o", "-", "--format", "chrome"]) == 0
    assert b'"aten::mm"' in capfdbinary.readouterr().out
    assert main(["report", files[0], "-o", "-"]) == 0
    out = capfdbinary.readouterr().out
    assert out.startswith(b"<!DOCTYPE html>")
    assert out.rstrip().endswith(b"</html>")


@pytest.mark.parametrize(("output", "options"), [("-", []), ("-", ["--format", "csv"])])
def test_what_cannot_be_written_to_standard_output(files, capsys, output, options):
    assert main(["convert", files[0], "-o", output, *options]) == 3
    assert "standard output" in capsys.readouterr().err or "add --format" not in options


def test_reports_of_several_files_go_into_a_folder(files, tmp_path, capsys):
    folder = tmp_path / "pages"
    assert main(["report", *files, "-o", str(folder)]) == 3
    assert "no folder" in capsys.readouterr().err
    folder.mkdir()
    assert main(["report", *files, "-o", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["fast.html", "slow.html"]
    assert main(["convert", *files, "-o", str(folder), "--format", "cudalens"]) == 0
    assert len(cudalens.load(folder / "slow.cudalens")) == 1


def test_a_missing_file_and_a_failed_condition_have_different_exit_codes(files, tmp_path, capsys):
    assert main(["compare", files[0], str(tmp_path / "missing")]) == 3
    assert main(["compare", *files, "--fail-if", "slower > 5%"]) == 1
    assert capsys.readouterr().err.endswith("slower > 5%: it is 30%\n")
    assert main(["compare", *files, "--fail-if", "slower > 40%"]) == 0
    assert main(["compare", *files[::-1], "--fail-if", "slower > 5%"]) == 0
    assert main(["compare", *files[::-1], "--fail-if", "faster >= 5%"]) == 1
    assert main(["compare", *files, "--fail-if", "memory > 0%"]) == 0
    assert main(["compare", *files, "--fail-if", "slower"]) == 2


def test_noise_is_no_change(tmp_path):
    before, after = chrome(tmp_path / "a.json", 100, steps=12), chrome(tmp_path / "b.json", 100.1, steps=12)
    assert main(["compare", before, after, "--fail-if", "slower > 0%"]) == 0
    after = chrome(tmp_path / "b.json", 140, steps=12)
    assert main(["compare", before, after, "--fail-if", "slower > 20%"]) == 1


def test_a_comparison_as_json(files, capsys):
    assert main(["compare", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["before_ns"], found["after_ns"], found["change_pct"]) == (100_000, 130_000, pytest.approx(30))
    assert (found["unit"], found["num_before"], found["low_pct"]) == ("run", 1, None)
    assert [(row["name"], row["delta_ns"]) for row in found["ops"]] == [("aten::mm", 30_000)]


def test_conditions():
    assert parse_condition(" slower>=2.5 % ").limit_pct == 2.5
    for text in ("", "slower > 5", "slower < 5%", "quicker > 5%", "slower > 5% and memory > 1%"):
        with pytest.raises(AssertionSyntaxError, match="slower"):
            parse_condition(text)

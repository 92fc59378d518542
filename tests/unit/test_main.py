"""The `cudalens` command: what it prints, where, and with which exit code."""

import json
import os
import subprocess
import sys

import programs
import pytest

import cudalens
from cudalens.__main__ import main

FILES = ("run.cudalens", "run.json", "run.json.gz")


@pytest.fixture(scope="module")
def trace():
    import torch

    with cudalens.profile("a run", keep=False, shapes=True) as p:
        torch.ones(8, 8) @ torch.ones(8, 8)
    return p.trace


@pytest.fixture(scope="module")
def saved(trace, tmp_path_factory):
    return trace.save(tmp_path_factory.mktemp("saved") / "run.cudalens")


def fresh_shell(*arguments):
    """The command in an interpreter that starts: it reads its environment, and imports torch itself."""
    command = [sys.executable, "-m", "cudalens", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def shell(*arguments):
    return programs.run("-m", "cudalens", *map(str, arguments), imported=programs.LIBRARIES)


class TestSummary:
    def test_prints_what_the_trace_says(self, saved, trace, capsys):
        assert main(["summary", str(saved)]) == 0
        assert capsys.readouterr().out.rstrip() == str(trace.summary()).rstrip()

    def test_on_a_terminal_of_ascii(self, saved, monkeypatch):
        monkeypatch.setenv("PYTHONIOENCODING", "ascii")
        done = fresh_shell("summary", saved)
        assert (done.returncode, done.stderr) == (0, "")
        assert "?" in done.stdout

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
    def test_into_a_full_file(self, saved):
        command = f"{sys.executable} -m cudalens summary {saved} > /dev/full"
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert done.returncode == 3
        assert done.stderr == "cudalens: cannot write the output: no space is left on its device.\n"

    def test_into_a_pipe_that_closes(self, saved):
        command = f"{sys.executable} -m cudalens summary {saved} | true"
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize(
        ("arguments", "streams", "code"),
        [
            (["summary", "{}"], ">&-", 0),
            (["report", "{}", "-o", "-"], ">&-", 0),
            (["summary", "-"], "<&-", 3),
            (["summary", "missing.json"], "2>&-", 3),
            (["summary", "missing.json"], "2> /dev/full", 3),
            (["summary", "x" * 5000], "", 3),
        ],
    )
    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
    def test_with_streams_that_are_closed_or_full(self, saved, arguments, streams, code):
        command = " ".join([sys.executable, "-m cudalens", *arguments, streams]).format(saved)
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False)


@pytest.mark.parametrize("verb", ["compare", "hang", "mcp", "ranks"])
def test_a_name_that_is_too_long_is_not_an_error_of_the_output(verb, saved):
    name = "x" * 300
    command = [sys.executable, "-m", "cudalens", verb, *([str(saved)] if verb == "compare" else []), name]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (3, "")
    assert "cannot write" not in done.stderr
    assert name in done.stderr
    assert done.stderr.endswith(": File name too long.\n")


def test_collapsed_stacks_of_device_work_alone(tmp_path, capsys):
    path, target = tmp_path / "t.json", tmp_path / "t.collapsed"
    path.write_text(
        '[{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "args": {"device": 0, "stream": 7}}]'
    )
    assert main(["convert", str(path), "-o", str(target)]) == 3
    assert "try --weight device" in capsys.readouterr().err
    assert not target.exists()
    assert main(["convert", str(path), "-o", str(target), "--weight", "device"]) == 0
    assert target.read_text() == "(no launch);k 2000\n"


def test_collapsed_stacks_of_a_trace_without_durations(tmp_path, capsys):
    (tmp_path / "t.json").write_text('[{"ph": "i", "name": "mark", "ts": 1, "pid": 1, "tid": 1}]')
    assert (
        main(["convert", str(tmp_path / "t.json"), "-o", str(tmp_path / "t.collapsed"), "--format", "collapsed"]) == 3
    )
    assert "no event with a duration" in capsys.readouterr().err
    assert not (tmp_path / "t.collapsed").exists()


class TestReport:
    def test_writes_one_page(self, saved, tmp_path, capsys):
        page = tmp_path / "page.html"
        assert main(["report", str(saved), "-o", str(page), "--title", "The <b>title</b>"]) == 0
        assert f"Wrote {page} (" in capsys.readouterr().out
        assert "The &lt;b&gt;title&lt;/b&gt;" in page.read_text()
        assert "The <b>title" not in page.read_text()

    def test_needs_an_output(self, saved):
        with pytest.raises(SystemExit) as stopped:
            main(["report", str(saved)])
        assert stopped.value.code == 2

    def test_refuses_before_it_reads(self, tmp_path, capsys):
        assert main(["report", str(tmp_path / "none"), "-o", str(tmp_path / "no" / "page.html")]) == 3
        assert "there is no folder" in capsys.readouterr().err

    def test_an_output_that_ends_like_a_folder(self, saved, tmp_path, capsys):
        assert main(["report", str(saved), "-o", f"{tmp_path}/pages/"]) == 3
        assert "it is a folder" in capsys.readouterr().err


class TestConvert:
    @pytest.mark.parametrize("name", FILES)
    def test_keeps_the_events(self, saved, trace, tmp_path, name):
        assert main(["convert", str(saved), "-o", str(tmp_path / name)]) == 0
        again = cudalens.load(tmp_path / name)
        assert list(again.events["name"]) == list(trace.events["name"])
        assert list(again.events["dur"]) == list(trace.events["dur"])

    def test_an_unknown_suffix(self, saved, tmp_path, capsys):
        assert main(["convert", str(saved), "-o", str(tmp_path / "run.xlsx")]) == 3
        said = capsys.readouterr().err
        assert "expected .cudalens, .json, .json.gz" in said
        assert not list(tmp_path.iterdir())


class TestFormats:
    @pytest.mark.parametrize(
        ("name", "options", "written"),
        [
            ("x.speedscope.json", [], "x.speedscope.json"),
            ("x.folded", ["--weight", "self", "--by", "module"], "x.folded"),
            ("x.txt", ["--format", "collapsed"], "x.txt"),
            ("x.parquet", [], "x.parquet"),
            ("folder", ["--format", "parquet"], "folder/events.parquet"),
            ("folder", ["--format", "csv"], "folder/events.csv"),
            ("folder", ["--format", "hta"], "folder/rank-0.json.gz"),
        ],
    )
    def test_every_format(self, saved, tmp_path, capsys, name, options, written):
        assert main(["convert", str(saved), "-o", str(tmp_path / name), *options]) == 0
        assert f"Wrote {tmp_path / name} (" in capsys.readouterr().out
        assert (tmp_path / written).stat().st_size > 0

    def test_the_longest_suffix_decides(self, saved, tmp_path):
        assert main(["convert", str(saved), "-o", str(tmp_path / "x.speedscope.json")]) == 0
        assert "speedscope" in json.loads((tmp_path / "x.speedscope.json").read_bytes())["$schema"]

    def test_options_of_another_format_are_refused(self, saved, tmp_path, capsys):
        assert main(["convert", str(saved), "-o", str(tmp_path / "x.json"), "--weight", "host"]) == 3
        assert "only for collapsed stacks" in capsys.readouterr().err

    def test_help_lists_them(self, capsys):
        with pytest.raises(SystemExit):
            main(["convert", "--help"])
        said = " ".join(capsys.readouterr().out.split())
        assert all(name in said for name in ("speedscope", "collapsed", "parquet", "csv", "hta", ".folded"))


class TestCompare:
    def test_prints_the_answer_and_writes_a_page(self, saved, tmp_path, capsys):
        assert main(["compare", str(saved), f"{saved},{saved}", "-o", str(tmp_path / "x.html")]) == 0
        said = capsys.readouterr().out
        assert said.startswith("no change: ")
        assert "1 and 2 runs; medians" in said
        assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")

    def test_refuses_what_is_no_trace(self, saved, tmp_path, capsys):
        assert main(["compare", str(saved), str(tmp_path / "none")]) == 3
        assert "none" in capsys.readouterr().err


class TestMemorySnapshots:
    @pytest.fixture(scope="class")
    def snapshot(self, tmp_path_factory):
        import torch

        import cudalens.virtual

        with cudalens.virtual.device("h100"):
            x = torch.ones(1000, device="cuda")
            with cudalens.memory_history("mine") as history:
                y = x * 2
        del y
        return history.trace.save(tmp_path_factory.mktemp("memory") / "mine.cudalens")

    @pytest.mark.parametrize("command", ["check", "compare"])
    def test_are_refused_with_the_name_of_what_compares_them(self, snapshot, capsys, command):
        assert main([command, str(snapshot), *([str(snapshot)] if command == "compare" else [])]) == 3
        output = capsys.readouterr()
        assert output.out == ""
        assert "memory snapshot" in output.err
        assert "Trace.memory_diff" in output.err

    def test_have_no_figures_of_events(self, snapshot, capsys):
        assertions = ["kernels == 0", "wall < 1 s", "allocations == 1"]
        trace = cudalens.load(snapshot)
        trace.check("allocations == 1", "ooms == 0")
        with pytest.raises(
            cudalens.AssertionFailed, match=r"2 of 3 .*\n.*a memory snapshot has no kernels.*memory_diff"
        ):
            trace.check(*assertions)
        with pytest.raises(cudalens.TraceError, match="memory_diff"):
            cudalens.compare(trace, trace)


class TestRefusals:
    @pytest.mark.parametrize("content", [None, b"", b"not a trace", b"{}"])
    def test_one_line_on_stderr_and_exit_code_3(self, tmp_path, capfd, content):
        path = tmp_path / "bad.json"
        if content is not None:
            path.write_bytes(content)
        assert main(["summary", str(path)]) == 3
        out, err = capfd.readouterr()
        assert out == ""
        assert len(err.splitlines()) == 1
        assert err.startswith("cudalens: ")
        assert "bad.json" in err

    def test_a_folder_from_a_shell(self, tmp_path):
        done = shell("summary", tmp_path)
        assert (done.returncode, done.stdout) == (3, "")
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("cudalens: ")

    @pytest.mark.parametrize("arguments", [[], ["bogus"], ["summary"], ["compare", "a"], ["doctor", "--xml"]])
    def test_wrong_usage_is_exit_code_2(self, arguments, capsys):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
        assert "usage: cudalens" in capsys.readouterr().err


class TestAbout:
    def test_version(self, capsys):
        with pytest.raises(SystemExit) as stopped:
            main(["--version"])
        assert stopped.value.code == 0
        assert capsys.readouterr().out == f"cudalens {cudalens.__version__}\n"

    def test_help_lists_the_commands(self, capsys):
        with pytest.raises(SystemExit):
            main(["--help"])
        said = capsys.readouterr().out
        assert all(command in said for command in ("report", "summary", "convert", "doctor"))

    def test_reading_a_trace_needs_no_torch(self, saved, tmp_path):
        program = (
            "import sys; from cudalens.__main__ import main; main(sys.argv[1:]); assert 'torch' not in sys.modules"
        )
        done = subprocess.run([sys.executable, "-c", program, "summary", str(saved)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


class TestDoctor:
    def test_says_what_works_here(self, capsys):
        assert main(["doctor"]) == 0
        said = capsys.readouterr().out
        assert "torch" in said
        assert "yes  profile the CPU" in said
        assert "profile the GPU" in said

    def test_prints_nothing_but_the_answer(self):
        done = shell("doctor", "--json")
        assert done.stderr == ""
        assert json.loads(done.stdout)["cudalens"]

    def test_json(self, capsys):
        import torch

        assert main(["doctor", "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["cudalens"] == cudalens.__version__
        assert facts["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
        assert {"name": "profile the CPU", "works": True, "detail": "tested"} in facts["checks"]
        assert sum(device["index"] is not None for device in facts["devices"]) == torch.cuda.device_count()
        assert bool(facts["reason"]) is (torch.cuda.device_count() == 0)

    def test_without_a_torch_that_works(self, tmp_path, monkeypatch):
        """A broken torch, as a missing CUDA library makes it, costs the doctor nothing but torch."""
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libcudart.so.13: cannot open shared object')")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        done = fresh_shell("doctor")
        assert (done.returncode, done.stderr) == (0, "")
        assert "libcudart.so.13" in done.stdout
        assert "yes  open and show recorded traces" in done.stdout

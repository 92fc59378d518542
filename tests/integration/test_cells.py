"""A profiled cell is the user's: what it shows, raises and leaves behind is what it would without the magic."""

import json
import re

import pytest
import torch

import cudalens
from cudalens.analysis.facts import line_costs
from cudalens.frames.info import cell_sources
from cudalens.magics.cells import RUN_PREFIX

WORK = "torch.ones(64, 64) @ torch.ones(64, 64)\n"


def names(trace):
    return set(trace.events["name"])


@pytest.fixture(autouse=True)
def nothing_of_ours_is_left(notebook):
    yield
    assert not [name for name in notebook.shell.user_ns if name.startswith(RUN_PREFIX)]
    assert not [call for call in notebook.shell.events.callbacks["post_execute"] if "CellRun" in repr(call)]
    assert not torch.autograd._profiler_enabled()
    assert len(notebook.shell.ast_transformers) == 1  # IPython drops one that raises


class TestOutput:
    def test_the_last_expression_is_the_output(self, notebook):
        result = notebook.run("%%cudaprofile\nx = torch.ones(3)\nx.sum().item()")
        assert result.result == 3.0
        assert notebook.shown[0] == ("out", "3.0")
        assert notebook["_"] == notebook["Out"][result.execution_count] == 3.0

    def test_the_trace_is_shown_after_the_cells_own_output(self, notebook):
        notebook.run(f"%%cudaprofile\n{WORK}")
        assert notebook.kinds() == ["out", "display"]
        bundle = notebook.shown[1][1]
        assert "aten::matmul" in bundle["text/plain"]
        assert "<svg" in bundle["text/html"]

    def test_printed_lines_come_through(self, notebook):
        notebook.run("%%cudaprofile -q\nprint('hello')\n_ = torch.ones(2)")
        assert notebook.capsys.readouterr().out == "hello\n"

    def test_a_semicolon_hides_the_value_and_not_the_trace(self, notebook):
        result = notebook.run(f"%%cudaprofile\n{WORK.rstrip()};  # said")
        assert result.result is None
        assert notebook.kinds() == ["display"]

    def test_none_and_statements_show_no_value(self, notebook):
        notebook.run("%%cudaprofile\nNone")
        assert notebook.kinds() == ["display"]
        notebook.run("%%cudaprofile\nx = 3")
        assert notebook.kinds() == ["display"]

    def test_only_comments(self, notebook):
        assert notebook.run("%%cudaprofile\n# nothing").success
        assert len(cudalens.runs.last) == 0

    @pytest.mark.parametrize("mode", ["last_expr", "last_expr_or_assign", "all", "none"])
    @pytest.mark.parametrize(
        "cell", ["1\n2", "x = 5", "x = 1\nx += 2", "for i in range(2):\n    i", "a, b = 1, 2", "x: int = 4"]
    )
    def test_interactivity_is_ipythons(self, notebook, mode, cell):
        notebook.shell.ast_node_interactivity = mode
        notebook.run(cell)
        plain = list(notebook.shown)
        notebook.run(f"%%cudaprofile -q\n{cell}")
        assert notebook.shown == plain

    def test_showing_the_value_is_not_profiled(self, notebook):
        notebook.run("class Loud:\n    def __repr__(self):\n        return str(torch.ones(2).cos().sum().item())")
        notebook.run("%%cudaprofile\nLoud()")
        assert notebook.shown[0][0] == "out"
        assert "aten::cos" not in names(cudalens.runs.last)

    def test_only_the_users_statements_are_profiled(self, notebook):
        notebook.run("%%cudaprofile -q --stacks\nx = torch.ones(3).sin()")
        files = set(cudalens.runs.last.stacks["file"].dropna())
        assert not [file for file in files if "cudalens/magics" in str(file)]

    def test_the_text_of_the_cells_that_ran_is_kept_as_it_was_typed(self, notebook, tmp_path, monkeypatch):
        monkeypatch.setattr("IPython.get_ipython", lambda: notebook.shell)
        cells = [
            "def scaled(x):\n    return x.sin() * 2",
            "unused = 1",
            "%%cudaprofile -q --stacks\ny = scaled(torch.ones(3))",
        ]
        for cell in cells:
            notebook.run(cell)
        last = notebook.shell.execution_count - 1
        trace = cudalens.load(cudalens.runs.last.save(tmp_path / "run.cudalens"))
        assert cell_sources(trace.info) == {f"In[{last - 2}]": cells[0], f"In[{last}]": cells[2]}
        costs = line_costs(trace).set_index("place")["source"]
        assert costs[f"In[{last - 2}]:2"] == "return x.sin() * 2"

    def test_a_run_without_stacks_keeps_no_text_of_other_cells(self, notebook, monkeypatch):
        monkeypatch.setattr("IPython.get_ipython", lambda: notebook.shell)
        notebook.run("%%cudaprofile -q\nx = torch.ones(3).sin()")
        assert cell_sources(cudalens.runs.last.info) == {}


class TestNamespace:
    def test_names_land_in_the_users_namespace(self, notebook):
        notebook.run("%%cudaprofile -q\nimport math as m\ndef f():\n    return y\ny = 1\nclass C: pass\ndel y\ny = 2")
        assert notebook["m"].pi > 3
        assert notebook["f"]() == 2
        assert notebook["C"].__name__ == "C"

    def test_del_deletes(self, notebook):
        notebook.run("gone = 1")
        notebook.run("%%cudaprofile -q\ndel gone")
        assert "gone" not in notebook.shell.user_ns

    def test_future_import_comes_first_and_lasts(self, notebook):
        result = notebook.run(
            "%%cudaprofile -q\nfrom __future__ import annotations\ndef f(x: Unknown): ...\nf.__annotations__['x']"
        )
        assert result.result == "Unknown"
        assert notebook.run("def g(x: Unknown): ...\ng.__annotations__['x']").result == "Unknown"

    def test_strings_that_look_like_magics_stay_strings(self, notebook):
        result = notebook.run('%%cudaprofile -q\ns = """\n%%time\n  %%cudaprofile\n!ls\n"""\ns')
        assert result.result == "\n%%time\n  %%cudaprofile\n!ls\n"
        assert notebook.run("'%%cudaprofile -q'\n1").result == 1
        assert len(cudalens.runs) == 1

    def test_decorators_and_annotations(self, notebook):
        cell = "%%cudaprofile -q\nimport functools\n@functools.cache\ndef f(n: int) -> int:\n    return n\nf(2)"
        assert notebook.run(cell).result == 2

    def test_an_indented_body_runs_as_in_any_cell_magic(self, notebook):
        assert notebook.run("%%cudaprofile -q\n    x = 1\n    x + 1").result == 2


class TestErrors:
    CELL = "\ndef f(x):\n    return 1 / x\n\ntorch.ones(3)\nf(0)\n"

    def plain_and_profiled(self, notebook, cell, options=""):
        """The traceback of `cell` alone, a line further down, and that of the profiled cell."""
        notebook.run(f"# the magic's line\n{cell}")
        plain = notebook.text("error")
        notebook.run(f"%%cudaprofile {options}\n{cell}")
        return plain, notebook.text("error")

    def test_traceback_is_that_of_the_plain_cell(self, notebook):
        plain, profiled = self.plain_and_profiled(notebook, self.CELL)
        cell_name = re.compile(r"<ipython-input-[^>]*>")
        assert cell_name.sub("cell", profiled) == cell_name.sub("cell", plain)
        assert "cudalens" not in profiled

    def test_partial_result_is_shown_before_the_traceback(self, notebook):
        result = notebook.run(f"%%cudaprofile\n{self.CELL}")
        assert isinstance(result.error_in_exec, ZeroDivisionError)
        assert notebook.kinds() == ["display", "error"]
        assert "raised" in notebook.shown[0][1]["text/plain"]
        trace = cudalens.runs.last
        assert (trace.info.status, "aten::ones" in names(trace)) == ("raised", True)

    def test_error_in_the_last_expression_points_at_it(self, notebook):
        notebook.run("%%cudaprofile -q\nx = 1\n\n(x +\n x / 0)")
        assert "----> 5" in notebook.text("error")

    @pytest.mark.parametrize("interrupt", ["KeyboardInterrupt", "SystemExit"])
    def test_interrupts_pass_also_when_errors_do_not(self, notebook, interrupt):
        result = notebook.run(f"%%cudaprofile --no-raise-error\n{WORK}raise {interrupt}")
        assert type(result.error_in_exec).__name__ == interrupt
        assert notebook.kinds()[0] == "display"
        assert len(cudalens.runs.last)

    def test_interrupted_is_what_the_run_says(self, notebook):
        notebook.run(f"%%cudaprofile\n{WORK}raise KeyboardInterrupt")
        assert cudalens.runs.last.info.status == "interrupted"

    def test_no_raise_error_shows_the_exception_and_goes_on(self, notebook):
        plain, profiled = self.plain_and_profiled(notebook, self.CELL, "--no-raise-error")
        assert notebook.kinds() == ["display", "error"]
        assert profiled.splitlines()[-1] == plain.splitlines()[-1] == "ZeroDivisionError: division by zero"
        assert "----> 7 f(0)" in profiled
        assert notebook.run(f"%%cudaprofile --no-raise-error\n{self.CELL}").success

    @pytest.mark.parametrize("cell", ["x = = 1", "return 1", "def f(:", "x\n  y", "yield 1", "x = 'a\n", "break"])
    def test_syntax_errors_are_ipythons(self, notebook, cell):
        with_line = f"# the magic's line\n{cell}"
        result = notebook.run(with_line)
        plain = notebook.text("error")
        profiled = notebook.run(f"%%cudaprofile --repeat 2\n{cell}")
        kind = type(result.error_before_exec or result.error_in_exec)
        assert issubclass(kind, SyntaxError)
        assert type(profiled.error_before_exec or profiled.error_in_exec) is kind
        number = re.compile(r"<ipython-input-[^>]*>")
        assert number.sub("", notebook.text("error")) == number.sub("", plain)
        assert len(cudalens.runs) == 0

    def test_a_second_profiler_is_refused_in_one_line(self, notebook):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as foreign:
            result = notebook.run("%%cudaprofile\nran = True")
            torch.ones(3)
        assert isinstance(result.error_in_exec, cudalens.ProfilerBusyError)
        assert len(notebook.text("error").splitlines()) == 1
        assert "ran" not in notebook.shell.user_ns
        assert any(event.name == "aten::ones" for event in foreign.events())

    CELL_OF_ANOTHER_PROFILER = (
        "with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):\n    torch.ones(3)\n1 + 1"
    )

    def test_a_profiler_that_a_cell_starts_is_refused_and_the_trace_is_kept(self, notebook):
        result = notebook.run(f"%%cudaprofile\nbefore = torch.eye(3)\n{self.CELL_OF_ANOTHER_PROFILER}")
        assert isinstance(result.error_in_exec, cudalens.ProfilerBusyError)
        assert "aten::eye" in names(cudalens.runs.last)
        assert notebook.run(self.CELL_OF_ANOTHER_PROFILER).result == 2


class TestAwait:
    def test_await_works_at_the_top(self, notebook):
        cell = f"%%cudaprofile\nimport asyncio\n{WORK}await asyncio.sleep(0, 'slept')"
        assert notebook.run(cell).result == "slept"
        assert "aten::matmul" in names(cudalens.runs.last)

    def test_await_in_steps(self, notebook):
        cell = "%%cudaprofile -q --warmup 1 --repeat 2\nimport asyncio\nn = await asyncio.sleep(0, 7)\nn"
        assert notebook.run(cell).result == 7
        assert cudalens.runs.last.info.num_steps == 2

    def test_await_raising(self, notebook):
        cell = "%%cudaprofile\nasync def f():\n    raise ValueError('inside')\nawait f()"
        assert isinstance(notebook.run(cell).error_in_exec, ValueError)
        assert notebook.kinds() == ["display", "error"]
        assert "----> 4 await f()" in notebook.text("error")


class TestOtherMagics:
    def test_time_inside(self, notebook):
        result = notebook.run("%%cudaprofile\n\n%%time\nx = torch.ones(3)\nx.sum().item()")
        assert result.result == 3.0
        assert "Wall time" in notebook.capsys.readouterr().out
        assert notebook.kinds() == ["out", "display"]
        assert "aten::sum" in names(cudalens.runs.last)

    def test_inside_time(self, notebook):
        result = notebook.run("%%time\n%%cudaprofile\nx = torch.ones(3)\nx.sum().item()")
        assert result.result == 3.0
        assert notebook.kinds() == ["out", "display"]
        assert "aten::sum" in names(cudalens.runs.last)

    def test_capture_inside(self, notebook):
        notebook.run(f"%%cudaprofile\n%%capture said\nprint('captured')\n{WORK}")
        assert "captured" in notebook["said"].stdout
        assert "aten::matmul" in names(cudalens.runs.last)

    def test_inside_capture_the_view_is_captured_too(self, notebook):
        notebook.run(f"%%capture said\n%%cudaprofile\nprint('captured')\n{WORK}")
        assert "captured" in notebook["said"].stdout
        assert list(cudalens.runs) == [f"cell-{len(notebook['In']) - 1}"]

    def test_line_magics_and_shell_lines(self, notebook):
        result = notebook.run(
            "%%cudaprofile -q\nhere = %pwd\nlines = !echo one\n!echo two\n%timeit -n1 -r1 torch.ones(2)\nlines"
        )
        assert list(result.result) == ["one"]
        assert notebook["here"]
        assert "aten::ones" in names(cudalens.runs.last)

    def test_a_nested_run_is_a_range_of_the_outer_one(self, notebook):
        result = notebook.run(f"%%cudaprofile outer\n%%cudaprofile inner --memory\n{WORK}'value'")
        assert result.result == "value"
        assert notebook.kinds() == ["out", "display"]
        assert list(cudalens.runs) == ["outer"]
        events = cudalens.runs.last.events
        (row,) = events.index[events["name"] == "inner"]
        product = events[events["name"] == "aten::matmul"].iloc[0]
        assert product["parent"] == row

    def test_options_that_only_the_outer_run_can_keep(self, notebook, tmp_path):
        notebook.run(f"%%cudaprofile outer\n%%cudaprofile inner --save {tmp_path / 'a'} -v t\n{WORK}")
        assert "belong on the outer one" in notebook.capsys.readouterr().err
        assert not (tmp_path / "a").exists()
        assert "t" not in notebook.shell.user_ns

    def test_nested_inside_time(self, notebook):
        notebook.run(f"%%cudaprofile outer\n%%time\n%%cudaprofile inner\n{WORK}")
        assert list(cudalens.runs) == ["outer"]
        assert "inner" in names(cudalens.runs.last)

    def test_nested_error_passes_through_both(self, notebook):
        result = notebook.run("%%cudaprofile outer\n%%cudaprofile inner\ntorch.ones(2)\n1 / 0")
        assert isinstance(result.error_in_exec, ZeroDivisionError)
        assert notebook.kinds() == ["display", "error"]
        assert "----> 4 1 / 0" in notebook.text("error")

    def test_called_as_a_function(self, notebook):
        result = notebook.run(f"get_ipython().run_cell_magic('cudaprofile', 'called', {WORK + '5'!r})")
        assert result.result == 5
        assert notebook.kinds() == ["out", "display"]
        assert "aten::matmul" in names(cudalens.runs["called"])

    def test_called_from_outside_of_a_cell(self, notebook):
        notebook.shown.clear()
        assert notebook.shell.run_cell_magic("cudaprofile", "called", f"{WORK}5") == 5
        assert notebook.kinds() == ["display"]

    def test_an_error_when_called_as_a_function(self, notebook):
        notebook.run("get_ipython().run_cell_magic('cudaprofile', 'called', 'y = 1\\ny / 0')")
        assert notebook.kinds() == ["display", "error"]
        assert "cudalens/magics" not in notebook.text("error")
        assert "y / 0" in notebook.text("error")

    def test_in_an_ipython_script(self, notebook, tmp_path):
        script = tmp_path / "script.ipy"
        script.write_text(f"%%cudaprofile scripted\n{WORK}")
        notebook.run(f"%run {script}")
        assert "aten::matmul" in names(cudalens.runs["scripted"])
        assert notebook.kinds() == ["display"]

    def test_other_cells_are_left_alone(self, notebook):
        manager = notebook.shell.input_transformer_manager
        for cell in ("x = 1\n", "%%time\n1\n", "%%cudaprofiler\n1\n", "%cudaprofile list\n", "%%cudaprofile?\n"):
            ours = notebook.shell.transform_cell(cell)
            theirs = type(manager)().transform_cell(cell)
            assert ours == theirs


class TestTyping:
    """What a terminal asks while a user types."""

    @pytest.mark.parametrize("typed", ["%%cudaprofile", "%%cudaprofile --memory", "%%cudaprofile\nx = 1"])
    def test_a_cell_magic_is_complete_at_a_blank_line(self, notebook, typed):
        assert notebook.shell.check_complete(typed + "\n")[0] == notebook.shell.check_complete("%%time\nx = 1\n")[0]
        assert notebook.shell.check_complete(typed)[0] == "incomplete"

    def test_help_documents_every_option(self, notebook):
        notebook.shell.run_line_magic("pinfo", "cudaprofile")
        text = notebook.shell.find_cell_magic("cudaprofile").__doc__
        assert all(name in text for name in ("--memory", "-v NAME", "--no-raise-error", "%cudaprofile history on"))

    def test_completion_offers_the_magic(self, notebook):
        assert "%%cudaprofile" in notebook.shell.complete("%%cudap")[1]


class TestOptions:
    def test_the_default_name_is_the_cells_number(self, notebook):
        result = notebook.run(f"%%cudaprofile -q\n{WORK}")
        assert list(cudalens.runs) == [f"cell-{result.execution_count}"]

    def test_name_and_source_are_kept(self, notebook):
        notebook.run(f"%%cudaprofile 'my run' -q\n# why\n{WORK}")
        assert cudalens.runs.last is cudalens.runs["my run"]
        assert cudalens.runs.last.info.code == f"# why\n{WORK}"

    def test_var_receives_the_trace_also_of_a_failed_cell(self, notebook):
        notebook.run(f"%%cudaprofile -q -v t\n{WORK}1 / 0")
        assert notebook["t"] is cudalens.runs.last

    def test_o_makes_the_trace_the_value(self, notebook):
        result = notebook.run(f"%%cudaprofile -o\n{WORK}'the value'")
        assert result.result is cudalens.runs.last is notebook["_"]
        assert notebook["Out"][result.execution_count] is result.result
        assert notebook.kinds() == ["display", "out"]
        assert notebook.shown[0][1]["text/plain"] == "'the value'"

    @pytest.mark.parametrize("cell", ["'hidden';", "x = 3", "x = 3;", "# nothing"])
    def test_o_with_nothing_else_to_show(self, notebook, cell):
        result = notebook.run(f"%%cudaprofile -o\n{cell}")
        assert result.result is cudalens.runs.last
        assert notebook.kinds() == ["out"]

    def test_o_shows_the_trace_once_also_when_the_cell_fails(self, notebook):
        result = notebook.run(f"%%cudaprofile -o --no-raise-error\n{WORK}1 / 0")
        assert result.result is cudalens.runs.last
        assert notebook.kinds() == ["error", "out"]
        notebook.run(f"%%cudaprofile -o\n{WORK}1 / 0")
        assert notebook.kinds() == ["display", "error"]

    def test_q_shows_nothing_of_ours(self, notebook, tmp_path):
        notebook.run(f"%%cudaprofile -q --save {tmp_path / 'a.cudalens'}\n{WORK}7")
        assert notebook.shown == [("out", "7")]
        assert notebook.capsys.readouterr() == ("", "")
        assert (tmp_path / "a.cudalens").exists()

    def test_recording_options_reach_the_profiler(self, notebook):
        notebook.run(f"%%cudaprofile -q --memory --shapes --flops\n{WORK}")
        trace = cudalens.runs.last
        assert len(trace.memory)
        product = trace.events[trace.events["name"] == "aten::mm"].iloc[0]
        assert json.loads(product["shapes"]) == [[64, 64], [64, 64]]
        assert product["flops"] == 2 * 64**3
        notebook.run(f"%%cudaprofile -q\n{WORK}")
        assert not len(cudalens.runs.last.memory)

    def test_options_are_data(self, notebook):
        notebook.run("x = 'expanded'")
        notebook.run("%%cudaprofile -q {x}$x\n1")
        assert list(cudalens.runs) == ["{x}$x"]

    def test_warmup_and_repeat(self, notebook):
        cell = "%%cudaprofile -q --warmup 2 --repeat 3\ncalls.append(1)\ny = torch.ones(2).cos()\nlen(calls)"
        notebook.run("calls = []")
        result = notebook.run(cell)
        assert result.result == 5
        assert notebook.kinds() == ["out"]
        trace = cudalens.runs.last
        cosines = trace.events[trace.events["name"] == "aten::cos"]
        assert list(cosines["step"]) == [0, 1, 2]
        assert trace.info.num_steps == 3

    def test_warmup_alone_profiles_one_step(self, notebook):
        notebook.run(f"%%cudaprofile -q --warmup 1\n{WORK}")
        assert (cudalens.runs.last.events["name"] == "aten::matmul").sum() == 1

    def test_an_error_in_warmup_leaves_no_run(self, notebook):
        result = notebook.run("%%cudaprofile --warmup 1\n1 / 0")
        assert isinstance(result.error_in_exec, ZeroDivisionError)
        assert notebook.kinds() == ["error"]
        assert len(cudalens.runs) == 0

    def test_an_error_in_a_step_keeps_the_steps_before(self, notebook):
        notebook.run("n = iter([1, 1, 0])")
        notebook.run("%%cudaprofile --repeat 3\ntorch.ones(2).cos()\n1 / next(n)")
        assert notebook.kinds() == ["display", "error"]
        assert (cudalens.runs.last.events["name"] == "aten::cos").sum() == 3

    def test_exports(self, notebook, tmp_path):
        files = [tmp_path / "a report.html", tmp_path / "a.cudalens", tmp_path / "a.json.gz"]
        html, save, chrome = files
        notebook.run(f"%%cudaprofile --html '{html}' --save {save} --chrome {chrome}\n{WORK}")
        said = notebook.capsys.readouterr().out
        assert all(f"Wrote {file} (" in said for file in files)
        assert "<html" in html.read_text()[:200]
        assert len(cudalens.load(save)) == len(cudalens.runs.last)
        assert "aten::matmul" in names(cudalens.load(chrome))

    def test_the_home_folder_is_understood(self, notebook, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        notebook.run(f"%%cudaprofile -q --save ~/mine.cudalens\n{WORK}")
        assert (tmp_path / "mine.cudalens").exists()


class TestRefusals:
    """UsageError, one clear message, and nothing has run."""

    def refused(self, notebook, line):
        result = notebook.run(f"%%cudaprofile {line}\nran = True")
        assert notebook.kinds() == ["usage"]
        assert result.error_in_exec is not None
        assert "ran" not in notebook.shell.user_ns
        assert len(cudalens.runs) == 0
        return notebook.text("usage")

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("--bogus", "unrecognized arguments: --bogus"),
            ("--mem", "unrecognized arguments: --mem"),
            ("a b", "unrecognized arguments: b"),
            ("-v 1x", "'1x' is not a valid variable name"),
            ("-v class", "'class' is not a valid variable name"),
            ("-v", "expected one argument"),
            ("--repeat 0", "'0' is not a whole number of at least 1"),
            ("--warmup -1", "'-1' is not a whole number of at least 0"),
            ("--repeat 1.5", "'1.5' is not a whole number"),
            ("--html ''", "a file name is empty"),
            ("--html new/", "'new/' is a folder; give a file name in it"),
            ("--html 'a", "a quote is not closed"),
            ("--html a --save a", "two outputs go to the same file a"),
        ],
    )
    def test_wrong_options_show_the_usage(self, notebook, line, said):
        text = self.refused(notebook, line)
        assert said in text
        assert "usage: %%cudaprofile [-v NAME]" in text

    @pytest.mark.parametrize("option", ["--html", "--save", "--chrome"])
    def test_an_output_that_cannot_be(self, notebook, tmp_path, option):
        text = self.refused(notebook, f"{option} {tmp_path / 'no' / 'file'}")
        assert f"there is no folder {tmp_path / 'no'}" in text
        assert not (tmp_path / "no").exists()
        assert "it is a folder" in self.refused(notebook, f"{option} {tmp_path}")

    def test_an_empty_cell(self, notebook):
        result = notebook.run("%%cudaprofile\n\n  \n")
        assert notebook.kinds() == ["usage"]
        assert "cell body is empty" in str(result.error_in_exec)

    @pytest.mark.parametrize("option", ["--html", "--save", "--chrome"])
    def test_an_export_that_fails_loses_neither_trace_nor_display(self, notebook, tmp_path, option):
        folder = tmp_path / "goes"
        folder.mkdir()
        line = f"%%cudaprofile kept {option} {folder / 'file'}"
        result = notebook.run(f"{line}\nimport shutil\n{WORK}shutil.rmtree({str(folder)!r})\n'value'")
        assert result.success
        assert notebook.kinds() == ["out", "display"]
        assert "aten::matmul" in names(cudalens.runs["kept"])
        said = notebook.capsys.readouterr().err
        assert "was not written" in said
        assert "cudalens.runs['kept']" in said


class TestLineForm:
    def test_usage(self, notebook):
        notebook.run("%cudaprofile")
        assert "usage: %cudaprofile list | show [NAME]" in notebook.capsys.readouterr().out

    def test_list_and_show(self, notebook):
        notebook.run(f"%%cudaprofile 'first run' -q\n{WORK}")
        notebook.run("%cudaprofile list")
        assert "first run" in notebook.capsys.readouterr().out
        notebook.run("%cudaprofile show first run")
        assert notebook.kinds() == ["display"]

    @pytest.mark.parametrize("line", ["show nothing", "--memory", "show"])
    def test_refusals(self, notebook, line):
        notebook.run(f"%cudaprofile {line}")
        assert notebook.kinds() == ["usage"]


class TestOneLine:
    """``%cudaprofile STATEMENT``, as ``%time STATEMENT``."""

    def test_the_value_of_the_line_is_the_output(self, notebook):
        result = notebook.run("%cudaprofile torch.ones(3).sum().item()")
        assert result.result == 3.0
        assert "aten::sum" in names(cudalens.runs.last)
        assert sorted(notebook.kinds()) == ["display", "out"]

    def test_its_value_can_be_assigned_in_the_middle_of_a_cell(self, notebook):
        result = notebook.run("x = torch.ones(4)\ny = %cudaprofile -q (x * 2).sum()\ny.item() + 1")
        assert result.result == 9.0
        assert "aten::mul" in names(cudalens.runs.last)
        assert notebook.kinds() == ["out"]

    def test_a_statement_binds_its_names(self, notebook):
        assert notebook.run("%cudaprofile --shapes --repeat 2 z = torch.ones(2, 5)").success
        assert notebook["z"].shape == (2, 5)
        assert cudalens.runs.last.events["step"].nunique() == 2

    def test_its_exception_is_the_users(self, notebook):
        result = notebook.run("%cudaprofile 1 / 0")
        assert isinstance(result.error_in_exec, ZeroDivisionError)
        assert cudalens.runs.last.info.status == "raised"

    @pytest.mark.parametrize("line", ["lst", "--stacks", "f( x", "diff a b c"])
    def test_what_is_no_statement_prints_the_usage(self, notebook, line):
        before = len(cudalens.runs)
        assert not notebook.run(f"%cudaprofile {line}").success
        assert "%cudaprofile" in notebook.text("usage")
        assert len(cudalens.runs) == before

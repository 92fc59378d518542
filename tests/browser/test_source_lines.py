"""The source of the functions of notebook cells beside the call stack of a selected event: in a report and live."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_traces import HOSTILE, HOSTILE_STYLE, Rows

from cudalens.frames import RunInfo, Trace
from cudalens.frames.info import sources_to_extra
from cudalens.report import to_html

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

HELPERS = """import torch

@torch.no_grad()
def step(
    x,
):
    y = x @ x

    return y


def other(x):
    return x
"""
CALL = "%%cudaprofile --stacks\nfor _ in range(3):\n    x = step(x)\n"
STEP = """4  def step(
5      x,
6  ):
7      y = x @ x
8
9      return y"""


def stacked_trace(sources, function="In[3](4): step", cell="In[5](1): <module>"):
    rows = Rows()
    rows.host(cell, "python_function", 0, 900_000)
    rows.host("torch/nn/functional.py(10): linear", "python_function", 1_000, 800_000)
    rows.host(function, "python_function", 2_000, 700_000)
    rows.host("aten::mm", "cpu_op", 3_000, 100_000)
    rows.launch("sgemm", 4_000, 10_000, 300_000)
    extra = sources_to_extra(sources)
    info = RunInfo(name="cell-5", source="cuda", started_ns=0, ended_ns=1_000_000, extra=extra)
    return Trace(info, events=rows.to_events())


@pytest.fixture
def sources_of(offline_page, tmp_path):
    """Opens the report of a trace, selects its kernel, and returns the sources beside it: (term, text)."""

    def select(trace):
        offline_page.goto(to_html(trace, tmp_path / "report.html").as_uri())
        offline_page.wait_for_selector(".cudalens[data-state=ready]")
        offline_page.evaluate(
            """() => {
              const { data, selection } = cudalensReport;
              selection.set({ event: data.name.indexOf(data.header.names.indexOf('sgemm')) }, 'test');
            }"""
        )
        terms = offline_page.locator(".cl-details dt").all_text_contents()
        texts = offline_page.locator(".cl-details dd").all_text_contents()
        return [one for one in zip(terms, texts, strict=True) if one[0].startswith("Source of ")]

    return select


def test_each_function_of_a_cell_shows_its_lines_and_the_cell_all_of_it(sources_of):
    shown = sources_of(stacked_trace({"In[3]": HELPERS, "In[5]": CALL}))
    cell = "1  %%cudaprofile --stacks\n2  for _ in range(3):\n3      x = step(x)"
    assert shown == [("Source of step, In[3]", STEP), ("Source of <module>, In[5]", cell)]


def test_a_decorator_is_part_of_its_function(sources_of):
    shown = sources_of(stacked_trace({"In[3]": HELPERS}, function="In[3](3): step"))
    assert shown == [("Source of step, In[3]", f"3  @torch.no_grad()\n{STEP}")]


def test_a_long_function_is_cut(sources_of):
    body = "".join(f"    x = {number}\n" for number in range(100))
    ((_, text),) = sources_of(stacked_trace({"In[3]": f"\n\n\ndef step():\n{body}"}))
    assert text.splitlines()[0] == "4  def step():"
    assert text.splitlines()[-2:] == ["19      x = 14", "…"]


@pytest.mark.parametrize("function", ["In[3](40): step", "In[3](0): step", "In[9](4): step", "train.py(4): step"])
def test_lines_that_are_not_known_show_nothing(sources_of, function):
    assert sources_of(stacked_trace({"In[3]": HELPERS, "__proto__": HELPERS}, function=function)) == []


@pytest.mark.parametrize("text", ["", "\n\n\n\n\n\n", "\n\n\n\nx = 1\n"])
def test_a_call_of_an_empty_line_leaves_the_details_whole(sources_of, text):
    shown = sources_of(stacked_trace({"In[3]": text, "In[5]": CALL}))
    assert [term for term, _ in shown][-1:] == ["Source of <module>, In[5]"]
    assert all(not lines.strip("4 \n") for _, lines in shown[:-1])


def test_foreign_source_is_text(sources_of, offline_page):
    ((_, text),) = sources_of(stacked_trace({"In[3]": f"\n\n\n{HOSTILE}\n {HOSTILE_STYLE}"}))
    assert HOSTILE in text
    assert offline_page.evaluate("() => window.pwned") is None
    assert offline_page.locator(".cl-details img").count() == 0


def test_a_live_view_shows_the_lines_of_the_cells_that_ran(lab, lab_page):
    setup = "%load_ext cudalens\n%cudadevice virtual h100"
    call = f"%%cudaprofile --stacks\nx = torch.ones(64, 64, device='cuda')\n{CALL.partition(chr(10))[2]}"
    lab.write_notebook("sources.ipynb", setup, HELPERS, call)
    lab.end_kernels()
    lab.open(lab_page, "sources.ipynb")
    lab.run_all(lab_page)
    view = lab_page.locator(".cudalens-live .cudalens[data-state=ready]")
    view.locator(".cltl-search").fill("mm")
    view.locator(".cltl-search").press("Enter")
    view.locator("dd.cl-source").first.wait_for()
    # The lines that ran have a mark.
    assert view.locator("dd.cl-source").first.text_content().endswith(STEP.replace("7  ", "7\u203a "))
    assert "4\u203a     x = step(x)" in view.locator("dd.cl-source").last.text_content()

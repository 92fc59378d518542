from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from sample_traces import HOSTILE, LONG_KERNEL, cpu_trace, gpu_trace, hostile_trace, wide_trace

from cudalens.frames import Problem
from cudalens.views import assets
from cudalens.views import notebook as module
from cudalens.views.sections.markup import UNTRUSTED
from cudalens.views.sections.page import summary
from cudalens.views.timeline import svg
from cudalens.views.widget import MAX_READY_BYTES

ALLOWED = {
    *("details", "summary", "code", "span", "b", "bdi", "rect"),
    "div",
    "style",
    "p",
    "strong",
    "ul",
    "li",
    "svg",
    "title",
    "path",
    "text",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
}


class Markup(HTMLParser):
    def __init__(self, markup):
        super().__init__()
        self.elements, self.attributes, self.styles = set(), {}, []
        self.is_style = False
        self.feed(markup)

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes.update(attrs)
        self.is_style = tag == "style"

    def handle_data(self, data):
        if self.is_style:
            self.styles.append(data)

    def handle_endtag(self, tag):
        self.is_style = False


def test_without_a_kernel_the_bundle_is_text_and_html():
    bundle = gpu_trace()._repr_mimebundle_(include=None, exclude=None)
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"] == str(summary(gpu_trace()))


def test_without_a_kernel_display_falls_back_to_the_bundle():
    with pytest.raises(NotImplementedError):
        gpu_trace()._ipython_display_()


def test_html_needs_nothing_else_and_begins_with_the_answer():
    html = module.static_html(gpu_trace())
    assert html.index("<strong>3.00 ms, GPU busy 45 %") < html.index("<svg") < html.rindex("<table>")
    assert "ampere_sgemm_128x64_tn" in html
    found = Markup(html)
    assert found.elements <= ALLOWED
    assert not {"href", "src", "onload", "onerror", "onclick"} & set(found.attributes)
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in html


def test_html_of_hostile_texts_holds_only_our_elements():
    found = Markup(module.static_html(hostile_trace(), "an id"))
    assert found.elements <= ALLOWED
    assert not any(name.startswith("on") or name in ("src", "href") for name in found.attributes)
    assert (
        "".join(found.styles)
        == module._STYLE.removeprefix("<style>").removesuffix("</style>")
        + assets.style("findings")
        + assets.style("steps")
        + assets.style("costs")
        + UNTRUSTED.partition("<style>")[2].partition("</style>")[0]
    )


def test_html_is_bounded_whatever_the_trace():
    problems = tuple(Problem(HOSTILE * 1000, 1, HOSTILE * 1000) for _ in range(500))
    for trace in (wide_trace(100_000), gpu_trace(500, mm="x" * 100_000, kernel=LONG_KERNEL * 5000, problems=problems)):
        assert len(module.static_html(trace, "id").encode()) <= module.MAX_HTML_BYTES


def test_html_is_the_same_each_time():
    assert module.static_html(gpu_trace()) == module.static_html(gpu_trace())


def test_html_holds_the_picture():
    assert svg.timeline_svg(cpu_trace()).html() in module.static_html(cpu_trace())


def test_the_picture_names_the_widget_that_hides_it():
    assert 'data-cudalens-static="&lt;id&gt;"' in module.static_html(gpu_trace(), "<id>")


def run_notebook(*cells):
    client = pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return notebook


def test_the_image_of_the_timeline_is_small_and_holds_the_lanes():
    for trace in (gpu_trace(), wide_trace(100_000)):
        picture = module.picture_text(trace)
        assert picture.startswith("<svg")
        assert "GPU 0" in picture
        assert len(picture.encode()) <= module.MAX_IMAGE_BYTES


def test_in_a_live_kernel_a_trace_shows_the_answer_an_image_the_rest_and_then_its_widget():
    folder = str(Path(__file__).parent)
    setup = f"import sys; sys.path.insert(0, {folder!r})\nfrom sample_traces import gpu_trace\ntrace = gpu_trace()"
    bundle = "sorted(trace._repr_mimebundle_())"
    notebook = run_notebook(setup, "trace", "trace.timeline()", bundle, "print(repr(trace))")
    for cell in notebook.cells[1:3]:
        head, image, rest, widget = (output["data"] for output in cell.outputs)
        assert set(image) == {"text/plain", "image/svg+xml"}
        assert set(widget) == {"text/plain", module.WIDGET_VIEW}
        for part in (head, rest):
            assert set(part) == {"text/plain", "text/html"}
            assert f'data-cudalens-static="{widget[module.WIDGET_VIEW]["model_id"]}"' in part["text/html"]
        assert "3.00 ms, GPU busy" in head["text/html"]
        assert "3.00 ms, GPU busy" in head["text/plain"]
        assert "ampere_sgemm" in rest["text/html"]
    assert module.WIDGET_VIEW in notebook.cells[3].outputs[0]["data"]["text/plain"]
    assert notebook.cells[4].outputs[0]["text"] == "<cudalens.Trace 'cell-3': 30 events, cuda>\n"
    states = notebook.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"].values()
    views = [state for state in states if state["model_name"] == "AnyModel"]
    assert len(views) == 3
    sizes = [len(buffer["data"]) for state in views for buffer in state.get("buffers", [])]
    assert sum(sizes) <= 3 * MAX_READY_BYTES, "only the columns of a short trace are widget state"

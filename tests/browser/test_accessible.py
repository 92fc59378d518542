"""axe finds nothing in reports and in the outputs of JupyterLab, in light and dark."""

import sys
from pathlib import Path

import pytest

from .conftest import LAB_VIEWPORT
from .sample_snapshots import random_snapshot, trace_of

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_graphs import graphs_trace
from sample_races import race_trace
from sample_traces import gpu_trace

from cudalens.report import to_html

SAMPLES = str(Path(__file__).parents[1] / "unit" / "views")
AXE = Path(__file__).parents[2] / "tools" / "js" / "node_modules" / "axe-core" / "axe.min.js"
TRACES = {
    "a profile": gpu_trace,
    "races": lambda: race_trace(events=True),
    "graphs": lambda: graphs_trace(events=True),
    "memory": lambda: trace_of(random_snapshot(3)),
}
FOUND = """async (include) => {
  const found = await axe.run({ include }, { resultTypes: ["violations"] });
  return found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.html.slice(0, 200)}`));
}"""


@pytest.fixture(scope="module")
def axe():
    if not AXE.is_file():
        pytest.skip("axe-core is not installed; `make check-js` installs it")
    return AXE.read_text()


def violations(page, axe, *include):
    page.evaluate(axe)
    return page.evaluate(FOUND, [[selector] for selector in include])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", TRACES)
def test_a_report(name, scheme, axe, offline_page, tmp_path):
    offline_page.emulate_media(color_scheme=scheme)
    offline_page.goto(to_html(TRACES[name](), tmp_path / "report.html").as_uri())
    offline_page.wait_for_selector(".cudalens[data-state=ready]")
    for tab in offline_page.locator(".cl-tab").all():
        tab.click()
        assert violations(offline_page, axe, "html") == []
    assert violations(offline_page, axe, "html") == []


def test_outputs_of_a_notebook(axe, lab, lab_page):
    setup = f"import sys; sys.path.insert(0, {SAMPLES!r})\nfrom sample_traces import gpu_trace"
    page = lab_page
    page.set_viewport_size({"width": 1300, "height": 3000})
    lab.write_notebook("accessible.ipynb", setup, "gpu_trace()", "gpu_trace()")
    lab.open(page, "accessible.ipynb")
    lab.run_all(page)
    page.wait_for_function("document.querySelectorAll('.cudalens-live .cudalens[data-state=ready]').length === 2")
    for theme in ("Dark", "Light"):
        page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme }).then(() => null)",
            f"JupyterLab {theme}",
        )
        other_theme = f".cudalens-live .cudalens:not([data-theme={theme.lower()}])"
        page.wait_for_function("selector => !document.querySelector(selector)", arg=other_theme)
        assert violations(page, axe, ".cudalens-live", ".cudalens-static") == []
    page.set_viewport_size(LAB_VIEWPORT)

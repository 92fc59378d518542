"""The widget in a real JupyterLab: it paints, its selection reaches Python, and a saved notebook keeps the picture."""

import json
from pathlib import Path

import pytest

SAMPLES = str(Path(__file__).parents[1] / "unit" / "views")

SETUP = f"import sys; sys.path.insert(0, {SAMPLES!r})\nfrom sample_traces import gpu_trace\ntrace = gpu_trace()"
LIVE = ".cudalens-live .cudalens[data-state=ready]"
PICTURE = ".jp-RenderedSVG img >> nth=0"
VERDICT = "3.00 ms, GPU busy 45 %: up to 980 µs (33 %) lost to other host work"
OPEN_COMMS = "import comm; print('open comms:', len(comm.get_comm_manager().comms))"


@pytest.fixture
def page(lab_page):
    """The page of JupyterLab, as the user of it names it."""
    return lab_page


def outputs_text(page, cell):
    return page.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea-output").all_inner_texts()


def run_cell_again(lab, page, cell):
    """Run one cell once more and wait for its new number."""
    prompt = page.locator(".jp-CodeCell").nth(cell).locator(".jp-InputPrompt")
    before = prompt.inner_text()
    page.locator(".jp-CodeCell").nth(cell).locator(".cm-content").click()
    lab.command(page, "notebook:run-cell")
    page.wait_for_function(
        """([cell, before]) => {
          const text = document.querySelectorAll('.jp-CodeCell')[cell].querySelector('.jp-InputPrompt').textContent;
          return text !== before && /\\d/.test(text);
        }""",
        arg=[cell, before],
    )


def save(lab, page):
    lab.command(page, "docmanager:save")
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.context.model.dirty === false")


def open_live(lab, page, name):
    """Run a notebook whose second cell shows the widget, and whose third cell prints the selection."""
    lab.write_notebook(name, SETUP, "trace", "print(len(trace.selection), set(trace.selection['name'].astype(str)))")
    lab.open(page, name)
    lab.run_all(page)
    page.wait_for_selector(LIVE)
    return page


@pytest.fixture
def live(lab, page):
    """A notebook that several tests use while no other is opened; each leaves it as it was."""
    return page if lab.opened(page) == "live.ipynb" else open_live(lab, page, "live.ipynb")


def shut_down(page):
    """End the kernel of the open notebook."""
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")


def test_the_widget_paints_and_hides_the_picture(live):
    assert live.locator(".cudalens-live .cl-verdict strong").inner_text() == VERDICT
    assert live.locator(".cudalens-live .cl-timeline canvas").first.is_visible()
    assert live.locator(".cudalens-live .cl-table-host tbody tr").count() == 7
    live.locator(".cudalens-live .cl-memory").scroll_into_view_if_needed()
    live.wait_for_selector(".cudalens-live .cl-plot svg.main-svg")
    assert live.locator(PICTURE).is_hidden()


def test_a_selection_in_the_page_is_the_selection_in_python(live, lab):
    assert outputs_text(live, 2)[-1].startswith("30 ")
    live.locator(".cudalens-live .cl-table-host tbody tr", has_text="aten::copy_").click()
    assert live.locator(".cl-bar-count").inner_text() == "3 events of 30 selected"
    run_cell_again(lab, live, 2)
    assert outputs_text(live, 2) == ["3 {'aten::copy_'}\n"] or outputs_text(live, 2)[-1].strip() == "3 {'aten::copy_'}"
    live.locator(".cudalens-live .cl-clear").click()
    run_cell_again(lab, live, 2)
    assert outputs_text(live, 2)[-1].startswith("30 ")


def test_the_theme_follows_jupyterlab(live):
    def use(theme):
        live.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme }).then(() => null)", theme
        )

    use("JupyterLab Dark")
    live.wait_for_selector(".cudalens-live .cudalens[data-theme=dark]")
    assert live.locator(".cl-table-host.dark").count() == 1
    use("JupyterLab Light")
    live.wait_for_selector(".cudalens-live .cudalens[data-theme=light]")


def test_keys_in_the_timeline_are_not_the_notebooks(live):
    """In JupyterLab's command mode A inserts a cell, D twice deletes one, X cuts it, Z undoes."""
    canvas = live.locator(".cudalens-live .cltl-canvas")
    canvas.click(position={"x": 400, "y": 120})
    for key in "ddaxbcvzwsf":
        live.keyboard.press(key)
        assert live.locator(".jp-Cell").count() == 3, key
    assert live.evaluate("document.activeElement.classList.contains('cltl-canvas')")
    live.keyboard.press("Escape")
    live.keyboard.press("Enter")
    assert live.locator(".cudalens-live .cltl-spoken[aria-live]").text_content() != ""
    live.keyboard.press("/")
    live.keyboard.type("add")
    search = live.locator(".cudalens-live .cltl-search")
    assert search.input_value() == "add"
    assert live.locator(".jp-Cell").count() == 3
    search.fill("")
    search.press("Escape")


def test_a_saved_notebook_without_its_kernel_shows_the_picture_and_no_error(lab, page):
    open_live(lab, page, "saved.ipynb")
    save(lab, page)
    saved = json.loads((lab.folder / "saved.ipynb").read_text())
    assert [set(output["data"]) for output in saved["cells"][1]["outputs"]] == [
        {"text/plain", "text/html"},
        {"text/plain", "image/svg+xml"},
        {"text/plain", "text/html"},
        {"text/plain", "application/vnd.jupyter.widget-view+json"},
    ]
    assert len(json.dumps(saved)) < 250_000
    shut_down(page)
    lab.load(page, "saved.ipynb")
    page.wait_for_function("() => document.body.textContent.includes('model not found')")
    assert page.locator(PICTURE).is_visible()
    assert page.get_by_text("model not found").is_hidden()
    assert page.get_by_text("Trust Notebook").is_hidden()
    assert page.locator("[data-cudalens-static] p > strong").first.inner_text() == VERDICT


def test_a_cell_is_interactive_while_the_kernel_runs_the_next_one(lab, page):
    flag = lab.folder / "go-on"
    wait = f"import os, time\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.05)"
    lab.write_notebook("early.ipynb", SETUP, "trace", wait)
    lab.open(page, "early.ipynb")
    lab.wait_for_kernel(page)
    lab.command(page, "notebook:run-all-cells")
    page.wait_for_selector(".cudalens-live .cudalens:is([data-state=painted], [data-state=ready])")
    busy = page.locator(".jp-CodeCell").nth(2).locator(".jp-InputPrompt").inner_text()
    flag.touch()
    assert "*" in busy, "the next cell runs while the view is painted"


def test_closing_gives_the_picture_back_and_leaves_no_comm(lab, page):
    lab.write_notebook(
        "close.ipynb",
        SETUP + "\n" + OPEN_COMMS,
        "widget = trace.timeline()\nwidget",
        "widget.close(); widget.layout.close()\n" + OPEN_COMMS,
    )
    lab.open(page, "close.ipynb")
    lab.wait_for_kernel(page)
    for cell in (0, 1):
        page.locator(".jp-CodeCell").nth(cell).locator(".cm-content").click()
        lab.command(page, "notebook:run-cell")
    page.wait_for_selector(LIVE)
    assert page.locator(PICTURE).is_hidden()
    run_cell_again(lab, page, 2)
    page.wait_for_selector(PICTURE, state="visible")
    assert page.locator(LIVE).count() == 0
    assert outputs_text(page, 2)[-1] == outputs_text(page, 0)[-1]


def test_errors_of_callbacks_show_under_the_widget(lab, page):
    lab.write_notebook(
        "errors.ipynb",
        SETUP,
        "def fail(rows):\n    raise ValueError(f'no {len(rows)}')\ntrace.timeline(on_select=fail)",
    )
    lab.open(page, "errors.ipynb")
    lab.run_all(page)
    page.wait_for_selector(LIVE)
    page.locator(".cudalens-live .cl-table-host tbody tr", has_text="aten::copy_").click()
    page.wait_for_selector(".cl-traceback")
    assert "ValueError: no 3" in page.locator(".cl-traceback").inner_text()


def test_races_show_live_and_in_the_saved_notebook(lab, page):
    setup = f"import sys; sys.path.insert(0, {SAMPLES!r})\nfrom sample_races import race_trace\nrace_trace()"
    lab.write_notebook("races.ipynb", setup)
    lab.open(page, "races.ipynb")
    lab.run_all(page)
    page.wait_for_selector(LIVE)
    live = page.locator(".cudalens-live")
    assert live.locator(".cl-verdict strong").inner_text() == "2 races, seen 514 times"
    live.locator(".cl-race-list").focus()
    for key in ("ArrowDown", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    assert live.locator(".cudalens-race > h4").inner_text() == "2. read after write of grads · seen 512 times"
    assert page.evaluate("document.activeElement.classList.contains('cl-race-list')"), "the notebook's keys stay out"
    assert page.locator("[data-cudalens-static]").is_hidden()
    save(lab, page)
    shut_down(page)
    lab.open(page, "races.ipynb")
    picture = page.locator("[data-cudalens-static]")
    picture.locator(".cl-race-fold > summary").nth(1).click()
    assert picture.locator(".cl-race-code").is_visible()
    assert picture.locator(".cl-race-code .cl-diff-add").inner_text().strip().endswith("wait_stream(side)")


def test_a_snapshot_of_memory_shows_live(lab, page):
    setup = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})"
    lab.write_notebook("memory.ipynb", f"{setup}\nfrom sample_snapshots import *\ntrace_of(random_snapshot(1))")
    lab.open(page, "memory.ipynb")
    lab.run_all(page)
    page.wait_for_selector(".cudalens-live .mm-table tbody tr")
    assert page.locator(PICTURE).first.is_hidden()
    page.locator(".cudalens-live .mm-curve-canvas").press("Home")
    moment = page.locator(".cudalens-live .mm-moment", has_text="Before the first action")
    moment.wait_for()
    assert "blocks" in moment.inner_text()
    assert page.locator(".cudalens-live .mm-canvas").bounding_box()["width"] > 500

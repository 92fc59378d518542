"""Live views whose kernel is restarted, beside views of the new kernel: each shows its data or says why not."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_traces import gpu_trace

from cudalens.views import assets
from cudalens.views.sections.page import facts
from cudalens.views.timeline import payload

SCRIPT = """
import widget from "/js/widget.js";

const bytes = async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer());
const { facts, versions } = await (await fetch("/state")).json();
const columns = await bytes("/columns");

// A model as Jupyter's: a kernel of `process` answers it, or never does.
window.open_ = (process, { answers, hasColumns }) => {
  const state = { _facts: facts, _versions: versions, _picture: "", _marks: [], _errors: [], _process: process };
  state._ready = hasColumns ? { payload: columns } : {};
  const listeners = {};
  const emit = (type, ...parts) => [...(listeners[type] ?? [])].forEach((listener) => listener(...parts));
  const model = {
    get: (name) => state[name],
    set: (name, value) => { state[name] = value; },
    save_changes() {},
    on: (type, listener) => (listeners[type] ??= new Set()).add(listener),
    off: (type, listener) => listeners[type]?.delete(listener),
    async send({ id, want }) {
      if (answers) emit("msg:custom", { id }, [(await bytes(want === "payload" ? "/columns" : `/${want}`)).buffer]);
    },
  };
  const el = document.createElement("div");
  document.body.append(el);
  return { el, emit, close: widget.render({ model, el }) };
};
window.isReady = true;
"""
BUSY = "window.first = open_('old', { answers: false, hasColumns: true })"
FREE = "window.second = open_('new', { answers: true, hasColumns: true })"


@pytest.fixture
def page(module_page):
    """A page with `open_`, which opens a live view."""
    trace = gpu_trace()
    state = {"facts": facts(trace), "versions": assets.library_versions()}
    files = {f"/{name}": assets.library(name) for name in assets.LIBRARIES}
    files |= {"/state": json.dumps(state).encode(), "/columns": payload.pack(trace)}
    return module_page(SCRIPT, files)


def test_a_view_of_the_new_kernel_does_not_wait_for_the_old_one(page):
    page.evaluate(f"() => {{ {BUSY}; }}")
    page.wait_for_selector(".cudalens[data-state=painted]")
    page.evaluate(f"() => {{ {FREE}; }}")
    page.wait_for_selector(".cudalens[data-state=ready] .cl-table-host tbody tr")


def test_views_of_one_kernel_wait_for_one_answer(page):
    page.evaluate(f"() => {{ {BUSY}; {BUSY.replace('first', 'third')}; {FREE}; {FREE.replace('second', 'fourth')}; }}")
    page.wait_for_function("() => document.querySelectorAll('.cudalens[data-state=ready]').length === 2")
    assert page.locator(".cudalens[data-state=painted]").count() == 2


def test_a_view_without_an_answer_says_that_its_kernel_was_restarted(page):
    page.evaluate(f"() => {{ {BUSY}; }}")
    page.wait_for_selector(".cudalens[data-state=painted]")
    page.evaluate("() => window.first.emit('comm_live_update')")
    message = page.locator(".cl-message p").first
    message.wait_for()
    assert message.inner_text() == "The table cannot be shown: the kernel was restarted; run the cell again"
    assert page.locator(".cl-timeline canvas").first.is_visible()


def test_the_curve_is_refused_once_the_kernel_was_restarted(page):
    page.evaluate(f"() => {{ {FREE}; }}")
    page.wait_for_selector(".cudalens[data-state=ready]")
    page.evaluate("() => window.second.emit('comm_live_update')")
    page.locator(".cl-memory").scroll_into_view_if_needed()
    message = page.locator(".cl-message")
    message.wait_for()
    assert message.inner_text() == "The memory curve cannot be shown: the kernel was restarted; run the cell again"


def test_a_view_without_data_keeps_its_picture(page):
    page.evaluate("() => { window.first = open_('old', { answers: false, hasColumns: false }); }")
    page.evaluate("() => window.first.emit('comm_live_update')")
    note = page.locator(".cl-live-note")
    note.wait_for()
    assert note.inner_text().startswith("The kernel was restarted before this view had its data.")
    assert page.locator(".cl-message").is_hidden()

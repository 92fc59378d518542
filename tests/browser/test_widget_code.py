"""The code of a widget in the page: it arrives once the view is made, and widgets share one copy of it."""

import json

CODE = "export default { render({ el }) { el.textContent = 'drawn'; return () => {}; } };"
SCRIPT = f"""
import loader from "/js/loader.js";

function createModel() {{
  const state = {{ _bundle: "", _bundle_id: "1" }};
  const listeners = new Set();
  return {{
    get: (name) => state[name],
    set(name, value) {{ state[name] = value; for (const listener of listeners) listener(); }},
    on: (_, listener) => listeners.add(listener),
    off: (_, listener) => listeners.delete(listener),
  }};
}}

window.views = [1, 2, 3].map(() => ({{ model: createModel(), el: document.createElement("div") }}));
window.drawn = Promise.all(window.views.map(loader.render));
const message = JSON.stringify({{ code: "/*the code of a widget*/" + {json.dumps(CODE)} + "//".padEnd(50_000, "x") }});
window.isEmpty = window.views.every(({{ el }}) => el.textContent === "");
for (const {{ model }} of window.views) model.set("_bundle", JSON.parse(message).code);
window.isReady = true;
"""


def test_views_are_drawn_when_the_code_arrives(module_page):
    page = module_page(SCRIPT)
    assert page.evaluate("window.isEmpty")
    page.evaluate("() => window.drawn.then(() => null)")
    assert page.evaluate("window.views.map(({ el }) => el.textContent)") == ["drawn"] * 3


def test_widgets_keep_their_state_and_share_one_copy_of_the_code(module_page):
    page = module_page(SCRIPT)
    page.evaluate("() => window.drawn.then(() => null)")
    assert page.evaluate("window.views.every(({ model }) => model.get('_bundle').length > 50_000)")
    assert len([text for text in strings_in_memory(page) if text.startswith("/*the code of a widget*/")]) == 1


def strings_in_memory(page):
    """The beginnings of the long strings that JavaScript keeps."""
    session, parts = page.context.new_cdp_session(page), []
    session.on("HeapProfiler.addHeapSnapshotChunk", lambda event: parts.append(event["chunk"]))
    session.send("HeapProfiler.enable")
    session.send("HeapProfiler.collectGarbage")
    session.send("HeapProfiler.takeHeapSnapshot", {"reportProgress": False})
    session.detach()
    snapshot = json.loads("".join(parts))
    meta, nodes = snapshot["snapshot"]["meta"], snapshot["nodes"]
    fields, types = meta["node_fields"], meta["node_types"][0]
    kinds, names, sizes = (nodes[fields.index(field) :: len(fields)] for field in ("type", "name", "self_size"))
    return [
        snapshot["strings"][name]
        for kind, name, size in zip(kinds, names, sizes, strict=True)
        if types[kind] == "string" and size > 10_000
    ]

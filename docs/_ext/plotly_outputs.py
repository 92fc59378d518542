"""Draw the saved Plotly outputs of notebooks with the JavaScript of the installed plotly package, without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plotly
from sphinx.application import Sphinx

MIME = "application/vnd.plotly.v1+json"
SCRIPT = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


def draw(output: dict[str, Any]) -> None:
    """Replace a Plotly output by HTML that draws it; the saved table remains below the picture."""
    import plotly.io

    figure = output["data"].pop(MIME)
    picture = plotly.io.to_html(
        {"data": figure["data"], "layout": figure["layout"]}, full_html=False, include_plotlyjs=False, validate=False
    )
    output["data"]["text/html"] = [picture, *output["data"].get("text/html", [])]


def prepare_notebook(app: Sphinx, docname: str, source: list[str]) -> None:
    """Rewrite the Plotly outputs of one notebook before MyST reads it."""
    if MIME not in source[0] or Path(app.env.doc2path(docname)).suffix != ".ipynb":
        return
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if MIME in output.get("data", {}):
                draw(output)
    source[0] = json.dumps(notebook)


def add_script(app: Sphinx, pagename: str, *_: Any) -> None:
    """Load plotly on the pages of notebooks only: the script has 5 MB."""
    if pagename.startswith("notebooks/"):
        app.add_js_file(SCRIPT.name)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.config.html_static_path.append(str(SCRIPT))
    app.connect("source-read", prepare_notebook)
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

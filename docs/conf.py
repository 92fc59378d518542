"""Sphinx configuration. `make docs` builds the site into out/docs; nothing here needs the network.

The source folder is the root of the repository, so that a relative link works both on GitHub and on the site.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cudalens import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "cudalens"
author = "The cudalens developers"
copyright = author
release = version = __version__

extensions = ["myst_nb", "plotly_outputs", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = ["docs/**", "notebooks/*.ipynb", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = [
    ".*",
    "**/.ipynb_checkpoints",
    "docs/_*",
    "node_modules",
    "build",
    "dist",
    "out",
    "cudalens",
    "tests",
]

# In docstrings, text in single backticks is code, as in Markdown.
default_role = "code"

myst_heading_anchors = 3
nb_execution_mode = "off"  # the saved outputs are shown; tests/integration runs the notebooks
nb_merge_streams = True

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"cudalens {release}"
html_static_path = ["_static"]
html_css_files = ["wide_tables.css"]
html_extra_path = ["_extra"]
html_copy_source = False

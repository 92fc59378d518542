import gzip
import re
import shutil
import subprocess
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from cudalens.views import assets

STATIC = Path(str(files("cudalens.views"))) / "static"
MODULES = sorted(path.name for path in STATIC.glob("*.js"))
TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function\*?|const|let|class)\s+(?:\[|\{)?\s*(\w+)", re.MULTILINE)


def test_top_level_names_are_unique_across_the_modules():
    names = Counter(name for module in MODULES for name in TOP_LEVEL.findall((STATIC / module).read_text()))
    assert [name for name, number in names.items() if number > 1] == []


@pytest.mark.parametrize("entry", ["widget.js", "report.js"])
def test_joined_text_needs_no_other_module(entry):
    text = assets.module_text(entry)
    assert not re.search(r"^import\b", text, re.MULTILINE)
    assert text.count("export default") == (entry == "widget.js")
    assert not re.search(r"^export (?!default)", text, re.MULTILINE)
    assert text.count("function createApp(") == 1


@pytest.mark.parametrize("entry", ["widget.js", "report.js"])
def test_joined_text_is_a_valid_module(entry):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on the path to check the syntax with")
    done = subprocess.run(
        [node, "--check", "--input-type=module", "-"], input=assets.module_text(entry), text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("entry", ["widget.js", "report.js"])
def test_joined_text_cannot_end_its_script_element(entry):
    assert "</script" not in assets.module_text(entry).lower()
    assert "<!--" not in assets.module_text(entry)


@pytest.mark.parametrize("entry", MODULES)
def test_modules_reach_for_nothing_outside(entry):
    text = (STATIC / entry).read_text()
    assert not re.search(
        r"\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write|XMLHttpRequest|\bfetch\(", text
    )
    assert not re.search(r"https?://(?!www\.w3\.org)", text)


def test_a_module_that_cannot_be_joined_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.js").write_text('import { b } from "./b.js";\nexport default b;\n')
    (tmp_path / "b.js").write_text("const b = 1;\nexport { b };\n")
    monkeypatch.setattr(assets, "_static", lambda name: (tmp_path / name).read_text())
    with pytest.raises(ValueError, match=r"static/b\.js: joining does not understand 'export'"):
        assets.module_text.__wrapped__("a.js")


def test_imports_in_a_circle_are_refused(tmp_path, monkeypatch):
    (tmp_path / "a.js").write_text('import { b } from "./b.js";\n')
    (tmp_path / "b.js").write_text('import { a } from "./a.js";\n')
    monkeypatch.setattr(assets, "_static", lambda name: (tmp_path / name).read_text())
    with pytest.raises(ValueError, match=r"static/a\.js imports itself"):
        assets.module_text.__wrapped__("a.js")


@pytest.mark.parametrize("name", assets.LIBRARIES)
def test_libraries_are_compressed_the_same_each_time(name):
    assert assets.library(name) == assets.library.__wrapped__(name)
    assert len(gzip.decompress(assets.library(name))) > 3 * len(assets.library(name))


def test_vendored_plotly_is_the_version_that_its_note_says():
    text = gzip.decompress(assets.library("plotly.js"))[:200].decode()
    assert f"v{assets.PLOTLY_VERSION}" in text
    assert assets.PLOTLY_VERSION in (STATIC / "vendor" / "README.md").read_text()


def test_our_style_stays_in_our_elements():
    style = re.sub(r"/\*.*?\*/", "", assets.style_text(), flags=re.DOTALL)
    selectors = re.findall(r"(?:^|[}{;])\s*([^@{};]+)\{", style)
    assert selectors
    for selector in selectors:
        parts = re.split(r",(?![^(]*\))", selector)  # commas within :is(…) part nothing
        assert all(part.strip().startswith(".cudalens") for part in parts), selector

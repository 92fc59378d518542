import gzip
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from cudalens.views import assets

VIEWS = Path(str(files("cudalens.views")))
SOURCES = sorted(path.relative_to(VIEWS).as_posix() for path in (VIEWS / "js").rglob("*.js"))
BUNDLES = ["loader.js", "widget.js", "report.js", "gauges.js", "watch.js"]


def test_there_is_a_bundle_for_each_entry_module():
    assert sorted(path.name for path in (VIEWS / "js").glob("*.js")) == sorted(BUNDLES)
    assert sorted(path.name for path in (VIEWS / "static").glob("*.js")) == sorted(BUNDLES)


@pytest.mark.parametrize("entry", BUNDLES)
def test_a_bundle_needs_no_other_module(entry):
    text = assets.module_text(entry)
    assert not re.search(r"^import\b", text, re.MULTILINE)
    assert not re.search(r"\bfrom\s+[\"']\.", text)
    exported = re.findall(r"\bexport\{([^}]*)\};?\n", text)
    assert [name.split(" as ")[-1] for name in exported] == ([] if entry == "report.js" else ["default"])


@pytest.mark.parametrize("entry", BUNDLES)
def test_a_bundle_is_a_valid_module(entry):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on the path to check the syntax with")
    done = subprocess.run(
        [node, "--check", "--input-type=module", "-"], input=assets.module_text(entry), text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("entry", BUNDLES)
def test_a_bundle_needs_one_byte_per_character_in_the_page(entry):
    assert [c for c in assets.module_text(entry) if ord(c) > 255] == []


@pytest.mark.parametrize("entry", BUNDLES)
def test_a_bundle_cannot_end_its_script_element(entry):
    assert "</script" not in assets.module_text(entry).lower()
    assert "<!--" not in assets.module_text(entry)


@pytest.mark.parametrize("path", [*SOURCES, *(f"static/{entry}" for entry in BUNDLES)])
def test_modules_reach_for_nothing_outside(path):
    text = (VIEWS / path).read_text()
    assert not re.search(
        r"\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write|XMLHttpRequest|\bfetch\(", text
    )
    assert not re.search(r"https?://(?!www\.w3\.org)", text)


@pytest.mark.parametrize("name", assets.LIBRARIES)
def test_libraries_are_compressed_the_same_each_time(name):
    assert assets.library(name) == assets.library.__wrapped__(name)
    assert len(gzip.decompress(assets.library(name))) > 3 * len(assets.library(name))


def test_vendored_plotly_is_the_version_that_its_note_states():
    text = gzip.decompress(assets.library("plotly.js"))[:200].decode()
    assert f"v{assets.PLOTLY_VERSION}" in text
    assert assets.PLOTLY_VERSION in (VIEWS / "static" / "vendor" / "README.md").read_text()


def test_our_style_stays_in_our_elements():
    style = re.sub(r"/\*.*?\*/", "", assets.style_text(), flags=re.DOTALL)
    selectors = re.findall(r"(?:^|[}{;])\s*([^@{};]+)\{", style)
    assert selectors
    for selector in selectors:
        parts = re.split(r",(?![^(]*\))", selector)  # commas within :is(…) part nothing
        assert all(part.strip().startswith(".cudalens") for part in parts), selector

"""Playwright's event loop stops after the last test of this folder, so later tests in the same process can run one."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNS_A_LOOP = "import asyncio\ndef test_loop():\n    assert asyncio.run(asyncio.sleep(0, 'slept')) == 'slept'\n"


def test_a_page_opens(browser):
    page = browser.new_page()
    page.goto("data:text/html,<p>hello</p>")
    assert page.inner_text("p") == "hello"
    page.close()


def test_a_test_after_the_browser_tests_can_run_an_event_loop(browser, tmp_path):
    (later := tmp_path / "test_later.py").write_text(RUNS_A_LOOP)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        ROOT,
        "-c",
        ROOT / "pyproject.toml",
    ]
    order = [f"{__file__}::test_a_page_opens", later]
    found = subprocess.run([*command, *order], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "2 passed" in found.stdout, found.stdout + found.stderr

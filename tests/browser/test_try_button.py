"""The button under a finding in a real JupyterLab: it runs the cell again, shows progress, the answer and the diff."""

import os
from pathlib import Path

import pytest

import cudalens

from .test_lab import page as page

SETUP = """%load_ext cudalens
%cudadevice virtual h100
import torch
x = torch.randn(256, 256, device="cuda")
torch.set_float32_matmul_precision("high")"""
CELL = """%%cudaprofile tried
losses = []
for step in range(12):
    torch.cuda._sleep(200_000)
    losses.append((x * step).relu().mean().item())  # one value a step"""
AFTER = "print(len(losses), sorted(name for name in globals() if name.startswith('_losses')))"
LONG_MS = 120_000  # the first cell imports torch, pandas and the widgets
APP = ".jp-OutputArea-output .cudalens[data-state=ready]"
ROW = f"{APP} .cudalens-findings tbody tr:has-text('waiting for the GPU')"
ANSWER = f"{APP} tr.cl-tried"
#: CUDALENS_SCREENSHOTS=FOLDER also writes screenshots there.
SHOTS = os.environ.get("CUDALENS_SCREENSHOTS")


def use_theme(page, theme):
    page.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme }).then(() => null)", theme
    )


def shoot(page, name):
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))


@pytest.fixture
def tried(lab, page):
    """A notebook at 800 px whose cell was profiled."""
    size = page.viewport_size
    page.set_viewport_size({"width": 800, "height": 900})
    lab.end_kernels()
    lab.write_notebook("try.ipynb", SETUP, CELL, AFTER)
    lab.open(page, "try.ipynb")
    lab.wait_for_kernel(page)
    lab.command(page, "notebook:run-all-cells")
    page.wait_for_selector(APP, timeout=LONG_MS)
    yield page
    use_theme(page, "JupyterLab Light")
    page.set_viewport_size(size)


def test_the_button_runs_the_cell_with_the_fix(lab, tried):
    page = tried
    button = page.locator(ROW).get_by_role("button", name="Try it")
    button.scroll_into_view_if_needed()
    # Every text of the row of the answer, as it comes.
    page.evaluate(
        """() => {
            window.shown = [];
            new MutationObserver(() => {
                const text = document.querySelector(".cl-try-progress")?.textContent;
                if (text && window.shown.at(-1) !== text) window.shown.push(text);
            }).observe(document.body, { childList: true, subtree: true, characterData: true });
        }"""
    )
    button.click()
    page.wait_for_selector(f"{ANSWER} .cl-diff", timeout=LONG_MS)
    answer = page.locator(ANSWER)
    assert "results equal bit for bit" in answer.inner_text()
    assert "a run (modelled)" in answer.inner_text()
    shown = page.evaluate("() => window.shown")
    assert any("Measuring: " in text and "of 3" in text for text in shown), shown
    added = page.locator(f"{ANSWER} .cl-added").all_inner_texts()
    assert any("_losses_values.append((x * step).relu().mean().detach())" in line for line in added)
    assert page.locator(f"{APP} .cudalens-findings tr[data-chosen]").count() == 0  # the button selects no row
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        use_theme(page, theme)
        page.wait_for_timeout(300)
        answer.scroll_into_view_if_needed()
        shoot(page, f"try-{theme.split()[-1].lower()}")
    overflow = page.evaluate(
        f"() => {{ const one = document.querySelector({ANSWER!r}); return one.scrollWidth - one.clientWidth; }}"
    )
    assert overflow <= 0
    widths = [page.locator(one).first.bounding_box()["width"] for one in (f"{ANSWER} .cl-diff", f"{APP} table")]
    assert widths[0] > 0.8 * widths[1]
    page.locator(ROW).get_by_role("button", name="Try again").click()
    page.wait_for_selector(f"{ANSWER} .cl-diff", timeout=LONG_MS)
    assert page.locator(ANSWER).count() == 1


def test_a_report_has_no_button(offline_page, tmp_path):
    with cudalens.virtual.device("h100"):
        import torch

        x = torch.ones(500, 500, device="cuda")
        with cudalens.profile("findings", keep=False) as run:
            for _ in range(20):
                (x @ x).sum().item()
    offline_page.goto(run.trace.to_html(tmp_path / "report.html").as_uri())
    offline_page.wait_for_selector(".cudalens[data-state=ready]")
    assert offline_page.locator(".cudalens-findings tbody tr").count()
    assert offline_page.get_by_role("button", name="Try it").count() == 0
    assert "%cudaprofile try N" in offline_page.locator("#cudalens-app .cl-find-note").first.inner_text()

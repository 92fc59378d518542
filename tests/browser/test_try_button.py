"""The button under a finding in a real JupyterLab: it runs the cell again, shows progress, the answer and the diff."""

import os
from pathlib import Path

import pytest

import cudalens

from .test_lab import page as page

SETUP = """%load_ext cudalens
from pathlib import Path
%cudadevice virtual h100
import torch
x = torch.randn(256, 256, device="cuda")
torch.set_float32_matmul_precision("high")"""
CELL = """%%cudaprofile tried
losses = []
for step in range(12):
    torch.cuda._sleep(200_000)
    losses.append((x * step).relu().mean().item())  # one value a step"""
WRITES = """%%cudaprofile writes
losses = []
for step in range(12):
    torch.cuda._sleep(200_000)
    losses.append((x * step).relu().mean().item())
Path("try.log").write_text(str(losses))"""
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
    yield from notebook_with(lab, page, CELL)


@pytest.fixture
def writing(lab, page):
    """The same, with a cell that writes a file."""
    yield from notebook_with(lab, page, WRITES)


def notebook_with(lab, page, cell):
    size = page.viewport_size
    page.set_viewport_size({"width": 800, "height": 900})
    lab.end_kernels()
    lab.write_notebook("try.ipynb", SETUP, cell, AFTER if cell is CELL else "")
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


def test_all_findings_end_in_one_table_and_one_diff(lab, tried):
    page, answer = tried, tried.locator(f"{APP} .cl-tried-all")
    page.get_by_role("button", name="Try all").click()
    page.wait_for_function(
        "() => /Finding [0-9] of [0-9]\\. /.test(document.querySelector('.cl-try-progress')?.textContent ?? '')",
        timeout=LONG_MS,
    )
    shoot(page, "try-all-progress")
    page.wait_for_selector(f"{APP} .cl-tried-all .cl-diff", timeout=LONG_MS)
    rows = answer.locator("tbody tr").all_inner_texts()
    assert any("host_sync" in row and "kept" in row for row in rows)
    assert "together" in rows[-1]
    assert answer.locator(".cl-diff").count() == 1
    assert "_losses_values" in answer.locator(".cl-diff").inner_text()
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        use_theme(page, theme)
        page.wait_for_timeout(300)
        answer.scroll_into_view_if_needed()
        shoot(page, f"try-all-{theme.split()[-1].lower()}")
    overflow = answer.evaluate("one => one.scrollWidth - one.clientWidth")
    assert overflow <= 0
    assert page.get_by_role("button", name="Try all again").count() == 1


def test_effects_are_listed_before_the_first_run(lab, writing):
    page, answer = writing, writing.locator(f"{APP} .cl-tried-all")
    page.get_by_role("button", name="Try all").click()
    page.wait_for_selector(f"{APP} .cl-try-consent", timeout=LONG_MS)
    assert "Each run writes files: Path('try.log').write_text (line 6 of In[2])" in answer.inner_text()
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        use_theme(page, theme)
        page.wait_for_timeout(300)
        answer.scroll_into_view_if_needed()
        shoot(page, f"try-all-consent-{theme.split()[-1].lower()}")
    page.get_by_role("button", name="Cancel").click()
    assert answer.inner_text() == ""
    page.get_by_role("button", name="Try all").click()
    page.locator(f"{APP} .cl-try-consent").click()
    page.wait_for_function(
        f"() => !document.querySelector({APP!r}).querySelector('.cl-try-consent, .cl-try-progress')", timeout=LONG_MS
    )
    assert "results equal bit for bit" in answer.inner_text()


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

"""The list of findings in a real browser: in the report, and what a row selects."""

import pytest
import torch

import cudalens

READY = ".cudalens[data-state=ready]"
ROWS = "#cudalens-app .cudalens-findings tbody tr"


@pytest.fixture(scope="module")
def trace():
    with cudalens.virtual.device("h100"):
        x = torch.ones(2000, 2000, device="cuda")
        with cudalens.profile("findings", keep=False) as run:
            for _ in range(20):
                (x @ x).sum().item()
    return run.trace


@pytest.fixture
def page(offline_page, trace, tmp_path):
    offline_page.goto(trace.to_html(tmp_path / "report.html").as_uri())
    offline_page.wait_for_selector(READY)
    return offline_page


def test_the_list_is_there_with_and_without_scripts(page, trace):
    number = len(cudalens.analysis.findings(trace))
    assert number >= 1
    assert page.locator(ROWS).count() == number
    assert page.locator("#cudalens-static .cudalens-findings tbody tr").count() == number


@pytest.mark.parametrize("by_keyboard", [False, True])
def test_a_row_selects_an_event_that_shows_it(page, trace, by_keyboard):
    row = page.locator(ROWS).first
    if by_keyboard:
        row.focus()
        page.keyboard.press("Enter")
    else:
        row.click()
    assert row.get_attribute("data-chosen") == ""
    event = int(row.get_attribute("data-event"))
    page.wait_for_selector("#cudalens-app .cl-details:not([hidden])")
    name = trace.events["name"].iloc[event]
    assert str(name) in page.locator("#cudalens-app .cl-details").inner_text()

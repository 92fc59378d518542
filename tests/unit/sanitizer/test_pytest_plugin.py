"""The pytest plugin, in pytest runs of their own."""

from importlib.metadata import entry_points

import pytest
import torch

import cudalens
import cudalens.virtual
from cudalens.sanitizer import RaceWarning

pytest_plugins = "pytester"

IS_INSTALLED = any(point.value == "cudalens.pytest_plugin" for point in entry_points(group="pytest11"))
PLUGIN = () if IS_INSTALLED else ("-p", "cudalens.pytest_plugin")

HEAD = """
import pytest
import torch
import cudalens.virtual

@pytest.fixture(autouse=True)
def gpu():
    with cudalens.virtual.device("h100"):
        yield

def race():
    side = torch.cuda.Stream()
    a = torch.ones(64, device="cuda")
    with torch.cuda.stream(side):
        a.mul_(2)
"""


@pytest.fixture(scope="module")
def imported():
    """Runs within this process put sys.modules back, and torch cannot be imported twice: all of it is there before."""
    with cudalens.virtual.device("h100"), cudalens.sanitize(on_race="warn") as san:
        a = torch.ones(64, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()), pytest.warns(RaceWarning):
            a.mul_(2)
        assert str(san.trace().summary())


@pytest.fixture
def run(pytester, imported):
    def run(body, *arguments):
        pytester.makepyfile(HEAD + body)
        return pytester.runpytest(*PLUGIN, "-p", "no:xdist", "--strict-markers", *arguments)

    return run


def test_a_test_that_races_fails_with_the_report_and_the_fix(run):
    result = run("def test_step(cudasan):\n    race()\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*1 race", "*write after write*", "*+    side.wait_stream(torch.cuda.current_stream())"]
    )


def test_a_test_without_races_passes(run):
    run("def test_step(cudasan):\n    assert torch.ones(2, device='cuda').sum() == 2\n").assert_outcomes(passed=1)


def test_without_the_fixture_nothing_is_watched(run):
    body = "def test_step():\n    race()\n    from cudalens.sanitizer import running\n    assert not running()\n"
    run(body).assert_outcomes(passed=1)


def test_the_marker_and_the_option_ask_for_the_fixture(run):
    marked = "@pytest.mark.cudasan\ndef test_marked():\n    race()\ndef test_plain():\n    race()\n"
    run(marked).assert_outcomes(failed=1, passed=1)
    run(marked, "--cudasan").assert_outcomes(failed=2)


@pytest.mark.parametrize(
    ("options", "outcomes"),
    [
        ("on_race='raise'", {"failed": 1}),
        ("detect='use_after_free'", {"passed": 1}),
        ("suppress='aten::mul_'", {"passed": 1}),
        ("on_race='warn'", {"passed": 1, "warnings": 1}),
    ],
)
def test_the_marker_gives_the_options(run, options, outcomes):
    run(f"@pytest.mark.cudasan({options})\ndef test_step(cudasan):\n    race()\n").assert_outcomes(**outcomes)


def test_the_closest_marker_wins(run):
    body = "pytestmark = pytest.mark.cudasan(detect='host')\n@pytest.mark.cudasan(detect='write_after_write')\n"
    run(body + "def test_step():\n    race()\ndef test_other():\n    race()\n").assert_outcomes(failed=1, passed=1)


def test_races_that_are_expected_can_be_cleared_or_caught(run):
    body = """
def test_cleared(cudasan):
    race()
    assert len(cudasan.races) == 1
    cudasan.clear()

@pytest.mark.cudasan(on_race="raise")
def test_caught():
    with pytest.raises(cudalens.RaceError):
        race()
"""
    run(body).assert_outcomes(passed=2)


def test_a_test_that_fails_keeps_its_own_error_and_shows_its_races(run):
    result = run("def test_step(cudasan):\n    race()\n    assert 1 == 2\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *assert 1 == 2", "*stream races*", "*1 race"])


def test_a_wrong_marker_states_what_is_expected(run):
    for options in ("on_rac='warn'", "'warn'"):
        result = run(f"@pytest.mark.cudasan({options})\ndef test_step():\n    pass\n")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*test_step: the marker cudasan has *; expected any of *'on_race'*"])


def test_loading_it_imports_nothing_heavy(pytester):
    pytester.makepyfile(
        "import sys\n"
        "def test_modules():\n"
        "    assert 'cudalens.pytest_plugin' in sys.modules\n"
        "    assert not {'torch', 'numpy', 'pandas', 'IPython'} & set(sys.modules)\n"
    )
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)


def test_suppressions_that_match_no_race_of_the_run_are_listed_once(run):
    marker = "@pytest.mark.cudasan(suppress=['aten::mul_', 'aten::ad'])\n"
    result = run(f"{marker}def test_races(): race()\n{marker}def test_clean(): pass\n")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["cudasan: these suppressions match no race: 'aten::ad'"])
    assert result.stdout.str().count("match no race") == 1

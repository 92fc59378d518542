"""The pytest plugin: the fixture ``cudasan`` checks a test for stream races, and fails a test that has one.

::

    def test_step(cudasan):
        train_step()

    @pytest.mark.cudasan(detect=["use_after_free"])
    def test_loader():
        ...

The marker implies the fixture; ``pytest --cudasan`` adds it to all tests. Only this module is imported before the first
of these tests runs. Suppressions that match no race of the whole run are listed at its end.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from cudalens.sanitizer import Sanitizer

FIXTURE: Final = "cudasan"
_MARKER: Final = (
    "cudasan(on_race='collect', detect=None, stack_depth=…, suppress=(), suppress_file=None): check the test for "
    "stream races, as cudalens.sanitize does; with 'collect' a test with a race fails at its end"
)
_OPTIONS: Final = frozenset({"on_race", "detect", "stack_depth", "suppress", "suppress_file"})
_KEY: Final = pytest.StashKey["Sanitizer"]()

#: Each suppression of the run, and whether it matched a race.
_SUPPRESSIONS: Final = pytest.StashKey[dict[str, bool]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--cudasan``."""
    group = parser.getgroup("cudalens")
    group.addoption("--cudasan", action="store_true", help="check every test for stream races (cudalens)")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Adds the fixture to tests with the marker."""
    names: list[str] | None = getattr(item, "fixturenames", None)
    if names is None or FIXTURE in names:
        return
    if item.config.getoption("--cudasan") or item.get_closest_marker("cudasan"):
        names.insert(0, FIXTURE)


@pytest.fixture
def cudasan(request: pytest.FixtureRequest) -> Generator[Sanitizer, None, None]:
    """Checks the test for stream races: a `cudalens.sanitizer.Sanitizer` that is on.

    A test with a race fails at its end, with the report. ``cudasan.clear()`` discards races that are expected. The
    marker ``cudasan`` gives the options of `cudalens.sanitize`.
    """
    import warnings

    import cudalens
    from cudalens.sanitizer import SuppressionWarning

    sanitizer = cudalens.sanitize(**_options(request.node))
    request.node.stash[_KEY] = sanitizer
    sanitizer.start()
    yield sanitizer
    known = request.config.stash.setdefault(_SUPPRESSIONS, {})
    unused = sanitizer.unused_suppressions()
    for pattern in sanitizer.suppressions:
        known[pattern] = known.get(pattern, False) or pattern not in unused
    with warnings.catch_warnings():  # a pattern may match in another test
        warnings.simplefilter("ignore", SuppressionWarning)
        sanitizer.__exit__(None, None, None)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Lists the suppressions that match no race of the run."""
    unused = [pattern for pattern, is_used in config.stash.get(_SUPPRESSIONS, {}).items() if not is_used]
    if unused:
        terminalreporter.write_line(f"cudasan: these suppressions match no race: {', '.join(map(repr, unused))}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fails a test that passed with a race; adds the races to the report of a test that failed."""
    try:
        result = yield
    except BaseException:
        if text := _report(item):
            item.add_report_section("call", "stream races", text)
        raise
    text = _report(item) if _options(item).get("on_race", "collect") == "collect" else ""
    if text:
        pytest.fail(text, pytrace=False)
    return result


def _options(node: Any) -> dict[str, Any]:
    """Options of the markers; the closest marker wins."""
    found: dict[str, Any] = {}
    for marker in node.iter_markers("cudasan"):
        unknown = marker.kwargs.keys() - _OPTIONS
        if marker.args or unknown:
            what = f"has {sorted(unknown)}" if unknown else f"has {marker.args!r} without a name"
            raise pytest.UsageError(f"{node.nodeid}: the marker cudasan {what}; expected any of {sorted(_OPTIONS)}")
        found = marker.kwargs | found
    return found


def _report(item: pytest.Item) -> str:
    """Return the races of a checked test as text; empty if there are none."""
    sanitizer = item.stash.get(_KEY, None)
    if sanitizer is None or not sanitizer.races:
        return ""
    return str(sanitizer.trace(item.name).summary())

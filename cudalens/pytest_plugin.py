"""The pytest plugin: the fixture ``cudasan`` watches a test for stream races, and fails the test that has one.

::

    def test_step(cudasan):
        train_step()

    @pytest.mark.cudasan(detect=["use_after_free"])
    def test_loader():
        ...

The marker asks for the fixture by itself; ``pytest --cudasan`` does so for all tests. Nothing but this module is
imported before the first of these tests runs.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from cudalens.sanitizer import Sanitizer

FIXTURE: Final = "cudasan"
_MARKER: Final = (
    "cudasan(on_race='collect', detect=None, stack_depth=…, suppress=(), suppress_file=None): watch the test for "
    "stream races, as cudalens.sanitize does; with 'collect' the test fails at its end if there was one"
)
_OPTIONS: Final = frozenset({"on_race", "detect", "stack_depth", "suppress", "suppress_file"})
_KEY: Final = pytest.StashKey["Sanitizer"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--cudasan``."""
    group = parser.getgroup("cudalens")
    group.addoption("--cudasan", action="store_true", help="watch every test for stream races (cudalens)")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests that are marked have the fixture."""
    names: list[str] | None = getattr(item, "fixturenames", None)
    if names is None or FIXTURE in names:
        return
    if item.config.getoption("--cudasan") or item.get_closest_marker("cudasan"):
        names.insert(0, FIXTURE)


@pytest.fixture
def cudasan(request: pytest.FixtureRequest) -> Generator[Sanitizer, None, None]:
    """Watches the test for stream races: a `cudalens.sanitizer.Sanitizer` that is on.

    A test that has races fails when it has ended, with the report. ``cudasan.clear()`` forgets those that are expected.
    The marker ``cudasan`` gives the options of `cudalens.sanitize`.
    """
    import cudalens

    with cudalens.sanitize(**_options(request.node)) as sanitizer:
        request.node.stash[_KEY] = sanitizer
        yield sanitizer


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fails a test that went well but raced; one that failed is told of its races too."""
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
    """Options by markers, the closest first."""
    found: dict[str, Any] = {}
    for marker in node.iter_markers("cudasan"):
        unknown = marker.kwargs.keys() - _OPTIONS
        if marker.args or unknown:
            what = f"has {sorted(unknown)}" if unknown else f"has {marker.args!r} without a name"
            raise pytest.UsageError(f"{node.nodeid}: the marker cudasan {what}; expected any of {sorted(_OPTIONS)}")
        found = marker.kwargs | found
    return found


def _report(item: pytest.Item) -> str:
    """The races of a test that is watched, in text; empty where there are none."""
    sanitizer = item.stash.get(_KEY, None)
    if sanitizer is None or not sanitizer.races:
        return ""
    return str(sanitizer.trace(item.name).summary())

"""A real Chromium for the tests of this folder: offline, watched for errors, fed with our own modules.

Every test here is marked ``browser`` and skipped, with the reason printed, where playwright or Chromium is missing.
``CUDALENS_CHROMIUM`` names the executable where it is not on the path.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
VIEWS = HERE.parents[1] / "cudalens" / "views"
TYPES = {".js": "text/javascript", ".json": "application/json"}
ORIGIN = "http://cudalens.test"
#: What Playwright disables, because a second switch replaces its own; and pages for a toolbar that headless Chromium
#: does not show.
DISABLED = (
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades", "LensOverlay"),
    *("HttpsFirstBalancedModeAutoEnable", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning"),
    *("AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints", "NetworkTimeServiceQuerying", "PreconnectToSearch"),
    *("PreloadTopChromeWebUI", "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "WebUIToolbar"),
)
LAUNCH_ARGUMENTS = ["--no-sandbox", "--disable-gpu", f"--disable-features={','.join(DISABLED)}"]
#: The headless shell needs half the CPU time of the whole browser.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_MS = 30_000


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


def chromium_path() -> str | None:
    """The Chromium to drive: what CUDALENS_CHROMIUM names, else the first known name on the path."""
    named = os.environ.get("CUDALENS_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="package")
def browser():
    """A headless Chromium for all tests of this folder.

    Playwright runs an event loop in the thread of the tests. The package scope stops it before the first test of
    another folder, which may need a loop of its own.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium_path()
    if path is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} on the path, and CUDALENS_CHROMIUM is not set")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=LAUNCH_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def lab(tmp_path_factory):
    """One JupyterLab for all tests of this folder."""
    if find_spec("jupyterlab") is None:
        pytest.skip("JupyterLab is not installed (the extra 'lab')")
    from .lab import running_lab  # needs nbformat

    root = tmp_path_factory.mktemp("lab")
    (root / "notebooks").mkdir()
    with running_lab(root / "notebooks", root / "settings") as lab:
        yield lab


@pytest.fixture
def context_of(browser):
    """Makes browser contexts whose pages fail the test on any console error, warning or uncaught exception."""
    contexts, faults = [], []

    def make(**options):
        context = browser.new_context(**({"viewport": {"width": 1100, "height": 700}} | options))
        context.set_default_timeout(TIMEOUT_MS)
        context.on("weberror", lambda error: faults.append(f"uncaught: {error.error}"))
        context.on("console", lambda message: _note(faults, message))
        contexts.append(context)
        return context

    make.faults = faults
    yield make
    for context in contexts:
        context.close()
    assert not faults, "the page complained:\n" + "\n".join(faults)


def _note(faults, message):
    if message.type in ("error", "warning"):
        faults.append(f"console {message.type}: {message.text}")


@pytest.fixture
def offline_page(context_of):
    """A page without any network: every request but for file:// and data: is noted as a fault and refused."""
    context = context_of()
    context.set_offline(True)
    page = context.new_page()

    def refuse(route):
        if route.request.url.startswith(("file:", "data:", "blob:")):
            route.continue_()
        else:
            context_of.faults.append(f"asked the network for {route.request.url}")
            route.abort()

    page.route("**/*", refuse)
    return page


@pytest.fixture
def module_page(context_of):
    """Opens a page that can import our modules from /js/: ``module_page(script, files={...}, **context_options)``.

    `script` is the text of a module; the page is ready once it has set ``window.isReady``. `files` maps further paths
    to bytes. Nothing else can be fetched.
    """

    def open_page(script: str, files: dict[str, bytes] | None = None, body: str = "", **options):
        page = context_of(**options).new_page()
        html = f'<!doctype html><meta charset="utf-8"><body>{body}<script type="module">{script}</script></body>'
        served = {"/page": html.encode()} | (files or {})

        def answer(route):
            path = route.request.url.removeprefix(ORIGIN)
            if path.startswith(("/js/", "/css/")):
                file = VIEWS / path.lstrip("/")
                route.fulfill(body=file.read_bytes(), content_type=TYPES[file.suffix])
            elif path in served:
                route.fulfill(
                    body=served[path], content_type="text/html" if path == "/page" else "application/octet-stream"
                )
            else:
                route.abort() if path != "/favicon.ico" else route.fulfill(status=204)

        page.route("**/*", answer)
        page.goto(f"{ORIGIN}/page")
        page.wait_for_function("window.isReady")
        return page

    return open_page

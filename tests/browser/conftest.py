"""A real Chromium for the tests of this folder: offline, watched for errors, fed with our own modules.

Every test here is marked ``browser`` and skipped, with the reason printed, where playwright or Chromium is missing.
``CUDALENS_CHROMIUM`` names the executable where it is not on the path.
"""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from .module_server import ModuleServer

HERE = Path(__file__).parent
VIEWPORT = {"width": 1100, "height": 700}
LAB_VIEWPORT = {"width": 1300, "height": 1400}
#: What Playwright disables, because a second switch replaces its own; and pages for a toolbar that headless Chromium
#: does not show.
DISABLED = (
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades", "LensOverlay"),
    *("HttpsFirstBalancedModeAutoEnable", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning"),
    *("AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints", "NetworkTimeServiceQuerying", "PreconnectToSearch"),
    *("PreloadTopChromeWebUI", "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "WebUIToolbar"),
)
LAUNCH_ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", f"--disable-features={','.join(DISABLED)}"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",  # nothing outside this machine
]
#: The headless shell needs half the CPU time of the whole browser.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_MS = 90_000  # of a machine that does much else


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


#: JupyterLab asks for a subshell when a comm opens, and does not handle that its ipykernel ends before the reply.
_SUBSHELL_CANCELLED = "Canceled future for create_subshell_request"


@pytest.fixture(scope="package")
def lab_page(browser):
    """One page, so that JupyterLab is loaded once.

    It is watched for exceptions; JupyterLab's own console is not ours to judge.
    """
    context = browser.new_context(viewport=LAB_VIEWPORT)
    faults = []
    context.on("weberror", lambda error: faults.append(error.error.stack or str(error.error)))
    yield context.new_page()
    context.close()
    faults = [fault for fault in faults if _SUBSHELL_CANCELLED not in fault]
    assert not faults, faults


@pytest.fixture
def faults():
    """Console errors and warnings, uncaught exceptions and dialogs of the pages of a test. The test fails on any."""
    faults = []
    yield faults
    assert not faults, "the page complained:\n" + "\n".join(faults)


@contextmanager
def watched(context, faults):
    """Note in `faults` what the pages of `context` complain of, and any dialog that they open."""
    handlers = {
        "weberror": lambda error: faults.append(f"uncaught: {error.error}"),
        "console": lambda message: _note(faults, message),
        "dialog": lambda dialog: (faults.append(f"a dialog opened: {dialog.message}"), dialog.dismiss()),
    }
    for event, handler in handlers.items():
        context.on(event, handler)
    yield context
    for event, handler in handlers.items():
        context.remove_listener(event, handler)


def _note(faults, message):
    if message.type in ("error", "warning"):
        faults.append(f"console {message.type}: {message.text}")


@contextmanager
def lent(page, faults):
    """Watch a page that several tests use one after another, and reset what a test sets."""
    with watched(page.context, faults):
        yield page
        page.goto("about:blank")
    page.mouse.move(-10, -10)
    page.emulate_media(media="null", color_scheme="null")
    page.set_viewport_size(VIEWPORT)


@pytest.fixture
def context_of(browser, faults):
    """Makes browser contexts whose pages fail the test on any console error, warning or uncaught exception."""
    with ExitStack() as stack:

        def make(**options):
            context = stack.enter_context(watched(browser.new_context(**({"viewport": VIEWPORT} | options)), faults))
            stack.callback(context.close)
            context.set_default_timeout(TIMEOUT_MS)
            return context

        yield make


@pytest.fixture(scope="package")
def reused_pages(browser):
    """Makes pages for all tests of this folder: Chromium needs half the CPU time for the next file of an open page."""
    contexts = []

    def make(**options):
        contexts.append(browser.new_context(viewport=VIEWPORT, **options))
        contexts[-1].set_default_timeout(TIMEOUT_MS)
        return contexts[-1].new_page()

    yield make
    for context in contexts:
        context.close()


@pytest.fixture(scope="package")
def reused_offline_page(reused_pages):
    """A page without any network."""
    return reused_pages(offline=True)


@pytest.fixture
def offline_page(reused_offline_page, faults):
    """A page without any network: each request but for file:, data: and blob: addresses is a fault."""

    def note(request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            faults.append(f"asked the network for {request.url}")

    with lent(reused_offline_page, faults) as page:
        page.on("request", note)
        yield page
        page.remove_listener("request", note)


@pytest.fixture(scope="package")
def reused_module_page(reused_pages):
    """A page whose cache holds our modules."""
    return reused_pages()


@pytest.fixture(scope="package")
def module_server():
    """A server of our modules, and of the files that a test adds to its `files`."""
    with ModuleServer() as server:
        threading.Thread(target=server.serve_forever, name="module-server", daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def module_page(module_server, reused_module_page, context_of, faults):
    """Opens a page that can import our modules from /js/: ``module_page(script, files={...}, **context_options)``.

    `script` is the text of a module; the page is ready once it has set ``window.isReady``. `files` maps further paths
    to bytes. Any other request is answered with 404, which is an error of the console. A test has one page without
    options; a page with options is new.
    """
    with lent(reused_module_page, faults) as reused:

        def open_page(script: str, files: dict[str, bytes] | None = None, body: str = "", **options):
            html = f'<!doctype html><meta charset="utf-8"><body>{body}<script type="module">{script}</script></body>'
            module_server.files = {"/page": html.encode()} | (files or {})
            page = context_of(**options).new_page() if options else reused
            page.goto(f"{module_server.origin}/page")
            page.wait_for_function("window.isReady")
            return page

        yield open_page

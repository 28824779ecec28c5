"""A real Chromium: that of the system, with a profile of its own."""

import contextlib
import shutil

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def found():
    """Return the path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


@contextlib.contextmanager
def browser():
    """Yield a browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=found(), args=FLAGS)
        try:
            yield made
        finally:
            made.close()

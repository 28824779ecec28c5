"""Write the pictures of the page that the docs show: ``python -m tests.browser.screenshots``."""

import sys
from pathlib import Path

from tests.browser import chromium
from tests.browser.scene_server import SceneServer
from tests.dispatcher.page import scenes

IMAGES = Path(__file__).parents[2] / "docs" / "images" / "page"

SITUATIONS = {
    "healthy": ("healthy", "light", 100),
    "slow-map": ("slow-map", "light", 100),
    "worker-lost": ("lost-and-drained", "light", 100),
    "thousand-workers": ("thousand", "dark", 12),
    "unbalanced": ("unbalanced", "light", 100),
}


def main():
    """Write each situation."""
    if chromium.found() is None:
        sys.exit("there is no Chromium: `apt-get install chromium` brings one")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with chromium.browser() as browser:
        for file, (scene, scheme, seen) in SITUATIONS.items():
            context = browser.new_context(
                viewport={"width": 1280, "height": 860},
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            with SceneServer(scenes.SCENES[scene], seen=seen) as server:
                page = context.new_page()
                page.goto(server.url)
                page.wait_for_selector(".totals")
                page.wait_for_timeout(2500)
                page.screenshot(path=IMAGES / f"{file}.png")
            context.close()
            print(IMAGES / f"{file}.png")


if __name__ == "__main__":
    main()

"""Write the pictures of the page that the docs show: ``python -m tests.browser.screenshots``."""

import io
import sys
from pathlib import Path

from PIL import Image

from tests.browser import chromium
from tests.browser.scene_server import SceneServer
from tests.dispatcher.page import scenes, troubled_scenes

IMAGES = Path(__file__).parents[2] / "docs" / "images" / "page"

SITUATIONS = {
    "healthy": ("healthy", "light", 100),
    "slow-map": ("slow-map", "light", 100),
    "worker-lost": ("lost-and-drained", "light", 100),
    "thousand-workers": ("thousand", "dark", 12),
    "unbalanced": ("unbalanced", "light", 100),
    "blocked": ("blocked", "light", 100),
    "workers-dead": ("workers-dead", "light", 100),
    "disk-full": ("disk-full", "light", 100),
    "trainers-gone": ("trainers-gone", "light", 100),
    "dispatcher-restarted": ("restarted", "light", 6),
    "thirty-jobs": ("thirty-jobs", "light", 60),
}


COLOURS = 128
"""So many are enough for the page, and make a picture a third as large."""


def _write(picture, file):
    kept = Image.Quantize.MAXCOVERAGE  # also small dots keep their colour, which says something
    with Image.open(io.BytesIO(picture)) as seen:
        few = seen.convert("RGB").quantize(COLOURS, kept, dither=Image.Dither.NONE)
        few.save(file, optimize=True)


def main():
    """Write each situation, or those that are named."""
    if chromium.found() is None:
        sys.exit("there is no Chromium: `apt-get install chromium` brings one")
    known = scenes.SCENES | troubled_scenes.SCENES
    IMAGES.mkdir(parents=True, exist_ok=True)
    with chromium.browser() as browser:
        for file, (scene, scheme, seen) in SITUATIONS.items():
            if sys.argv[1:] and file not in sys.argv[1:]:
                continue
            context = browser.new_context(
                viewport={"width": 1280, "height": 860},
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            with SceneServer(known[scene], seen=seen, hears_facts=scene == "restarted") as server:
                page = context.new_page()
                page.goto(server.url)
                page.wait_for_selector(".totals")
                page.wait_for_timeout(2500)
                _write(page.screenshot(), IMAGES / f"{file}.png")
            context.close()
            print(IMAGES / f"{file}.png")


if __name__ == "__main__":
    main()

"""The page of a scene, on a port of its own: the real feed and routes over made-up counters."""

import asyncio
import threading
import time

import msgspec

from penstock.credentials.entrance import entrance_of
from penstock.web.server import serving
from penstock_dispatcher.fact_log import Notice, NoticeKind
from penstock_dispatcher.page.feed import PageFeed
from penstock_dispatcher.page.history import History
from penstock_dispatcher.page.routes import page_routes


class SceneServer:
    """Shows *scene* from *seconds* on, as if it had been looked at each second before."""

    def __init__(self, scene, seconds=100, seen=100, hears_facts=False):
        self._scene, self._seconds, self._seen = scene, seconds, seen
        self._hears_facts = hears_facts
        self._history = History(hears_facts=hears_facts)
        self._ready = threading.Event()
        self.url = ""

    def __enter__(self):
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)

    async def _serve(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        began, at = time.time(), [0.0]
        clock = lambda: began + at[0] - self._seconds
        feed = PageFeed(lambda: self._scene(at[0]), clock, self._history)
        if not self._hears_facts:
            self._history.tell(Notice(NoticeKind.STARTED, "the dispatcher started"), clock())
        for second in range(max(0, self._seconds - self._seen), self._seconds):
            at[0] = float(second)
            feed.look()

        async def status():
            return msgspec.json.encode(self._scene(at[0]))

        async def go_on():
            while True:
                at[0] = self._seconds + time.time() - began
                feed.look()
                await asyncio.sleep(1.0)

        entrance = entrance_of("127.0.0.1", None, insecure=False)
        async with serving(page_routes(feed, status), "127.0.0.1", 0, entrance) as port:
            self.url = f"http://localhost:{port}/"
            going = asyncio.create_task(go_on())
            self._ready.set()
            await self._over.wait()
            going.cancel()
            feed.close()

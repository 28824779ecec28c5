"""The page over HTTP: its files and nothing else, what it shows, and events."""

import asyncio
import contextlib
import hashlib
import json
import tomllib
from importlib import resources

import aiohttp
import pytest

from penstock.credentials.entrance import entrance_of
from penstock.web.server import serving
from penstock_dispatcher.fact_log import Notice, NoticeKind
from penstock_dispatcher.page import feed as feed_module
from penstock_dispatcher.page import routes as routes_module
from penstock_dispatcher.page.feed import PageFeed
from penstock_dispatcher.page.routes import page_routes
from tests.dispatcher.page import scenes
from tests.dispatcher.page.looking import START

ASSETS = resources.files("penstock_dispatcher.page") / "assets"


async def status():
    return b'{"status": "as it is"}'


@contextlib.asynccontextmanager
async def asked(scene=scenes.healthy):
    """Yield a function that asks for the page of *scene*, and its feed."""
    feed = PageFeed(lambda: scene(5.0), lambda: START)
    entrance = entrance_of("127.0.0.1", None, insecure=False)
    async with (
        serving(page_routes(feed, status), "127.0.0.1", 0, entrance) as port,
        aiohttp.ClientSession(f"http://localhost:{port}") as session,
    ):

        async def ask(path):
            async with session.get(path) as answer:
                return answer.status, await answer.read(), answer.headers

        ask.session, ask.feed = session, feed
        yield ask


async def test_the_page_loads_its_own_files_and_may_load_no_others():
    async with asked() as ask:
        code, body, headers = await ask("/")

        assert code == 200
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
        html = body.decode()
        named = [part.split('"')[0] for part in html.split('="assets/')[1:]]
        assert len(named) == 6
        for name in named:
            code, body, headers = await ask(f"/assets/{name}")
            assert (code, body) == (200, (ASSETS / name).read_bytes())
            assert headers["X-Content-Type-Options"] == "nosniff"
        assert "http:" not in html
        assert "https:" not in html


@pytest.mark.parametrize(
    "name",
    [
        "no.js",
        "../routes.py",
        "%2e%2e/routes.py",
        "vendor/../../routes.py",
        "vendor",
        "vendor/vendor.toml",
    ],
)
async def test_no_other_file_is_given_out(name):
    async with asked() as ask:
        async with ask.session.get(f"/assets/{name}") as answer:
            assert answer.status == 404


async def test_the_counters_are_those_of_the_status_call():
    async with asked() as ask:
        assert (await ask("/api/status"))[1] == await status()


async def test_things_are_asked_for_by_name():
    async with asked() as ask:
        worker = json.loads((await ask("/api/page?worker=worker-0.local:7001"))[1])
        task = json.loads((await ask("/api/page?task=7110"))[1])
        whole = json.loads((await ask("/api/page"))[1])

    assert worker["worker"]["address"] == "worker-0.local:7001"
    assert task["task"]["worker"] == "worker-0.local:7001"
    assert whole["totals"]["workers"] == 4


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("task=1", 404, "there is no task of this name now"),
        ("worker=a", 404, "there is no worker of this name now"),
        ("task=one", 400, "task must be a number"),
        ("task=²", 400, "task must be a number"),
        ("task=" + 40 * "9", 400, "task must be a number"),
        ("what=1", 400, "ask for one of worker, workers, task, tasks, readers"),
        ("task=1&worker=a", 400, "ask for one of"),
    ],
)
async def test_what_is_asked_wrongly_is_said(query, code, said):
    async with asked() as ask:
        status, body, _ = await ask(f"/api/page?{query}")

    assert status == code
    assert said in body.decode()


async def test_events_come_as_they_are_made():
    async with asked() as ask, ask.session.get("/events") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert await answer.content.readline() == b"retry: 2000\n"
        while not (line := await answer.content.readline()).startswith(b"data: "):
            pass
        assert json.loads(line[6:])["totals"]["slots"] == 16
        ask.feed.look()
        while not (line := await answer.content.readline()).startswith(b"data: "):
            pass
        assert json.loads(line[6:])["change"]


async def test_one_too_many_is_told_to_come_again(monkeypatch):
    monkeypatch.setattr(feed_module, "LISTENERS", 0)
    async with asked() as ask:
        code, body, headers = await ask("/events")

    assert (code, headers["Retry-After"]) == (503, "5")
    assert b"look on already" in body


async def test_one_who_goes_or_does_not_read_holds_nothing(monkeypatch):
    monkeypatch.setattr(routes_module, "SEND_WITHIN", 0.2)
    async with asked(scenes.five_jobs) as ask:
        async with ask.session.get("/events") as answer:
            await answer.content.readline()
            assert ask.feed.listening == 1
        async with asyncio.timeout(20):
            while ask.feed.listening:
                ask.feed.look()
                await asyncio.sleep(0)

        answer = await ask.session.get("/events", read_bufsize=1)
        async with asyncio.timeout(60):
            while ask.feed.listening == 0:
                await asyncio.sleep(0)
            while ask.feed.listening:
                ask.feed.tell(Notice(NoticeKind.JOINED, "x" * 400))
                ask.feed.look()
                await asyncio.sleep(0)
        answer.close()


def test_files_of_others_are_what_the_note_says():
    """The licence and the version of each are in it."""
    folder = ASSETS / "vendor"
    noted = tomllib.loads((folder / "vendor.toml").read_text())

    files = {one["file"]: one for one in noted["files"]}
    licences = {one["licence_file"] for one in files.values()} | {"preact-LICENSE.txt"}
    assert files.keys() | licences | {"vendor.toml"} == {one.name for one in folder.iterdir()}
    for name, one in files.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == one["sha256"], name
        assert one["version"] in name
        assert one["source"].startswith(f"npm:{one['package']}@{one['version']}/")

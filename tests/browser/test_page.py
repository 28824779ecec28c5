"""The page in a real Chromium: what it shows, its use without a mouse, and that it comes back."""

import contextlib
import json
import socket
import time
import urllib.request

import pytest

from penstock import Dataset
from penstock_cluster import LocalCluster
from penstock_dispatcher import DispatcherConfig
from tests.browser import chromium
from tests.browser.scene_server import SceneServer
from tests.dispatcher.page import scenes, troubled_scenes

if chromium.found() is None:
    pytest.skip(
        "there is no Chromium: `apt-get install chromium` brings one", allow_module_level=True
    )
pytest.importorskip("playwright", reason="`make test-page` installs it")

WITHIN = 60_000
"""Milliseconds: machines that do something else beside are slow."""


AWAY = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"]
"""What a browser reports where a server ended before its page."""


@pytest.fixture(scope="module")
def browser():
    with chromium.browser() as made:
        yield made


@pytest.fixture
def shown(browser):
    """Opens a page, and fails where the browser reports an error."""
    opened, trouble = [], []

    def show(url, *, width=1280, height=900, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=False
        )
        opened.append(context)
        page = context.new_page()
        page.set_default_timeout(WITHIN)
        page.on("pageerror", lambda error: trouble.append(str(error)))

        def hear(message):
            if message.type == "error" and not any(one in message.text for one in AWAY):
                trouble.append(message.text)

        page.on("console", hear)
        page.goto(url)
        page.wait_for_selector(".totals")
        return page

    yield show
    for context in opened:
        context.close()
    assert trouble == []


def totals_of(page):
    pairs = page.eval_on_selector_all(
        ".totals > div",
        "all => all.map(({children: [name, value]}) =>"
        " [name.textContent, value.firstChild.textContent])",
    )
    return {name: value.strip() for name, value in pairs}


def status_of(url):
    with urllib.request.urlopen(f"{url}api/status", timeout=30) as answer:
        return json.load(answer)


@pytest.fixture
def looked_at():
    """Starts a cluster with a page; the browser has this thread's event loop, so HTTP is asked."""

    @contextlib.contextmanager
    def start(workers):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with LocalCluster(workers, dispatcher=DispatcherConfig(http_port=port)) as cluster:
            yield cluster, f"http://localhost:{port}/"
            if cluster.dispatcher.running:
                stats = status_of(f"http://localhost:{port}/")
                assert [it["faults"] for it in stats["iterations"] if it["faults"]] == []

    return start


def test_what_it_shows_is_what_status_says(looked_at, shown):
    dataset = Dataset.range(100_000).map(abs).batch(10)
    with looked_at(workers=2) as (cluster, url):
        read = dataset.distribute("distributed_epoch", cluster.target, job_name="stands")
        done = Dataset.range(70).distribute("distributed_epoch", cluster.target, job_name="over")
        assert len(list(done)) == 70
        with read.iterator() as elements:
            for _ in range(50):
                next(elements)
            page = shown(url)
            page.wait_for_selector("text=50 consumed")
            seen = _steady(url, page)

    stats, totals, cards, finished = seen
    running = [it for it in stats["iterations"] if not it["finished"]]
    (it,) = running
    assert totals["workers"] == str(len(stats["workers"])) == "2"
    assert totals["readers"] == "1"
    mine = {task["task"] for task in it["tasks"] if not task["done"]}
    at_work = [one for w in stats["workers"] for one in w["stats"]["tasks"] if one["task"] in mine]
    assert int(totals["running tasks"]) <= len(at_work)
    assert "slots used" not in totals and "busy cores" in totals
    account = it["account"]
    said = f"{account['acked']:,} elements acked, {account['consumed']:,} consumed"
    assert said in " ".join(cards[0].split())
    assert "stands" in cards[0]
    over = next(one for one in stats["iterations"] if one["job"] == "over")
    assert over["faults"] == []
    assert finished == [["over", "1", "70", str(over["account"]["consumed"]), "balances"]]


def _steady(url, page):
    """Return the counters and what the page shows, at a time when these have not changed."""
    deadline = time.monotonic() + 60
    while True:
        before = status_of(url)
        page.wait_for_timeout(2500)
        seen = (
            totals_of(page),
            page.locator("article.card").all_inner_texts(),
            page.eval_on_selector_all(
                "[aria-labelledby=finished] tbody tr",
                "rows => rows.map(row => [...row.children].map(cell => cell.textContent))",
            ),
        )
        after = status_of(url)
        accounts = ([it["account"] for it in one["iterations"]] for one in (before, after))
        if len({json.dumps(one) for one in accounts}) == 1:
            return after, *seen
        assert time.monotonic() < deadline


def test_it_comes_back_with_a_dispatcher_that_began_again_and_says_so_meanwhile(looked_at, shown):
    with looked_at(workers=1) as (cluster, url):
        page = shown(url)
        page.wait_for_selector("text=1 worker ready")
        cluster.dispatcher.kill()
        page.wait_for_selector("[role=alert]:has-text('does not answer since')")
        assert page.locator("text=away").count() == 1

        cluster.dispatcher.restart()

        page.wait_for_selector("[role=alert]", state="detached")
        page.wait_for_selector("text=live")
        page.wait_for_selector("text=1 worker ready")
        for one in (page, shown(url)):
            log = one.locator("[aria-labelledby=log]").first
            log.get_by_text("the dispatcher restarted and continues").wait_for()


def test_an_account_that_does_not_balance_is_red_and_first(shown):
    with SceneServer(scenes.unbalanced) as server:
        page = shown(server.url)

        first = page.locator("h1")
        assert first.inner_text() == "The account of nightly eval does not balance, in 1 place"
        wrong = page.locator("article.wrong .balance")
        assert wrong.inner_text().endswith("50000 of 50012 elements were acked")
        red = "rgb(192, 32, 44)"
        for place in (first.locator("span"), wrong):
            assert place.evaluate("one => getComputedStyle(one).color") == red
        assert (
            page.locator("article.wrong").evaluate("one => getComputedStyle(one).borderColor")
            == red
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_until_one_is_chosen(shown, scheme):
    with SceneServer(scenes.healthy, seen=5) as server:
        page = shown(server.url, scheme=scheme)
        ground = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")
        light, dark = "rgb(246, 247, 248)", "rgb(15, 18, 22)"

        assert ground() == {"light": light, "dark": dark}[scheme]
        page.get_by_role("button", name="Colours: system; change to light").click()
        assert ground() == light
        page.get_by_role("button", name="Colours: light; change to dark").click()
        assert ground() == dark
        page.reload()
        page.wait_for_selector(".totals")
        assert ground() == dark


def test_all_of_it_is_reached_by_keys(shown):
    with SceneServer(scenes.slow_map) as server:
        page = shown(server.url)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to what it says"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "first"

        reached = []
        for _ in range(40):
            page.keyboard.press("Tab")
            here = "document.activeElement"
            reached.append(page.evaluate(f"{here}.getAttribute('href') ?? {here}.textContent"))
        assert "#/job/7100" in reached
        assert {"Picture", "Table"} <= set(reached)
        assert {f"#/worker/worker-{i}.local%3A7001" for i in range(4)} <= set(reached)

        page.get_by_role("button", name="Table").focus()
        page.keyboard.press("Enter")
        page.get_by_role("link", name="task 10").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('task 10')")
        page.wait_for_selector("text=held up")
        assert page.evaluate("document.activeElement.id") == "first"
        assert page.url.endswith("#/task/7110")


@pytest.mark.parametrize("address", ["#/job/7100", "#/worker/worker-0.local%3A7001", "#/task/7111"])
def test_tasks_are_called_by_their_number_in_the_job_and_have_the_long_one_on_hover(shown, address):
    with SceneServer(scenes.slow_map, seen=5) as server:
        page = shown(server.url)
        page.goto(server.url + address)
        page.wait_for_selector("text=task 11")
        said = page.locator("main").inner_text().replace("local:7001", "").replace(",", "")

        assert page.get_by_text("task 11", exact=True).first.get_attribute("title") == (
            "task 7111 of the dispatcher"
        )
        assert "7111" not in said and "7100" not in said


def test_states_badges_figures_and_the_first_line_have_their_meaning_on_hover(shown):
    with SceneServer(scenes.slow_map, seen=5) as server:
        page = shown(server.url)
        meaning = lambda of: page.locator(of).first.get_attribute("title")

        assert "data" in meaning(".first .tone .term")
        assert "waits for data" in meaning("h1 abbr:has-text('waits')")
        assert page.locator(".totals dt > span:not([title])").count() == 0
        assert "at least 5 %" in meaning("article .state .term")
        page.goto(server.url + "#/job/7100")
        page.wait_for_selector("tbody td .term")
        assert page.locator("tbody .term:not([title]), thead th:not([title])").count() == 0


def test_the_workers_have_host_cpu_memory_version_and_their_rate_beside_the_median(shown):
    with SceneServer(scenes.slow_worker, seen=12) as server:
        page = shown(server.url)
        page.goto(server.url + "#/workers")
        row = page.locator("tbody tr", has_text="worker-2.local:7001")
        row.locator("text=slow").wait_for()
        heads = page.locator("thead th").all_text_contents()
        seen = dict(zip(heads, row.locator("th, td").all_inner_texts(), strict=True))

    assert (seen["host"], seen["CPU, busy cores"]) == ("worker-2.local", "1.8 of 4")
    assert (seen["memory"], seen["version"]) == ("209.7 MB", "0.1.0")
    assert heads.index("median of peers") == heads.index("elements/s") + 1
    assert float(seen["elements/s"]) < float(seen["median of peers"])


def test_a_worker_that_reads_remote_files_has_its_counts_and_the_hit_rate_of_the_cache(shown):
    with SceneServer(scenes.object_storage, seen=5) as server:
        page = shown(server.url)
        page.goto(server.url + "#/worker/worker-1.local%3A7001")
        page.locator("text=file cache hits").wait_for()
        figures = page.locator("dl.totals div")
        seen = dict(each.split("\n") for each in figures.all_inner_texts())
        unexplained = page.locator("dl.totals .term:not([title])").count()

    wanted = {
        "remote files, MB": "3,355.4", "requests": "400", "retries": "8",
        "hedged reads": "16, 10 won", "waited for storage": "50 s",
        "file cache, MB": "32,212.3", "file cache hits": "75 %",
    }  # fmt: skip
    assert wanted.items() <= seen.items()
    assert unexplained == 0


def test_a_job_that_reads_a_mixture_has_the_wanted_and_the_real_shares_of_its_sources(shown):
    with SceneServer(scenes.mixed, seen=5) as server:
        page = shown(server.url)
        page.goto(server.url + "#/job/7100")
        table = page.locator("table:has-text('Mixture')")
        table.wait_for()
        rows = [row.split("\t") for row in table.locator("tbody tr").all_inner_texts()]
        caption = table.locator("caption").inner_text()
        changes = page.locator("table:has-text('from each change')").locator("tbody tr")
        spans = [row.split("\t") for row in changes.all_inner_texts()]
        figures = page.locator("section[aria-labelledby=made] p").all_inner_texts()
        unexplained = table.locator("th[scope=col]:not([title])").count()

    assert caption == "Mixture: tasks have the turns before 1,000"
    assert rows == [
        ["web", "50 %", "700 (70 %)", "350 (70 %)", "0", "1,600"],
        ["code", "50 %", "300 (30 %)", "150 (30 %)", "0", "–"],
    ]
    assert spans == [["0", "70 % / 70 %", "30 % / 30 %"], ["1,000", "50 % / –", "50 % / –"]]
    assert figures == ["pack: 900,000 tokens; 4,500 tokens a second; 1.5 % padding"]
    assert unexplained == 0


@pytest.mark.parametrize(
    ("scene", "first", "badge"),
    [
        ("blocked", "imagenet waits 100 % of its time, for map(decode) on workers", "Waiting"),
        ("workers-dead", "No worker is registered at dispatcher.local:5050", "Stopped"),
        ("disk-full", "it has no room to write /data/penstock/journal.db", "Stopped"),
        ("trainers-gone", "31 of 32 readers died", "31 of 32 readers died"),
    ],
)
def test_what_is_wrong_is_the_first_line_and_nothing_shows_an_old_figure(
    shown, scene, first, badge
):
    with SceneServer(troubled_scenes.SCENES[scene], seen=45) as server:
        page = shown(server.url)
        page.wait_for_selector("article .state")

        assert first in page.locator("h1").inner_text()
        assert badge in page.locator("article .state").inner_text()
        assert page.locator("article .tone-good").count() == 0
        if scene != "trainers-gone":
            totals = totals_of(page)
            assert (totals["elements/s"], totals["bytes/s"]) == ("0", "0.0 MB")


def test_thirty_jobs_are_a_table_with_the_healthy_ones_folded_and_a_filter(shown):
    with SceneServer(scenes.thirty_jobs, seen=6) as server:
        page = shown(server.url)
        rows = page.locator("[aria-labelledby=jobs] tbody th")
        page.wait_for_selector("[aria-labelledby=jobs] tbody th")

        assert rows.all_inner_texts() == ["trial-23", "trial-13", "trial-03"]
        assert page.evaluate("document.documentElement.scrollHeight") < 1200
        page.get_by_role("button", name="Show 27 healthy").click()
        assert rows.count() == 30
        page.get_by_role("searchbox", name="Filter jobs by name").fill("TRIAL-2")
        assert rows.all_inner_texts()[0] == "trial-23"
        assert rows.count() == 10


def test_a_time_line_is_a_table_for_who_does_not_see_pictures(shown):
    with SceneServer(scenes.slow_map, seen=5) as server:
        page = shown(server.url)
        page.goto(server.url + "#/job/7100")
        page.wait_for_selector("h2:has-text('Time line')")
        page.get_by_role("group", name="How the time line is shown").get_by_text("Table").click()

        table = page.get_by_role("region", name="Time line as a table")
        heads = table.locator("thead th").all_text_contents()
        assert heads[:3] == ["time", "loop waits", "buffers of workers full"]
        rows = [row.split("\t") for row in table.locator("tbody tr").all_inner_texts()]
        assert len(rows) >= 5 and {len(row) for row in rows} == {len(heads)}
        assert rows == sorted(rows, key=lambda row: row[0], reverse=True)
        assert page.locator("#times ~ * canvas, .chart").count() == 0


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("#/job/7100", "Tasks that are not done"),
        ("#/worker/worker-1.local%3A7001", "runners lost"),
        ("#/task/7111", "without splits"),
        ("#/workers/live%2C%20slow", "0 workers of 4"),
        ("#/log", "newest first"),
        ("#/task/1", "There is none of this name now"),
        ("#/job/1", "was never opened"),
    ],
)
def test_a_job_a_worker_and_a_task_have_an_address(browser, address, said):
    with SceneServer(scenes.slow_map, seen=5) as server:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(WITHIN)
        page.goto(server.url + address)
        page.wait_for_selector(f"text={said}")
        context.close()


def test_the_first_line_is_said_to_who_does_not_see_it_and_not_each_second(shown):
    with SceneServer(scenes.slow_map) as server:
        page = shown(server.url)
        spoken = page.locator("[role=status]")
        first = spoken.inner_text()
        page.evaluate(
            "window.heard = 0; new MutationObserver(() => window.heard++).observe("
            "document.querySelector('[role=status]'),"
            " {childList: true, characterData: true, subtree: true})"
        )
        number = page.locator("h1 span").inner_text()
        page.wait_for_function(
            "was => document.querySelector('h1 span').textContent !== was", arg=number
        )

        assert first.startswith("imagenet waits")
        assert page.evaluate("window.heard") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("empty", ""),
        ("slow-map", ""),
        ("unbalanced", ""),
        ("thousand", ""),
        ("thirty-jobs", ""),
        ("lost-and-drained", "#/job/7100"),
        ("slow-map", "#/worker/worker-1.local%3A7001"),
        ("slow-map", "#/workers"),
    ],
)
def test_axe_finds_nothing_serious(shown, name, address, scheme):
    from axe_playwright_python.sync_playwright import Axe

    seen = 3 if name == "thousand" else 60
    with SceneServer(scenes.SCENES[name], seen=seen) as server:
        page = shown(server.url, scheme=scheme)
        if address:
            page.evaluate("address => location.hash = address", address)
            page.wait_for_selector("h1:not(:has-text('waits'))")
            page.wait_for_selector("tbody tr")
        found = Axe().run(page).response["violations"]

    serious = [
        (one["id"], one["nodes"][0]["html"][:200], one["nodes"][0].get("failureSummary", ""))
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize("name", ["empty", "slow-map", "five-jobs", "thirty-jobs", "thousand"])
def test_nothing_is_wider_than_the_screen(shown, name, width):
    with SceneServer(scenes.SCENES[name], seen=3) as server:
        page = shown(server.url, width=width)
        page.wait_for_timeout(300)

        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_thousand_workers_are_drawn_smoothly(shown):
    """What a second costs the browser: long tasks are those that hold up a frame."""
    with SceneServer(scenes.thousand, seen=4) as server:
        page = shown(server.url)
        drawn = page.evaluate("document.querySelectorAll('.mesh *').length")
        busy = page.evaluate(
            "new Promise(done => { let busy = 0; new PerformanceObserver(list => "
            "list.getEntries().forEach(one => busy += one.duration))"
            ".observe({entryTypes: ['longtask']});"
            "setTimeout(() => done(busy), 4000); })"
        )

    assert drawn < 400
    assert busy < 2000

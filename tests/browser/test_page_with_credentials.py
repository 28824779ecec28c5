"""The page where it takes a token: TLS on all interfaces, in a real Chromium."""

import shutil
import socket
import time
from itertools import islice

import pytest

from penstock import Dataset
from penstock.credentials import authority
from penstock.credentials.access import AccessRole
from penstock.credentials.folder import TRUSTED
from penstock_cluster import LocalCluster
from penstock_dispatcher import DispatcherConfig
from penstock_worker import WorkerConfig
from tests.browser import chromium
from tests.credentials.keyring import made

if chromium.found() is None:
    pytest.skip(
        "there is no Chromium: `apt-get install chromium` brings one", allow_module_level=True
    )
pytest.importorskip("playwright", reason="`make test-page` installs it")

WITHIN = 60_000
"""Milliseconds: machines that do something else beside are slow."""


def own_address():
    """Return an address of this host that is not loopback, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return "127.0.0.1"
        return probe.getsockname()[0]


@pytest.fixture(scope="module")
def browser():
    with chromium.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return made(tmp_path_factory.mktemp("keys") / "keys", own_address())


@pytest.fixture(scope="module")
def secured(keys):
    """A cluster that listens everywhere, and the address of its page."""
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))
        port = probe.getsockname()[1]
    dispatcher = DispatcherConfig(
        credentials=keys / "dispatcher", http_host="0.0.0.0", http_port=port
    )
    with LocalCluster(
        1, dispatcher=dispatcher, worker=WorkerConfig(credentials=keys / "worker")
    ) as cluster:
        yield cluster, f"https://{own_address()}:{port}/"


def cancel_the_question(session):
    """Do what a person does who is asked for a password and presses *Cancel*."""
    go_on = lambda paused: session.send("Fetch.continueRequest", {"requestId": paused["requestId"]})
    cancel = lambda asked: session.send(
        "Fetch.continueWithAuth",
        {
            "requestId": asked["requestId"],
            "authChallengeResponse": {"response": "CancelAuth"},
        },
    )
    session.on("Fetch.requestPaused", go_on)
    session.on("Fetch.authRequired", cancel)
    session.send("Fetch.enable", {"handleAuthRequests": True})


@pytest.fixture
def visited(browser):
    """Opens a page: as who shows *password*, or as who is asked for one and cancels.

    Returns the page, the answer, and the addresses of all requests, which grow.
    """
    contexts = []

    def visit(url, password=None):
        login = {"http_credentials": {"username": "ann", "password": password}} if password else {}
        context = browser.new_context(ignore_https_errors=True, **login)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WITHIN)
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        if password is None:
            cancel_the_question(context.new_cdp_session(page))
        return page, page.goto(url), asked

    yield visit
    for context in contexts:
        context.close()


def token(keys, role=AccessRole.OPERATOR, lasts=3600.0):
    return authority.token(keys, role, "ann", time.time(), lasts)


def test_a_token_shows_the_page_which_goes_on_and_never_has_it_in_an_address(
    secured, keys, visited
):
    cluster, url = secured
    shown = token(keys)

    page, answer, asked = visited(url, shown)

    assert answer.status == 200
    page.wait_for_selector("text=live")
    far = Dataset.range(100_000).distribute(
        "distributed_epoch", cluster.target, credentials=keys / "trainer", job_name="goes-on"
    )
    with far.iterator() as elements:
        assert len(list(islice(elements, 50))) == 50
        page.wait_for_selector("text=50 consumed")  # by an event: the page was there before
    assert any(one.endswith("/events") for one in asked)
    assert all(one.startswith(url) for one in asked)
    assert [one for one in (*asked, page.url) if shown in one] == []


@pytest.mark.parametrize(
    ("password", "said"),
    [
        (None, "a browser shows it as a password, with any name"),
        ("hunter2", "the credential is no token of Penstock"),
    ],
)
def test_without_a_token_that_counts_a_sentence_says_which_is_wanted(
    secured, visited, password, said
):
    page, answer, _ = visited(secured[1], password)

    assert answer.status == 401
    assert said in page.inner_text("body")
    assert "penstock keys token" in page.inner_text("body")
    assert page.locator("#page").count() == 0


def test_a_token_that_is_pasted_into_the_address_is_refused_and_shows_nothing(
    secured, keys, visited
):
    page, answer, _ = visited(f"{secured[1]}?token={token(keys)}", token(keys))

    assert answer.status == 401
    assert "a token is in the address" in page.inner_text("body")


def test_a_token_that_is_trusted_no_more_is_not_taken_for_a_dispatcher_that_is_away(
    secured, keys, visited, tmp_path
):
    cluster, url = secured
    page, _, asked = visited(url, token(keys))
    page.wait_for_selector("text=live")
    others = made(tmp_path / "others") / "dispatcher" / TRUSTED

    shutil.copy(others, keys / "dispatcher" / TRUSTED)  # the last test: nobody is trusted now
    cluster.dispatcher.restart()

    page.wait_for_selector("[role=alert]:has-text('refuses the token')")
    assert page.locator("[role=alert] code").inner_text() == "penstock keys token"
    assert all(one.startswith(url) for one in asked)

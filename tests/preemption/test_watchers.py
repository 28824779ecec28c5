"""Platforms, as a server on this machine that answers as theirs are documented to."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock.preemption.watchers import (
    RESTART,
    RESTART_ON_GCE,
    AmazonSpot,
    AzureEvents,
    GoogleCloud,
    detected,
)


class MetadataServer:
    """Answers what stands in *pages*: by method and path a text, or a function of the headers."""

    def __init__(self):
        self.pages, self.asked = {}, []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append((self.command, self.path))
                page = outer.pages.get((self.command, self.path), (404, ""))
                code, text = page(self.headers) if callable(page) else page
                self.send_response(code)
                self.end_headers()
                self.wfile.write(text.encode())

            do_PUT = do_GET

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def platform():
    server = MetadataServer()
    yield server
    server.close()


GCE = "/computeMetadata/v1/instance"


@pytest.mark.parametrize(
    ("preempted", "event", "notice"),
    [
        ("FALSE", "NONE", False),
        ("TRUE", "NONE", True),
        ("FALSE", "TERMINATE_ON_HOST_MAINTENANCE", True),
        ("FALSE", "MIGRATE_ON_HOST_MAINTENANCE", False),
    ],
)
def test_google_says_that_it_is_preempted_or_maintained(platform, preempted, event, notice):
    def only_for_us(text):
        return lambda headers: (200, text) if headers["Metadata-Flavor"] == "Google" else (403, "")

    platform.pages = {
        ("GET", f"{GCE}/preempted"): only_for_us(preempted),
        ("GET", f"{GCE}/maintenance-event"): only_for_us(event),
    }
    watcher = GoogleCloud(platform.url)

    assert watcher.notice() is notice
    assert watcher.exit_code == RESTART_ON_GCE


class Amazon:
    """Gives tokens that last for so many questions."""

    def __init__(self, lasts):
        self.lasts, self.tokens, self.left = lasts, 0, 0
        self.action = (404, "")

    def token(self, headers):
        assert int(headers["X-aws-ec2-metadata-token-ttl-seconds"]) > 0
        self.tokens, self.left = self.tokens + 1, self.lasts
        return 200, f"token {self.tokens}"

    def answer(self, headers):
        if headers["X-aws-ec2-metadata-token"] != f"token {self.tokens}" or self.left <= 0:
            return 401, ""
        self.left -= 1
        return self.action


def test_amazon_is_asked_with_a_token_that_is_renewed(platform):
    amazon = Amazon(lasts=2)
    platform.pages = {
        ("PUT", "/latest/api/token"): amazon.token,
        ("GET", "/latest/meta-data/spot/instance-action"): amazon.answer,
    }
    watcher = AmazonSpot(platform.url)

    before = [watcher.notice() for _ in range(5)]
    amazon.action = (200, json.dumps({"action": "terminate", "time": "2026-11-23T08:22:00Z"}))

    assert before == [False] * 5
    assert watcher.notice()
    assert amazon.tokens == 3
    assert watcher.exit_code == RESTART


@pytest.mark.parametrize(
    ("events", "notice"),
    [
        ([], False),
        ([{"EventType": "Freeze"}], False),
        ([{"EventType": "Freeze"}, {"EventType": "Preempt"}], True),
        ([{"EventType": "Terminate"}], True),
    ],
)
def test_azure_schedules_events(platform, events, notice):
    page = json.dumps({"DocumentIncarnation": 1, "Events": events})
    platform.pages = {("GET", "/metadata/scheduledevents?api-version=2020-07-01"): (200, page)}

    assert AzureEvents(platform.url).notice() is notice


def test_a_server_that_does_not_answer_is_an_error_and_not_a_notice():
    with pytest.raises(OSError):
        GoogleCloud("http://127.0.0.1:1").notice()


@pytest.mark.parametrize(
    ("vendor", "product", "kind"),
    [
        ("Google", "Google Compute Engine", GoogleCloud),
        ("Amazon EC2", "g5.xlarge", AmazonSpot),
        ("Microsoft Corporation", "Virtual Machine", AzureEvents),
        ("Microsoft Corporation", "Surface", None),
        ("QEMU", "Standard PC", None),
    ],
)
def test_a_platform_is_known_by_what_its_machines_are(tmp_path, vendor, product, kind):
    (tmp_path / "sys_vendor").write_text(vendor + "\n")
    (tmp_path / "product_name").write_text(product + "\n")

    found = detected({}, tmp_path)

    assert (None if found is None else type(found)) is kind
    assert detected({"PENSTOCK_NO_PLATFORM": "1"}, tmp_path) is None


def test_that_there_is_none_is_known_at_once(tmp_path):
    began = time.perf_counter()

    assert detected({}, tmp_path / "nothing") is None
    assert time.perf_counter() - began < 0.05

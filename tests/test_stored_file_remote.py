"""Files of HTTP servers as they are: without ranges, without a length, busy, gone."""

import http.server
import threading
from contextlib import contextmanager

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, MissingFile, TransformError
from penstock.storage import retries
from penstock.stored_file import patience, why_unread


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(retries, "INFO_PATIENCE", 0.2)


LINES = [f"line {i} {'x' * 90}" for i in range(12_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


class Plain(http.server.BaseHTTPRequestHandler):
    """Sends the whole file, whatever part is asked for."""

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(TEXT)))
        self.end_headers()

    def do_GET(self):
        self.do_HEAD()
        self.wfile.write(TEXT)

    def log_message(self, *_):
        pass


class WithoutLength(Plain):
    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()


def refusing(status):
    class Refusing(Plain):
        def do_HEAD(self):
            self.send_error(status)

        do_GET = do_HEAD

    return Refusing


@contextmanager
def served(handler):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/x.txt"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("handler", [Plain, WithoutLength])
def test_a_state_in_a_file_of_a_server_without_ranges_or_length_is_exact(handler):
    with served(handler) as url:
        lines = Dataset.text_lines(url)
        with lines.iterator() as first:
            taken = [next(first) for _ in range(7000)]
            state = first.state()

        assert taken + list(lines.iterator(state)) == LINES


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_server_that_refuses_is_not_told_as_a_file_that_does_not_exist(status):
    with served(refusing(status)) as url:
        with pytest.raises(DatasetError, match=f"the server answered {status}") as caught:
            list(Dataset.text_lines(url))
        assert url in str(caught.value)


@pytest.mark.parametrize("status", [404, 410])
def test_a_file_that_the_server_does_not_have_is_missing(status):
    with served(refusing(status)) as url, pytest.raises(MissingFile, match="there is no file"):
        list(Dataset.text_lines(url))


def test_a_server_that_cannot_be_reached_is_told_as_that():
    with served(Plain) as url:
        pass

    with pytest.raises(DatasetError, match="the server cannot be reached"):
        list(Dataset.text_lines(url))


def test_a_cause_without_an_answer_says_nothing():
    late = FileNotFoundError("x")
    late.__cause__ = TimeoutError()

    assert why_unread(FileNotFoundError("x")) == ""
    assert why_unread(late) == "the server did not answer in time"


def test_of_a_file_that_a_server_cuts_off_whole_lines_come_and_then_an_error():
    class Cut(Plain):
        def do_GET(self):
            self.do_HEAD()
            self.wfile.write(TEXT[: len(TEXT) // 2])

    found = []
    with served(Cut) as url, pytest.raises(TransformError, match="ClientPayloadError"):
        found.extend(Dataset.text_lines(url))

    assert found
    assert found == LINES[: len(found)]


def test_a_listing_that_a_server_refuses_is_not_told_as_no_file():
    with served(refusing(503)) as url, pytest.raises(DatasetError, match="answered 503"):
        list(Dataset.list_files(f"{url}/*.txt"))


def test_a_file_may_take_longer_than_five_minutes_unless_the_user_said_how_long():
    assert patience("memory://x") == {}
    timeout = patience("zip://a::https://h/x")["https"]["client_kwargs"]["timeout"]
    assert timeout.total is None
    assert timeout.sock_read == 300

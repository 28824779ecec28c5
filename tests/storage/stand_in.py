"""An S3 server on loopback, in threads, and its faults: GET, HEAD, LIST, PUT, COPY and DELETE."""

from __future__ import annotations

import hashlib
import http.server
import re
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

WHEN = "2026-01-02T03:04:05.000Z"


@dataclass
class Bucket:
    """The objects of all buckets by ``bucket/key``, and what befalls the next requests."""

    objects: dict[str, bytes] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """Of the next GETs: "" is none; else "403", "503", "cut", "short", "wrong", "late"."""
    fault: object = None
    """A function of the number of a GET that returns its fault; it comes before `faults`."""
    tag: object = None
    """A function of an object that returns its entity tag; None is its MD5."""
    hidden: set[str] = field(default_factory=set)
    """Objects that are listed, but not there yet."""
    latency: float = 0.0
    lateness: float = 1.0
    seen: Counter = field(default_factory=Counter)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    sent: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""
    authorized: set[str] = field(default_factory=set)
    """The names of the keys that requests were signed with."""
    most: int = 0
    """How many GETs ran at once at the most."""
    running: int = 0
    refused: bool = False
    """Whether listings are refused."""
    write_fault: object = None
    """A function of the number of a PUT, COPY or DELETE that returns its fault: "503" refuses it,
    "lost" carries it out and answers 503."""

    overwrites: bool = False
    """Whether a PUT replaces an object also if it says that there must be none."""

    @property
    def env(self) -> dict[str, str]:
        """The variables of a process that uses it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "AKIDAKIDAKID",
            "AWS_SECRET_ACCESS_KEY": "very-secret-key",
            "AWS_REGION": "us-east-1",
        }

    def next_fault(self) -> str:
        with self.lock:
            number = self.seen["GET"]
            self.seen["GET"] += 1
            if self.fault is not None:
                return self.fault(number)
            return self.faults.pop(0) if self.faults else ""


def tag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: Bucket

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.bucket.seen["HEAD"] += 1
        data = self.bucket.objects.get(self.name)
        if data is None or self.name in self.bucket.hidden:
            self.answer(404, b"")
        else:
            self.answer(200, data, {"ETag": self.tag(data)}, head=True)

    def tag(self, data):
        return tag(data) if self.bucket.tag is None else self.bucket.tag(data)

    @property
    def name(self):
        return unquote(urlsplit(self.path).path).removeprefix("/")

    def do_GET(self):
        signed = self.headers.get("Authorization", "").partition("Credential=")[2]
        self.bucket.authorized.add(signed.partition("/")[0])
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self.listing(query)
        else:
            self.range()

    def range(self):
        with self.bucket.lock:
            self.bucket.running += 1
            self.bucket.most = max(self.bucket.most, self.bucket.running)
        try:
            self.send_range()
        finally:
            with self.bucket.lock:
                self.bucket.running -= 1

    def send_range(self):
        fault = self.bucket.next_fault()
        time.sleep(self.bucket.lateness if fault == "late" else self.bucket.latency)
        data = self.bucket.objects.get(self.name)
        if data is None or self.name in self.bucket.hidden:
            fault = fault if fault.isdigit() else "404"
        elif self.headers.get("If-Match") not in (None, self.tag(data)):
            fault = "412"
        if fault.isdigit():
            self.error(int(fault))
            return
        if "Range" not in self.headers:
            self.answer(200, data, {"ETag": self.tag(data)})
            return
        start, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        body = data[int(start) : int(last) + 1]
        with self.bucket.lock:
            self.bucket.ranges.append((self.name, f"{start}-{last}"))
        if fault == "wrong":
            body = self.wrong(body)
        headers = {
            "ETag": self.tag(data),
            "Content-Range": f"bytes {start}-{int(start) + len(body) - 1}/{len(data)}",
        }
        self.answer(206, body[:-3] if fault == "short" else body, headers, cut=fault == "cut")

    def wrong(self, body):
        return bytes([body[0] ^ 1]) + body[1:]

    def listing(self, query):
        self.bucket.seen["LIST"] += 1
        if self.bucket.refused:
            self.error(403)
            return
        prefix, bucket = query.get("prefix", [""])[0], self.name.strip("/")
        with self.bucket.lock:
            objects = dict(self.bucket.objects)
        keys = sorted(n.split("/", 1)[1] for n in objects if n.startswith(bucket + "/"))
        found = [key for key in keys if key.startswith(prefix)]
        folders = []
        if "delimiter" in query:
            rest = {key: key[len(prefix) :] for key in found}
            folders = sorted({prefix + r.split("/")[0] + "/" for r in rest.values() if "/" in r})
            found = [key for key in found if "/" not in rest[key]]
        items = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{WHEN}</LastModified>"
            f"<ETag>{self.tag(data).replace(chr(34), '&quot;')}</ETag>"
            f"<Size>{len(data)}</Size></Contents>"
            for key in found
            for data in [objects[f"{bucket}/{key}"]]
        )
        items += "".join(
            f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in folders
        )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{items}</ListBucketResult>"
        self.answer(200, body.encode(), {"Content-Type": "application/xml"})

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        source = self.headers.get("x-amz-copy-source")
        if source is not None:
            body = self.bucket.objects.get(unquote(source).removeprefix("/"))
        self.written(lambda: self.put(body, copied=source is not None))

    def put(self, body, *, copied):
        if body is None:
            return 404, b""
        is_creation = self.headers.get("If-None-Match") == "*" and not self.bucket.overwrites
        if is_creation and self.name in self.bucket.objects:
            return 412, b""
        self.bucket.objects[self.name] = body
        answer = f"<CopyObjectResult><ETag>{tag(body)}</ETag></CopyObjectResult>" if copied else ""
        return 200, answer.encode()

    def do_POST(self):
        """Delete many objects at once."""
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        keys = re.findall("<Key>([^<]*)</Key>", text)

        def change():
            for key in keys:
                self.bucket.objects.pop(f"{self.name.strip('/')}/{key}", None)
            found = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            return 200, f"<DeleteResult>{found}</DeleteResult>".encode()

        self.written(change)

    def written(self, change):
        """Carry out *change*, with the fault that is due."""
        with self.bucket.lock:
            number = self.bucket.seen["WRITE"]
            self.bucket.seen["WRITE"] += 1
            fault = self.bucket.write_fault(number) if self.bucket.write_fault else ""
            status, body = (503, b"") if fault == "503" else change()
        if fault:
            self.error(503)
        else:
            headers = {"ETag": tag(body)}
            self.answer(status, body, headers)

    def error(self, status):
        code = {403: "AccessDenied", 503: "SlowDown", 404: "NoSuchKey"}.get(status, "Odd")
        body = f"<Error><Code>{code}</Code><Message>it is so</Message></Error>".encode()
        self.answer(status, body)

    def answer(self, status, body, headers=(), *, head=False, cut=False):
        self.send_response(status)
        self.send_header("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        body = b"" if head or self.command == "HEAD" else body[: len(body) // 2] if cut else body
        try:
            self.wfile.write(body)
        except OSError:
            pass  # nobody waits for it any more
        with self.bucket.lock:
            self.bucket.sent += len(body)
        self.close_connection = self.close_connection or cut


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_):
        pass


@contextmanager
def served():
    """Yield a `Bucket` that is served at its `url`."""
    bucket = Bucket()
    handler = type("Handler", (Handler,), {"bucket": bucket})
    with Server(("127.0.0.1", 0), handler) as server:
        bucket.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield bucket
        finally:
            server.shutdown()
            thread.join()

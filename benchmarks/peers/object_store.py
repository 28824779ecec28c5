"""A folder as a bucket of S3 on loopback with late answers: ``python object_store.py FOLDER``.

It prints its URL, and serves until its input ends.
"""

from __future__ import annotations

import http.server
import sys
import threading
import time
from email.utils import formatdate
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

BUCKET, LATENCY = "files", 0.03
"""Seconds before the first byte of each answer."""


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET with and without ranges, HEAD, and listings."""

    protocol_version = "HTTP/1.1"
    folder: Path

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Tell of an object."""
        self.do_GET()

    def do_GET(self) -> None:
        """Send an object, a part of it, or a list."""
        time.sleep(LATENCY)
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self._list(query.get("prefix", [""])[0])
            return
        file = self.folder / unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}/")
        if not file.is_file():
            self._answer(404, b"")
            return
        size = file.stat().st_size
        start, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        begin, end = int(start), min(int(last or size), size - 1) + 1
        headers = {"ETag": f'"{size}"', "Content-Range": f"bytes {begin}-{end - 1}/{size}"}
        with file.open("rb") as content:
            content.seek(begin)
            self._answer(
                206 if "Range" in self.headers else 200, content.read(end - begin), headers
            )

    def _list(self, prefix: str) -> None:
        found = [f for f in sorted(self.folder.rglob("*")) if f.is_file()]
        names = {f.relative_to(self.folder).as_posix(): f.stat().st_size for f in found}
        items = "".join(
            f"<Contents><Key>{name}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
            f"<ETag>&quot;{size}&quot;</ETag><Size>{size}</Size></Contents>"
            for name, size in names.items()
            if name.startswith(prefix)
        )
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{items}</ListBucketResult>"
        self._answer(200, text.encode(), {"Content-Type": "application/xml"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Last-Modified", formatdate(1_700_000_000, usegmt=True))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def main(folder: str) -> None:
    """Serve *folder*."""
    handler = type("FolderHandler", (Handler,), {"folder": Path(folder)})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])

"""Reads ranges of remote files: in threads, again after failures, and twice where one is late."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, assert_never

from penstock.errors import FileChanged
from penstock.storage import retries
from penstock.storage.counts import count
from penstock.storage.hedging import HedgePolicy
from penstock.storage.object_md5 import Md5Verdict, ObjectMd5
from penstock.storage.part_key import PartKey
from penstock.storage.range_cache import cached
from penstock.storage.retries import GivenUp, ReadTrouble, RetryBudget
from penstock.storage.stores import FileStore, StoreError, store_of
from penstock.storage.urls import shown
from penstock.storage.window import RequestWindow

log = logging.getLogger("penstock.storage")

T = TypeVar("T")

DEADLINE = 300.0
"""Seconds for which one request may take until its last byte."""


class UnrangedError(Exception):
    """The server does not send ranges: the file must be read from start to end."""


class _Bucket:
    """What the requests of this process to one bucket share."""

    def __init__(self) -> None:
        self.ready = threading.Condition()
        self.hedges = HedgePolicy()
        self.tells_md5 = True
        """Whether entity tags may be checksums: until one is seen that is none."""
        self._windows: dict[str, RequestWindow] = {}

    def window(self, prefix: str) -> RequestWindow:
        """Return the window of the requests for objects below *prefix*."""
        with self.ready:
            if prefix not in self._windows and len(self._windows) >= _MOST_WINDOWS:
                busy = {name: each for name, each in self._windows.items() if each.running}
                self._windows = busy
            return self._windows.setdefault(prefix, RequestWindow())


_MOST_WINDOWS = 1024
"""How many windows a bucket may have before those without a request are forgotten."""


_buckets: dict[str, _Bucket] = {}
_ahead: dict[PartKey, Future[bytes]] = {}
_AHEAD = 4
"""How many ranges are read before their file is opened."""


def _forget() -> None:
    _buckets.clear()
    _ahead.clear()


if hasattr(os, "register_at_fork"):  # nothing forks on Windows
    os.register_at_fork(after_in_child=_forget)


def read_soon(key: PartKey, budget: RetryBudget) -> Future[bytes]:
    """Begin to read the range *key*; return its bytes when they are there."""
    begun = _ahead.pop(key, None)
    return begun or _in_thread(partial(read_range, key, budget))


def hint(key: PartKey) -> None:
    """Begin to read the range *key* of a file that is opened soon."""
    if key not in _ahead:
        while len(_ahead) >= _AHEAD:  # of readers that were closed
            _ahead.pop(next(iter(_ahead)), None)
        _ahead[key] = _in_thread(partial(read_range, key, RetryBudget()))


def _in_thread(call: Callable[[], bytes]) -> Future[bytes]:
    done: Future[bytes] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as exc:  # noqa: BLE001  whoever waits gets it
            done.set_exception(exc)

    threading.Thread(target=run, name="penstock-read", daemon=True).start()
    return done


def read_range(key: PartKey, budget: RetryBudget) -> bytes:
    """Return the bytes of *key*, from the cache or from the store.

    Raises:
        FileChanged: when the store has another version of the file now.
        FileNotFoundError: when it has no such file.
        PermissionError: when it gives no permission.
        UnrangedError: when it does not send ranges.
        OSError: when it fails for too long; the error names the range and the attempt.
    """
    return cached(key, partial(_read, key, budget)) if key.version else _read(key, budget)


def file_info(url: str) -> Mapping[str, Any] | None:
    """Return what the store tells of the file *url*; None if there is none.

    Raises:
        PermissionError: when it gives no permission.
        OSError: when it fails for too long.
        ValueError, ImportError: when no store is known for the URL, or its package is missing.
    """
    return persist(url, lambda store: store.info())


def persist(url: str, request: Callable[[FileStore], T]) -> T:
    """Return what *request* returns of the store of *url*; a failing request is repeated.

    Raises:
        PermissionError: when the store gives no permission.
        OSError: when it fails for too long.
    """
    budget = RetryBudget(patience=retries.INFO_PATIENCE, listed=False)
    return _persist(PartKey(url, "", 0, 0), budget, lambda store, _: request(store))


def _read(key: PartKey, budget: RetryBudget) -> bytes:
    md5 = ObjectMd5.of(key)

    def request(store: FileStore, bucket: _Bucket) -> bytes:
        data = _Race(store, bucket, key).run()
        if md5 is not None and bucket.tells_md5:
            _check(md5, data, key, bucket)
        return data

    return _persist(key, budget, request)


def _check(md5: ObjectMd5, data: bytes, key: PartKey, bucket: _Bucket) -> None:
    match md5.verdict(data):
        case Md5Verdict.RIGHT:
            pass
        case Md5Verdict.AGAIN:
            raise StoreError(ReadTrouble.BROKEN, "the bytes that it sent have another MD5")
        case Md5Verdict.NO_MD5:
            bucket.tells_md5 = False
            log.warning(
                "The ETag of %s is not the MD5 of its bytes, which two answers agree on, so "
                "objects of this bucket are read without this check. Objects that are encrypted "
                "with KMS have such tags",
                shown(key.url),
            )
        case never:
            assert_never(never)


def _persist(key: PartKey, budget: RetryBudget, request: Callable[[FileStore, _Bucket], T]) -> T:
    """Return what *request* returns, which is repeated while *budget* allows."""
    store, attempt = store_of(key.url), 0
    bucket = _buckets.setdefault(store.bucket, _Bucket())
    while True:
        attempt += 1
        sent = time.monotonic()
        try:
            result = request(store, bucket)
        except StoreError as exc:
            failed = exc
        else:
            budget.succeeded(key.start)
            return result
        now = time.monotonic()
        if failed.trouble is ReadTrouble.SLOW_DOWN:
            count(slow_downs=1)
            window = bucket.window(store.prefix)
            with bucket.ready:
                window.slow_down(sent, now)
        wait = budget.wait(key.start, failed.trouble, now, random.random(), spent=now - sent)
        if isinstance(wait, GivenUp):
            break
        count(retries=1)
        time.sleep(wait)
    raise _final(key, failed, attempt, wait)


def _final(key: PartKey, failed: StoreError, attempt: int, given_up: GivenUp) -> Exception:
    """Return the error that says that *key* cannot be read."""
    part = f", bytes {key.start:,} to {key.stop:,}" if key.stop else ""
    why = f". Penstock does not try again: {given_up.why}" if given_up.why else ""
    where = f"{shown(key.url)}{part}, attempt {attempt}: {failed}{why}"
    match failed.trouble:
        case ReadTrouble.CHANGED:
            return FileChanged(
                f"{shown(key.url)} was changed since it was listed (version {key.version} then; "
                f"{failed}): a run must not mix both. Restore the file, or begin a new run"
            )
        case ReadTrouble.MISSING:
            return FileNotFoundError(where)
        case ReadTrouble.DENIED:
            return PermissionError(f"no permission: {where}")
        case ReadTrouble.UNRANGED:
            return UnrangedError(where)
        case _:
            return OSError(where)


class _Race:
    """One request for a range, and perhaps a second one; the first that begins to answer wins."""

    def __init__(self, store: FileStore, bucket: _Bucket, key: PartKey) -> None:
        self._store, self._bucket, self._key = store, bucket, key
        self._window = bucket.window(store.prefix)
        self._size = key.stop - key.start
        self._news = threading.Condition()
        self._sent, self._winner = 0, -1
        self._failed: list[StoreError] = []
        self._data: bytes | None = None

    def run(self) -> bytes:
        """Return the bytes of the range.

        Raises:
            StoreError: when the request failed, and a second one too if there was one.
        """
        bucket = self._bucket
        with bucket.ready:
            bucket.ready.wait_for(self._window.start)
            bucket.hedges.requested()
            delay = bucket.hedges.delay(self._size)
        self._send()
        with self._news:
            begun = self._news.wait_for(lambda: self._winner >= 0 or self._is_over(), delay)
        if not begun and self._may_hedge():
            self._send()
        with self._news:
            if not self._news.wait_for(self._is_over, DEADLINE):
                self._winner = self._sent  # an answer that comes now is dropped
                raise StoreError(ReadTrouble.BROKEN, f"no answer within {DEADLINE:.0f} s")
        self._judge()
        if self._data is None:
            raise self._failed[-1]
        count(nbytes=len(self._data))
        return self._data

    def _is_over(self) -> bool:
        return self._data is not None or len(self._failed) == self._sent

    def _may_hedge(self) -> bool:
        with self._bucket.ready:
            policy = self._bucket.hedges
            late = policy.delay(self._size) is not None
            return late and self._window.start() and self._take(policy)

    def _take(self, policy: HedgePolicy) -> bool:
        if policy.take():
            return True
        self._window.end()
        return False

    def _judge(self) -> None:
        if self._sent == 2:
            won = self._winner == 1
            count(hedges=1, hedges_won=int(won))
            with self._bucket.ready:
                self._bucket.hedges.ended(won=won)

    def _send(self) -> None:
        number, self._sent = self._sent, self._sent + 1
        count(requests=1)
        thread = threading.Thread(target=self._ask, args=(number,), name="penstock-request")
        thread.daemon = True  # a server that does not answer keeps no process alive
        thread.start()

    def _ask(self, number: int) -> None:
        failed: StoreError | None = None
        try:
            self._receive(number)
        except StoreError as exc:
            failed = exc
        except Exception as exc:  # noqa: BLE001  of a file system; a thread must not end silently
            failed = StoreError(ReadTrouble.REFUSED, f"{type(exc).__name__}: {exc}")
        with self._bucket.ready:
            self._window.end()
            if failed is None:
                self._window.succeeded()
            elif failed.trouble in (ReadTrouble.BROKEN, ReadTrouble.SLOW_DOWN):
                self._bucket.hedges.failed()
            self._bucket.ready.notify_all()
        if failed is not None:
            with self._news:
                self._failed.append(failed)
                self._news.notify_all()

    def _receive(self, number: int) -> None:
        sent = time.monotonic()
        reply = self._store.get(self._key.start, self._key.stop, self._key.version)
        with self._bucket.ready:
            self._bucket.hedges.answered(self._size, time.monotonic() - sent)
        with self._news:
            if self._winner >= 0:
                return  # the other one answered first
            self._winner = number
            self._news.notify_all()
        data = reply.read()
        with self._news:
            self._data = data
            self._news.notify_all()

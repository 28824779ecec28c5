"""A session that gives numbers from a list: no network, and nobody else but who takes them away."""

import json
import threading

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import Closed
from penstock.protocol.ranges import NO_RANGES, RangeSet
from penstock.reader.node import PassCounter


class FakeSession:
    """See `penstock.reader.session.session.Session`. *elements* are what falls to this reader."""

    def __init__(self, elements, slices=None):
        self.waiting = list(map(np.int64, elements))
        self.pulled = []
        """The element at each delivery tag."""
        self.gone = NO_RANGES
        """Tags that were requeued or revoked."""
        self.tracker = None
        self.asking = self.closed = False
        self.lease_until = float("inf")
        self.session_id = "fake"
        self.saves = []
        self.late = []
        """What others requeue once this reader has handed out all it had."""
        self.on_pull = self.on_pulled = lambda session: None
        self._pieces = slices or (lambda limit: limit)
        self._lock = threading.Lock()

    @property
    def over(self):
        return not self.waiting and not self.late and not self.unacked

    @property
    def unacked(self):
        return self.tracker.unacked().missing(len(self.pulled)) - self.gone

    @property
    def lease(self):
        return self

    @property
    def ready(self):
        return bool(self.waiting)

    @property
    def delivered(self):
        return len(self.pulled)

    @property
    def acked(self):
        tags = RangeSet(((0, len(self.pulled)),)) - self.gone - self.unacked
        return [self.pulled[tag] for tag in tags]

    exists, round, skipped, padding = True, 0, 0, False
    transport = {}  # noqa: RUF012  # nobody changes it

    def follow(self, tracker):
        self.tracker = tracker

    def pull(self, limit=None, *, waiting=False):
        self.asking |= waiting
        with self._lock:
            if self.closed:
                raise Closed("this session was closed")
            self.on_pull(self)
            n = self._pieces(limit)
            block, self.waiting = self.waiting[:n], self.waiting[n:]
            self.pulled += block
        self.on_pulled(self)
        return block

    def more(self):
        self.waiting += self.late
        self.late = []
        return bool(self.waiting)

    def measured_by(self, loop):
        self.loop = loop

    def set_waiting(self, asking):
        self.asking = asking

    def expect(self, held):
        """It delivers in one order anyway."""

    def held(self):
        return ()

    def await_lease(self):
        self.lease_until = float("inf")

    def requeue(self, tags):
        with self._lock:
            new = (tags & RangeSet(((0, len(self.pulled)),))) - self.gone
            self.gone |= new
            self.waiting += [self.pulled[tag] for tag in new]

    def recall(self, wanted=lambda tag: True):
        """Take back what operators have unacked, for another reader; one step, as all here."""
        found = []

        def choose(unacked):
            missing = unacked.missing(len(self.pulled)) - self.gone
            found.extend(tag for tag in missing if wanted(tag))
            return RangeSet.of(*((tag, tag + 1) for tag in found))

        with self._lock:
            self.gone |= self.tracker.revoke(choose)
        return [self.pulled[tag] for tag in found]

    def save(self, label, timeout=None, *, without_missing=False):
        self.saves.append((label, timeout))
        return b'{"kind":"job","v":1,"fingerprint":"f","mode":"dynamic","job":"j","repetition":1}'

    def close(self):
        self.closed = True


@pytest.fixture
def fake_session():
    return FakeSession


@pytest.fixture
def sessions(monkeypatch):
    """Sessions in the place of real ones: *make* is called for each repetition that is opened."""

    class Opened(list):
        make = staticmethod(lambda repetition, restore: FakeSession(range(20)))

    opened = Opened()

    def open_session(self, wish_of, repetition=None):
        number = self._count + 1 if repetition is None else repetition
        self._count = number
        session = opened.make(number, wish_of("", number).request.restore)
        session.repetition = number
        opened.append(session)
        return session, number

    monkeypatch.setattr(PassCounter, "open", open_session)
    return opened


@pytest.fixture
def saving(sessions, fake_session):
    """Sessions that save and restore: the state of a job is what is not acked."""

    remote = Dataset.range(20).distribute("distributed_epoch", "127.0.0.1:5000")

    class Saving(fake_session):
        def save(self, label, timeout=None, *, without_missing=False):
            self.saves.append((label, timeout))
            with self._lock:  # a thread of `prefetch` may be about to pull
                unacked = [self.pulled[tag] for tag in self.unacked]
                left = [int(x) for x in (*self.waiting, *unacked)]
            fingerprint = remote.node.remote.definition.fingerprint
            head = {"v": 1, "kind": "job", "fingerprint": fingerprint, "mode": "dynamic"}
            rest = {"job": "j", "repetition": self.repetition, "left": sorted(left)}
            return json.dumps({**head, **rest}).encode()

    def make(repetition, restore):
        return Saving(json.loads(restore)["left"] if restore else range(20))

    sessions.make = make
    return sessions

"""The sessions of one run: which pass of which `distribute` each of them reads.

Every pass of a `repeat` opens the `distribute` inside it again. The session of an earlier pass
stays while operators have unacked elements of that pass. It then stays until the pass is over for
all readers, because it may still receive elements that another reader requeues.

Lock order: a session's own lock, then `PassSessions.lock`. So no session is called with that lock
held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.element import Element
from penstock.engine.unacked import NOTHING_UNACKED, Unacked
from penstock.protocol.ranges import RangeSet
from penstock.reader.core.deliveries import Run
from penstock.reader.delivery.iterator_state import IteratorState, PassNumbers, SavedJob
from penstock.reader.delivery.operators_state import SavedOperators
from penstock.runtime.interrupts import SingleEntry

if TYPE_CHECKING:
    from penstock.engine.loop_time import LoopClock
    from penstock.engine.unacked import UnackedBySession
    from penstock.reader.session.session import Session


@dataclass(slots=True, eq=False)
class PassSession:
    """One pass of one `distribute`. Without a *session* it was over before this run began."""

    key: int
    path: str
    passes: PassNumbers
    saved: SavedJob
    """The entry that a state has for the pass once it is over."""
    session: Session | None
    delivered: int = 0
    """How many elements were delivered; the next one's delivery tag."""
    ended: bool = False
    """Whether its operator reached the end: only requeued elements may still come."""
    begun: bool = False
    """True once a mark names this session; until then all of it is unacked."""
    in_use: bool = True
    """Whether an operator reads it."""
    run: int = 0
    """Which run of the operators reads it. Elements that an older run pulls late are requeued."""
    alone: bool = False
    """Whether there are no operators, so that the waiting loop itself pulls."""
    pulling: threading.Lock = field(default_factory=threading.Lock)

    @property
    def over(self) -> bool:
        """Whether nothing more can come, for any reader."""
        return self.session is None or self.session.over

    def held(self) -> tuple[Run, ...]:
        """Return the delivered elements that are unacked, in the order of delivery."""
        return () if self.session is None else self.session.held()

    def pull(self, run: int, limit: int) -> tuple[list[Element], int]:
        """Return the next elements for operators of *run*, and the delivery tag after them.

        An empty list means that there are none now; requeued elements may still come.
        """
        with self.pulling:
            session = self.session
            if session is None or run != self.run:
                return [], self.delivered
            elements = session.pull(limit, waiting=self.alone)
            behind = session.delivered
            if run != self.run:  # meanwhile, by another thread
                # Until `delivered` moves on, these are unacked: a new run begins at `delivered`.
                session.requeue(RangeSet.of((behind - len(elements), behind)))
                elements = []
            else:
                self.ended |= not elements
            self.delivered = behind
            return elements, behind


class PassSessions:
    """The passes of a run, each with its session, oldest first.

    If `distribute` is *alone*, without operators, the loop itself pulls.
    """

    def __init__(self, saved: IteratorState | None = None, *, alone: bool = False) -> None:
        self.loop: LoopClock | None = None
        """Measures how long the loop waits."""
        self.lock: SingleEntry = SingleEntry()
        self.run: int = 0
        self.alone = alone
        self.asking: bool = False
        self.seeds: Mapping[str, int | None] = {}
        """The seeds of the jobs, by the path of their `distribute`."""
        self.replaces: tuple[str, ...] = ()
        """Readers of the previous run, which this run replaces."""
        self._sessions: tuple[PassSession, ...] = ()
        """Replaced under the lock and never changed, so it is read without the lock."""
        self._keys = 0
        self._saved = saved
        self._passes: dict[str, int] = {} if saved is None else dict(saved.passes)
        """The pass in which each `repeat` that is not yet open begins."""
        self._closed = False
        self.round_before = self.skipped_before = 0
        """Of closed sessions: the round after the last session's, and the elements skipped."""
        self.transport_before: Mapping[str, str] = {}
        """The transport by which the last closed session read each worker."""
        self.follow: Callable[[PassSession], None] = lambda _session: None
        self.operators: SavedOperators | None = None
        """The saved state of the operators, if they continue from it."""

    def first_pass(self, path: str) -> int | None:
        """Return the pass in which the `repeat` at *path* begins, if a state gives one."""
        return self._passes.pop(path, None)

    def enter(
        self,
        path: str,
        passes: PassNumbers,
        make: Callable[[SavedJob | None], tuple[SavedJob, Session | None]],
    ) -> PassSession:
        """Return the session of this pass; *make* opens it, from its saved job if there is one."""
        with self.lock:
            known = next((t for t in self._sessions if (t.path, t.passes) == (path, passes)), None)
            if known is not None:
                known.in_use, known.ended = True, False
                for one in self._sessions:
                    one.run = self.run if one.path == path else one.run
                return known
        job, session = make(None if self._saved is None else self._saved.job(path, passes))
        one = PassSession(self._keys, path, passes, job, session, run=self.run, alone=self.alone)
        with self.lock:
            self._keys += 1
            self._sessions = (*self._sessions, one)
            closed, asking = self._closed, self.asking
        if session is not None:
            session.measured_by(self.loop)
            self.follow(one)
            if self.operators is not None:
                session.expect(self.operators.held(path, [number for _, number in passes]))
            session.set_waiting(asking)
            if closed:
                session.close()
        return one

    def all(self) -> tuple[PassSession, ...]:
        """Return every pass that may still matter, oldest first."""
        return self._sessions

    def live(self) -> list[tuple[PassSession, Session]]:
        """Return the passes that have a session, each with its session."""
        return [(one, one.session) for one in self._sessions if one.session is not None]

    def at(self, path: str) -> list[PassSession]:
        """Return the passes of the `distribute` at *path*."""
        return [one for one in self._sessions if one.path == path]

    def unacked(self, session: PassSession, unacked: Callable[[], UnackedBySession]) -> Unacked:
        """Return the unacked elements of *session*; *unacked* asks the outermost operator.

        If the operator's marks no longer name a pass, but named it or a later one, all is acked.
        If they never did, operators have read ahead, and all of the pass is unacked.
        """
        # Asked first: a pass named before the call of `unacked` is in its answer, or acked.
        told = session.begun or any(t.begun for t in self.at(session.path) if t.key > session.key)
        now = unacked()
        if not session.begun:
            self.note(now)
        return now.get(session.key, NOTHING_UNACKED if told else Unacked())

    def note_new(self, unacked: Callable[[], UnackedBySession]) -> None:
        """Ask the outermost operator which passes it names, unless it has named all of them.

        The caller does so for each block, and a pass without a name is rare.
        """
        for one in self._sessions:
            if not one.begun and one.session is not None:
                self.note(unacked())
                return

    def note(self, unacked: UnackedBySession) -> None:
        """Mark as begun the passes that *unacked*, from the outermost operator, names."""
        for one in self._sessions:
            one.begun = one.begun or one.key in unacked

    def read(self) -> list[Session]:
        """Return the sessions that delivered elements."""
        return [session for one, session in self.live() if one.delivered]

    def passes_of(self, sessions: Sequence[PassSession], repeats: Sequence[str]) -> dict[str, int]:
        """Return the pass at which each of *repeats* must start to read all *sessions* again."""
        left = [dict(one.passes) for one in sessions]
        found: dict[str, int] = {}
        for repeat in sorted(repeats, key=len):
            within = [passes for passes in left if repeat in passes]
            first = min((passes[repeat] for passes in within), default=0)
            found[repeat] = first
            left = [passes for passes in left if passes.get(repeat, first) == first]
        return found

    def begin_at(self, passes: Mapping[str, int]) -> None:
        """Let each `repeat` that is opened next begin in this pass."""
        self._passes = dict(passes)

    def ask(self, waiting: bool) -> None:
        """Note whether the loop waits for an element."""
        self.asking = waiting
        for _, session in self.live():
            session.set_waiting(waiting)

    def detach(self) -> None:
        """Detach the current operators: elements that they pull from now on are requeued."""
        with self.lock:
            self.run += 1
            for one in self._sessions:
                one.in_use = False
                one.run = -1

    def retire(self, has_unacked: Callable[[PassSession], bool]) -> None:
        """Leave the passes that no operator reads, unless *has_unacked* says that some is unacked.

        A pass that ended stays until it is over for all readers. A pass that is over stays known
        while an older pass is not over.
        """
        for one in self._sessions:
            if one.in_use or one.session is None or has_unacked(one):
                continue
            if one.over or not one.ended:
                self._leave(one, one.session)
        if len(self._sessions) == 1:
            return  # the last one always stays known
        with self.lock:
            last = {one.path: one for one in self._sessions}
            kept = self._sessions
            while kept and kept[0].session is None and last[kept[0].path] is not kept[0]:
                kept = kept[1:]
            self._sessions = kept

    def end(self) -> None:
        """Leave all passes at the end: states say that they are over."""
        for one, session in self.live():
            self._leave(one, session)

    def close(self) -> None:
        """Leave all passes."""
        with self.lock:
            self._closed = True
        for _, session in self.live():
            session.close()

    def _leave(self, one: PassSession, session: Session) -> None:
        session.close()
        self.round_before = session.round
        self.skipped_before += session.skipped
        self.transport_before = dict(session.transport)
        one.session, one.saved = None, one.saved.ended()

"""One run of a pipeline that reads jobs, with local operators behind `distribute` or without."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

from penstock.engine import seeds
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.engine.unacked import Unacked, UnackedBySession
from penstock.graph.node import Node
from penstock.graph.run import END, LoopBlock, PipelineRun, SaveWanted, open_root
from penstock.graph.traversal import walk
from penstock.ops.internal.tracked_shuffle import cuts
from penstock.protocol.ranges import RangeSet
from penstock.reader.delivery import iterator_state
from penstock.reader.delivery.direct_iterator import DirectSessionIterator
from penstock.reader.delivery.iterator_state import IteratorState, SavedJob, SavedPass
from penstock.reader.delivery.output_block import Dropped, OutputBlock
from penstock.reader.delivery.sessions import PassSession, PassSessions, SessionApi
from penstock.reader.node import Distribute
from penstock.reader.session.payload import permitted
from penstock.reader.session.session import Session
from penstock.runtime import clock


class JobRun(PipelineRun):
    """What both have in common: tracks, and the jobs' state."""

    far: ClassVar[bool] = True

    def __init__(self, node: Node, shape: str, state: State) -> None:
        self._node, self._shape = node, shape
        self._nodes = {path: n for path, n in walk(node) if isinstance(n, Distribute)}
        self._repeats = [
            path
            for path, n in walk(node)
            if n.op == "repeat" and any(below.startswith(f"{path}.") for below in self._nodes)
        ]
        self._tracks = PassSessions(None if state is None else self._checked(state))

    def save(self, wanted: SaveWanted, owes: Callable[[PassSession], bool]) -> State:
        """Save all jobs that are not over and return the state; *owes* says which are needed."""
        needed: list[PassSession] = []
        for path in self._nodes:
            there = self._tracks.at(path)
            old = (i for i, track in enumerate(there) if not track.over or owes(track))
            needed += there[next(old, len(there) - 1 if there else 0) :]
        turns = self._tracks.turns(needed, self._repeats)
        parts = [SavedPass(t.path, t.turns, self._saved(t, wanted)) for t in needed]
        return IteratorState(turns, tuple(parts)).plain(self._shape, list(self._nodes))

    def _saved(self, track: PassSession, wanted: SaveWanted) -> SavedJob:
        session = track.session
        if session is None or session.over:
            return track.saved.ended()
        own = self._nodes[track.path].timeout
        wait = own if wanted.timeout is None else wanted.timeout
        state = session.save(wanted.label, wait, without_missing=wanted.without_missing)
        return SavedJob.of(json.loads(state))

    def _replace(self, before: PipelineRun | None) -> None:
        if isinstance(before, JobRun):
            live = (track.session for track in before._tracks.live())  # noqa: SLF001
            self._tracks.replaces = tuple(session.token for session in live if session is not None)

    def _checked(self, state: State) -> IteratorState:
        found = iterator_state.of(state, list(self._nodes), self._repeats)
        for part in found.parts:
            part.job.check(*self._nodes[part.path].identity)
        return found


class DirectJobRun(JobRun):
    """A job's elements as they come: an element is taken as the loop takes it."""

    def start(self, before: PipelineRun | None = None) -> None:
        """See `PipelineRun.start`."""
        self._replace(before)
        node = self._nodes[""]
        session = node.enter(Context.local(0, tracks=self._tracks), self._tracks).session
        self._run = None if session is None else DirectSessionIterator(cast("Session", session))

    def advance(self, n: int) -> LoopBlock:
        """See `PipelineRun.advance`."""
        if self._run is None:
            return END
        block, rest = self._run.hand(n)
        return LoopBlock(block[0], rest, len(block)) if block else END

    def state(self, wanted: SaveWanted) -> State:
        """See `PipelineRun.state`. The session knows what was taken."""
        return self.save(wanted, lambda _track: False)

    def close(self) -> None:
        """See `PipelineRun.close`."""
        self._tracks.close()


class TrackedJobRun(JobRun):
    """A job's elements behind operators of the training side, which borrow them.

    One element of the outermost operator is made of several of the job. All of these are taken
    when the loop gets it, and not before: what operators hold is owed (see `engine.owed`).
    """

    def __init__(self, node: Node, shape: str, state: State) -> None:
        super().__init__(node, shape, state)
        self._hold = OutputBlock()
        self._ended = False
        self._pulled = -1
        """How much operators had got when they began anew for late elements."""
        self._cuts = cuts(node)
        self._tracks.follow = self._follow

    def start(self, before: PipelineRun | None = None) -> None:
        """See `PipelineRun.start`."""
        self._replace(before)
        try:
            self._run = self._open(None)
        except BaseException:
            self._tracks.close()
            raise

    def advance(self, n: int) -> LoopBlock:
        """See `PipelineRun.advance`."""
        if self._ended:
            return END
        self._tracks.ask(True)
        try:
            while True:
                self._permit()
                given = self._hold.next()
                if isinstance(given, Dropped):
                    self._give_back(given.others)
                    self._hold.drop(given)
                elif given.size:
                    return self._within_lease(given)
                elif not self._make(n) and not self._await_late():
                    return END
        finally:
            self._tracks.ask(False)

    def state(self, wanted: SaveWanted) -> State:
        """See `PipelineRun.state`. It is that of the jobs: the operators here begin anew."""
        return self.save(wanted, self._owes)

    def close(self) -> None:
        """See `PipelineRun.close`."""
        self._hold.stop()
        self._tracks.close()
        self._run.close()

    # --- the loop's thread ---

    def _open(self, state: State) -> OpIterator:
        context = Context.local(seeds.fresh(), outlasting=True, tracks=self._tracks)
        run = open_root(self._node, context, state)
        self._hold.clear(run.mark())
        return run

    def _make(self, n: int) -> bool:
        """Have the operators make a block; say False at their end."""
        run = self._run
        try:
            block = run.block(n)
        except Exception:
            self._hold.put((), run.mark())
            raise
        except BaseException:
            # Ctrl-C struck somewhere inside, and nobody knows where: what is owed comes again.
            self._begin_anew(None if self._cuts else self._hold.place)
            raise
        self._hold.put(block, run.mark())
        if not all(track.begun for track in self._tracks.live()):
            self._tracks.note(self._hold.debts())
        self._tracks.retire(self._owes)
        return bool(block)

    def _await_late(self) -> bool:
        """Wait until all passes are over for everybody; say True if elements came back before."""
        for track in self._tracks.live():
            session = track.session
            if session is None or not track.dry or self._owes(track):
                continue
            pulled = sum(track.pulled for track in self._tracks.all())
            if session.more() and pulled != self._pulled:
                self._pulled = pulled
                self._begin_anew(None if self._cuts else self._hold.place)
                return True
        self._ended = True
        self._run.close()
        self._tracks.end()
        return False

    def _begin_anew(self, state: State) -> None:
        """Open the operators again; what they held comes again, here or elsewhere."""
        before = self._run
        if state is None:
            self._tracks.begin_at(self._tracks.turns(self._tracks.live(), self._repeats))
        self._tracks.detach()
        before.close()
        for track in self._tracks.live():
            if track.session is not None:
                owed = self._tracks.owed(track, self._hold.debts)
                track.session.give_back(owed.missing(track.session.pulled))
        self._run = self._open(state)

    def _give_back(self, places: Mapping[int, RangeSet]) -> None:
        for track in self._tracks.live():
            runs = places.get(track.key)
            if runs and track.session is not None:
                track.session.give_back(runs)

    def _within_lease(self, given: LoopBlock) -> LoopBlock:
        sessions = self._tracks.read()
        if given.size == 1 or not sessions:
            return given
        permission = sessions[0] if len(sessions) == 1 else _Permission(sessions)
        return given._replace(rest=permitted(given.rest, permission))

    def _permit(self) -> None:
        """Wait until elements may be handed out, if there are any."""
        if not self._hold.left:
            return
        for session in self._tracks.read():
            if clock.now() >= session.permitted_until:
                session.permit()

    def _owes(self, track: PassSession) -> bool:
        return bool(self._tracks.owed(track, self._hold.debts).missing(track.pulled))

    # --- any thread ---

    def _follow(self, track: PassSession) -> None:
        if track.session is not None:
            track.session.follow(_Follower(self._hold, self._tracks, track, self._cuts))


@dataclass(frozen=True, slots=True)
class _Follower:
    """See `penstock.engine.unacked.AckTracker`."""

    hold: OutputBlock
    tracks: PassSessions
    track: PassSession
    cuts: bool

    def owed(self) -> Unacked:
        """See `AckTracker.owed`."""
        return self.tracks.owed(self.track, self.hold.debts)

    def withdraw(self, choose: Callable[[Unacked], RangeSet]) -> RangeSet:
        """See `AckTracker.withdraw`."""

        def pick(debts: Callable[[], UnackedBySession]) -> RangeSet:
            return choose(self.tracks.owed(self.track, debts))

        return self.hold.withdraw(self.track.key, pick)


@dataclass(frozen=True, slots=True)
class _Permission:
    """That of several sessions: an element may be made of any of them."""

    sessions: tuple[SessionApi, ...]

    @property
    def permitted_until(self) -> float:
        """See `LeaseHolder.permitted_until`."""
        return min(session.permitted_until for session in self.sessions)

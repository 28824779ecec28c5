"""One run of a pipeline that reads jobs, with local operators behind `distribute` or without."""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.engine.loop_time import LoopClock
from penstock.engine.unacked import Unacked, UnackedBySession
from penstock.errors import PenstockError, StateError
from penstock.graph.node import Node
from penstock.graph.run import END, LoopBlock, PipelineRun, SaveWanted, open_root, uncoordinated
from penstock.graph.traversal import walk
from penstock.ops.internal.tracked_shuffle import cuts, is_straight, passes_on
from penstock.protocol.loop_time import LinkTraffic, PassRead
from penstock.protocol.ranges import RangeSet
from penstock.reader.core.deliveries import NotAsBefore
from penstock.reader.delivery import iterator_state
from penstock.reader.delivery.iterator_state import IteratorState, SavedJob, SavedPass
from penstock.reader.delivery.operators_state import (
    SavedOperators,
    SavedSource,
    begin_anew_because,
    continued,
    portable,
)
from penstock.reader.delivery.output_block import (
    AGAIN,
    ALL,
    AllLeases,
    Dropped,
    OutputBlock,
    within_lease,
)
from penstock.reader.delivery.sessions import PassSession, PassSessions
from penstock.reader.node import Distribute, job_seeds
from penstock.runtime import clock
from penstock.runtime.interrupts import is_interrupt

if TYPE_CHECKING:
    from penstock.reader.session.session import Session


class JobRun(PipelineRun):
    """A job's elements, and the operators of the training side behind it, if there are any.

    One element of the outermost operator may be made of several of the job. All of these are acked
    when the loop gets it; until then they are unacked (see `engine.unacked`).
    """

    far: ClassVar[bool] = True

    def __init__(self, node: Node, shape: str, state: State, seed: int | None = None) -> None:
        super().__init__()
        self._node, self._shape = node, shape
        stages = list(walk(node))
        self._nodes = {path: n for path, n in stages if isinstance(n, Distribute)}
        self._repeats = [
            path
            for path, n in stages
            if n.op == "repeat" and any(below.startswith(f"{path}.") for below in self._nodes)
        ]
        self._alone = isinstance(node, Distribute)
        self._unsaved = passes_on(node) or any(
            n.op == "cache" and any(below.startswith(f"{path}.") for below in self._nodes)
            for path, n in stages
        )
        """Whether operators hold nothing to save, or elements that no job delivers again."""
        saved = None if state is None else self._checked(state)
        self._sessions = PassSessions(saved, alone=self._alone)
        self._sessions.follow = self._follow
        self._output_block = OutputBlock(straight=is_straight(node))
        self._ended = False
        self._reopen: tuple[State] | None = None
        """The state at which operators are to be opened, if a signal handler interrupted that."""
        self._delivered = -1
        """How many elements were delivered when operators began anew for late ones."""
        self._splits_elements = cuts(node)
        found = job_seeds(node, self._nodes, seed)
        self._sessions.seeds, self._seed = found.jobs, found.operators
        continues = saved is not None and not passes_on(node)
        self._sessions.operators = self._continued(saved) if saved and continues else None

    def start(self, before: PipelineRun | None = None) -> None:
        """See `PipelineRun.start`."""
        self._replace(before)
        try:
            found = self._sessions.operators
            if found is not None:
                self._seed = found.seed
            self._run = self._open(None if found is None else found.at)
        except BaseException:
            self._sessions.close()
            raise

    def measured_by(self, loop: LoopClock) -> None:
        """See `PipelineRun.measured_by`: the dispatcher is to know."""
        self._sessions.loop = loop

    def advance(self, n: int) -> LoopBlock:
        """See `PipelineRun.advance`."""
        if self._ended:
            return END
        if self._reopen is not None:
            self._open_again(*self._reopen)
        if not self._alone or self._output_block.left:
            self._sessions.ask(True)  # else to pull the next block says so
        try:
            while True:
                if not self._output_block.left and not self._make(n) and not self._await_late():
                    return END
                sessions = self._sessions.read()
                given = self._output_block.next(sessions)
                if given is AGAIN:
                    self._await_lease(sessions)
                elif isinstance(given, Dropped):
                    self._requeue(given.others)
                    self._output_block.drop(given)
                elif given.size:
                    return _within_lease(given, sessions)
        finally:
            self._sessions.ask(False)

    @property
    def ready(self) -> bool:
        """See `PipelineRun.ready`: elements came to this very thread, and no operator is behind."""
        if not self._alone or self._ended or self._output_block.left:
            return False
        live = self._sessions.live()
        return len(live) == 1 and live[0][1].ready_here

    @property
    def waits(self) -> bool:
        """See `PipelineRun.waits`."""
        makes = not self._alone or self._ended or self._output_block.left
        live = () if makes else self._sessions.live()
        return bool(live) and not any(session.ready for _, session in live)

    def state(self, wanted: SaveWanted) -> State:
        """See `PipelineRun.state`. It is that of the jobs, and of the operators here."""
        place = self._output_block.position
        needed: list[PassSession] = []
        for path in self._nodes:
            there = self._sessions.at(path)
            old = (i for i, one in enumerate(there) if not one.over or self._has_unacked(one))
            needed += there[next(old, len(there) - 1 if there else 0) :]
        passes = self._sessions.passes_of(needed, self._repeats)
        parts = [SavedPass(t.path, t.passes, self._saved(t, wanted)) for t in needed]
        operators = self._operators_at(place, needed, parts)
        state = IteratorState(passes, tuple(parts), operators)
        return state.plain(self._shape, list(self._nodes))

    @property
    def round(self) -> int:
        """See `PipelineRun.round`."""
        session = self._consumer("round")
        return self._sessions.round_before if session is None else session.round

    @property
    def padding(self) -> bool:
        """See `PipelineRun.padding`."""
        session = self._consumer("padding")
        return session is not None and session.padding

    @property
    def passes_read(self) -> tuple[PassRead, ...]:
        """See `PipelineRun.passes_read`."""
        return tuple(session.pass_read for _, session in self._sessions.live())

    @property
    def awaited(self) -> str:
        """See `PipelineRun.awaited`."""
        said = (session.awaited for _, session in self._sessions.live())
        return next(filter(None, said), "")

    @property
    def skipped(self) -> int:
        """See `PipelineRun.skipped`."""
        now = sum(session.skipped for _, session in self._sessions.live())
        return self._sessions.skipped_before + now

    @property
    def transport(self) -> Mapping[str, str]:
        """See `PipelineRun.transport`: of all passes under way, or else of the last."""
        now = [session.transport for _, session in self._sessions.live()]
        return dict(ChainMap(*map(dict, now))) if now else self._sessions.transport_before

    @property
    def cuts(self) -> tuple[str, ...]:
        """See `PipelineRun.cuts`."""
        return tuple(chain.from_iterable(node.remote.cuts for node in self._nodes.values()))

    @property
    def links(self) -> tuple[LinkTraffic, ...]:
        """See `PipelineRun.links`: of all passes under way."""
        return tuple(chain.from_iterable(session.links for _, session in self._sessions.live()))

    def skip_to(self, number: int, /) -> None:
        """See `PipelineRun.skip_to`. What operators hold of later rounds comes again."""
        session = self._consumer("skip_to")
        if session is not None:
            later = number > session.round
            session.skip_to(number)
            if later:
                self._begin_anew(None)

    def close(self) -> None:
        """See `PipelineRun.close`."""
        self._output_block.stop()
        self._sessions.close()
        self._run.close()

    # --- the loop's thread ---

    def _open(self, state: State) -> OpIterator:
        context = Context.local(self._seed, persistent=True, sessions=self._sessions)
        context = replace(context, times=self.times, tallies=self.tallies)
        run = open_root(self._node, context, state)
        self._output_block.clear(run.mark())
        return run

    def _make(self, n: int) -> bool:
        """Have the operators make a block; return False at their end.

        Without operators it is as long as it came.
        """
        run = self._run
        try:
            try:
                block = run.block(ALL if self._alone else n)
            except PenstockError as exc:
                if not is_interrupt(exc):  # an operator's own error, or the job's
                    self._output_block.put((), run.mark())
                raise
            self._output_block.put(block, run.mark())
        except NotAsBefore:
            begin_anew_because("what they held comes in another order, or went elsewhere")
            self._begin_anew(None)
            return self._make(n)
        except BaseException as exc:
            # Ctrl-C struck somewhere in operators, it is not known where: unacked elements are
            # replayed. Without operators it struck where a session waits, which changes nothing.
            own = isinstance(exc, PenstockError) and not is_interrupt(exc)
            if not own and not (self._alone and is_interrupt(exc)):
                self._begin_anew(None if self._splits_elements else self._output_block.tag)
            raise
        self._sessions.note_new(self._output_block.unacked)
        self._sessions.retire(self._has_unacked)
        return bool(block)

    def _await_late(self) -> bool:
        """Wait until all passes are over for all readers; return True if elements came before."""
        for one, session in self._sessions.live():
            if not one.ended or self._has_unacked(one):
                continue
            pulled = sum(one.delivered for one in self._sessions.all())
            if session.more() and pulled != self._delivered:
                self._delivered = pulled
                self._begin_anew(None if self._splits_elements else self._output_block.tag)
                return True
        self._ended = True
        self._run.close()
        self._sessions.end()
        return False

    def _begin_anew(self, state: State) -> None:
        """Open the operators again; what they had unacked is requeued."""
        before = self._run
        if state is None:
            live = [one for one, _ in self._sessions.live()]
            self._sessions.begin_at(self._sessions.passes_of(live, self._repeats))
        self._sessions.detach()
        before.close()
        for one, session in self._sessions.live():
            unacked = self._sessions.unacked(one, self._output_block.unacked)
            session.requeue(unacked.missing(session.delivered))
        self._reopen = (state,)
        self._open_again(state)

    def _open_again(self, state: State) -> None:
        self._run = self._open(state)
        self._reopen = None

    def _requeue(self, tags: Mapping[int, RangeSet]) -> None:
        for one, session in self._sessions.live():
            if runs := tags.get(one.key):
                session.requeue(runs)

    def _await_lease(self, sessions: Sequence[Session]) -> None:
        """Wait until elements may be handed out, if there are any."""
        if not self._output_block.left:
            return
        for session in sessions:
            if clock.now() >= session.lease_until:
                session.await_lease()

    def _has_unacked(self, one: PassSession) -> bool:
        return bool(self._sessions.unacked(one, self._output_block.unacked).missing(one.delivered))

    def _saved(self, one: PassSession, wanted: SaveWanted) -> SavedJob:
        session = one.session
        if session is None or session.over:
            return one.saved.ended()
        own = self._nodes[one.path].timeout
        wait = own if wanted.timeout is None else wanted.timeout
        state = session.save(wanted.label, wait, without_missing=wanted.without_missing)
        return SavedJob.of(json.loads(state))

    def _operators_at(
        self, place: tuple[Mark, int], needed: Sequence[PassSession], parts: Sequence[SavedPass]
    ) -> State:
        """Return what the operators hold at *place*; None if they are to begin again."""
        mark, left = place
        if self._unsaved or self._output_block.position != place:
            return None
        try:
            at = portable(mark(left), revoked=self._output_block.revoked)
        except StateError:  # one that reads jobs in an inner dataset
            return None
        sources = [
            SavedSource.of(saved, one.held(), self._nodes[one.path].consumer)
            for one, saved in zip(needed, parts, strict=True)
        ]
        if at is None or None in sources:
            return None
        return SavedOperators(self._seed, at, tuple(filter(None, sources))).plain()

    def _continued(self, saved: IteratorState) -> SavedOperators | None:
        consumers = {path: node.consumer for path, node in self._nodes.items()}
        return continued(saved.operators, saved.pipeline, self._shape, consumers)

    def _consumer(self, what: str) -> Session | None:
        """Return the session that reads rounds now, if there is one: else the pass is over."""
        paths = [path for path, node in self._nodes.items() if node.in_rounds]
        if len(paths) != 1:
            raise uncoordinated(what, len(paths))
        sessions = (one.session for one in reversed(self._sessions.at(paths[0])))
        return next((session for session in sessions if session is not None), None)

    def _replace(self, before: PipelineRun | None) -> None:
        if isinstance(before, JobRun):
            live = before._sessions.live()  # noqa: SLF001
            self._sessions.replaces = tuple(session.session_id for _, session in live)

    def _checked(self, state: State) -> IteratorState:
        found = iterator_state.of(state, list(self._nodes), self._repeats)
        for part in found.parts:
            part.job.check(*self._nodes[part.path].identity)
        return found

    # --- any thread ---

    def _follow(self, one: PassSession) -> None:
        if one.session is not None:
            one.session.follow(
                _PassTracker(self._output_block, self._sessions, one, self._splits_elements)
            )


@dataclass(frozen=True, slots=True)
class _PassTracker:
    """See `penstock.engine.unacked.AckTracker`."""

    output_block: OutputBlock
    sessions: PassSessions
    session: PassSession
    splits_elements: bool

    def unacked(self) -> Unacked:
        """See `AckTracker.unacked`."""
        return self.sessions.unacked(self.session, self.output_block.unacked)

    def revoke(self, choose: Callable[[Unacked], RangeSet]) -> RangeSet:
        """See `AckTracker.revoke`."""

        def pick(unacked: Callable[[], UnackedBySession]) -> RangeSet:
            return choose(self.sessions.unacked(self.session, unacked))

        return self.output_block.revoke(self.session.key, pick)


def _within_lease(given: LoopBlock, sessions: Sequence[Session]) -> LoopBlock:
    if given.size == 1 or not sessions:
        return given
    leases = [session.lease for session in sessions]
    lease = leases[0] if len(leases) == 1 else AllLeases(leases)
    return LoopBlock(given.element, within_lease(given.rest, lease), given.size)

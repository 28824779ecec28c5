"""What really happened in coordinated reads. What is decided and said is held against it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from penstock.errors import PenstockError
from penstock.protocol.control import ReaderHeartbeat, ReaderView, SaveResult
from penstock.protocol.data import FrameHeader
from penstock.protocol.rounds import LostConsumer, Remainder
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, TaskId
from penstock_dispatcher.core.account import Account
from penstock_dispatcher.core.facts import (
    AttemptStarted,
    CheckpointSaved,
    ConsumerJoined,
    Fact,
    IterationDeleted,
    IterationOpened,
    IterationRestored,
    ReaderJoined,
    ReaderRemoved,
    RoundsAdvanced,
    SaveCompleted,
    TaskCreated,
    TaskDone,
)
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.state import DispatcherState
from simulation.dispatcher import SETTINGS
from simulation.pipeline import Element
from simulation.rounds_pass import Key, Round, RoundsPass, SessionLife, Task
from simulation.rounds_plan import RoundsPlan
from simulation.world import LawBroken, World

LEASE = 0.9 * SETTINGS.consumer_lease
"""For so long a consumer may be silent for certain: clocks differ."""

SPACING = 0.019
"""Seconds between two reports of a consumer, at least."""


@dataclass(frozen=True, slots=True)
class SavedRounds:
    """A saved state: the round at which all stood, and what was taken before it."""

    state: bytes
    round: int
    contents: dict[Key, Element]
    totals: dict[int, int]


class RoundsLedger:
    """Every incarnation of the pass; the last one counts."""

    def __init__(self, world: World, plan: RoundsPlan, origin: SavedRounds | None) -> None:
        self.world, self.plan, self.origin = world, plan, origin
        self.passes: dict[IterationId, RoundsPass] = {}
        self.current = IterationId(0)
        self.saved: SavedRounds | None = None
        self._readers: dict[ReaderId, str] = {}
        self._of_task: dict[TaskId, IterationId] = {}

    @property
    def last(self) -> RoundsPass:
        """The pass that counts."""
        return self.passes[self.current]

    # --- consumers ---

    def begins(
        self, iteration: IterationId, session: str, index: int, asked: int | None, stamp: int
    ) -> None:
        """Note that a process begins to read."""
        if iteration not in self.passes:  # it is over, and forgotten
            self.passes[iteration] = self._new_pass(0, -1)
        self.passes[iteration].sessions[session] = SessionLife(index, asked, stamp)

    def hears(self, view: ReaderView) -> None:
        """Note that a consumer was told something."""
        one, life = self._session(view.session)
        if view.rounds is None or view.status is not ReaderStatus.LIVE:
            return
        one.told = max(one.told, view.rounds.released)
        one.told_last = view.rounds.last if view.rounds.last is not None else one.told_last
        if life.next is None:
            life.next = view.rounds.start
            one.advance_place(life.index, life.next)

    def arrives(self, iteration: IterationId, session: str, frame: FrameHeader) -> None:
        """Note that an element is at a consumer."""
        life = self.passes[iteration].sessions[session]
        life.arrived.add((frame.task, frame.attempt, frame.group))

    def take(
        self,
        iteration: IterationId,
        session: str,
        number: int,
        frame: FrameHeader,
        element: Element,
    ) -> None:
        """Note that a loop took its element of a round."""
        self.world.stats["takes"] += 1
        if self.world.lines:
            self.world.note(session, f"takes round {number}: {frame}")
        one = self.passes[iteration]
        one.take(session, number, frame, element)
        one.sessions[session].took_at = self.world.now

    def skips(self, iteration: IterationId, session: str, number: int) -> None:
        """Note that a loop goes on with round *number*."""
        one = self.passes[iteration]
        life = one.sessions[session]
        life.next = number
        life.stood_at.add(number)
        one.jumped.add(life.index)
        one.advance_place(life.index, number)
        self.world.stats["skips"] += 1

    def comes_to_barrier(self, iteration: IterationId, session: str) -> None:
        """Note where a loop stands that saves."""
        life = self.passes[iteration].sessions[session]
        life.stood_at = set() if life.next is None else {life.next}

    def requeues(self, iteration: IterationId, session: str) -> None:
        """Note that what a consumer had may be fetched again from a later attempt."""
        self.passes[iteration].sessions[session].requeued = True

    def is_told_of_lost(self, iteration: IterationId, session: str, text: str) -> None:
        """Note for whom a loop was told it waits in vain."""
        named = set(map(int, re.findall(r"consumer (\d+)", text)))
        if not named:
            raise LawBroken(f"law 10: nobody is named: {text}")
        self.passes[iteration].sessions[session].told_of |= named
        self.world.stats["told of the lost"] += 1

    def ends(
        self, iteration: IterationId, session: str, number: int | None, error: PenstockError | None
    ) -> None:
        """Note that the pass is over for a loop, at round *number*."""
        self.world.note(session, f"ends at round {number}: {error}")
        if (error is not None) is not (self.plan.fails >= 0):
            raise LawBroken(f"a loop is told at its end: {error!r}")
        one = self.passes[iteration]
        one.ends.append(None if one.sessions[session].next is None else number)
        one.sessions[session].ended = error is None

    def is_out_of_reach(self, iteration: IterationId, session: str) -> bool:
        """Return whether a consumer asks for a round that was or will be, for a reason."""
        one = self.passes[iteration]
        life = one.sessions[session]
        asks = life.asked if life.next is None else life.next
        there = asks is None or one.floor <= asks <= one.released
        return not there and bool(self.plan.twins or life.index in one.jumped)

    # --- what a dispatcher hears and says ---

    def heard(self, heartbeat: ReaderHeartbeat) -> None:
        """See `Witness.heard`."""
        one, report = self.passes.get(heartbeat.iteration), heartbeat.rounds
        life = None if one is None else one.sessions.get(heartbeat.session)
        if life is None or report is None:
            return
        life.heard_at = self.world.now
        if heartbeat.reader is not None:
            life.reported = max(life.reported, report.taken)
            if report.taken > (life.next or 0):
                raise LawBroken(f"law 3: {heartbeat.session} reports {report.taken} as taken")

    def told(self, view: ReaderView) -> None:
        """See `Witness.told`."""
        one, life = self._session(view.session)
        if view.rounds is None:
            return
        one.check_entries(view.rounds)
        for lost in view.rounds.lost:
            self._check_lost(one, lost)
        reads = life.next is not None and view.status is ReaderStatus.LIVE
        if reads and view.rounds.first > (life.next or 0):
            raise LawBroken(f"law 5: {view.session} is told of rounds from {view.rounds.first} on")

    def _check_lost(self, one: RoundsPass, lost: LostConsumer) -> None:
        session, now = one.members.get(lost.index), self.world.now
        if session in one.left | one.expired:
            return
        known = one.sessions.get(session) if session is not None else None
        heard = one.since if known is None else max(one.since, known.heard_at)
        if now - heard < LEASE:
            raise LawBroken(f"law 10: a living consumer is named: {lost}")
        if known is not None and known.heard_at > one.since and known.reported == one.last:
            raise LawBroken(f"law 10: a consumer at the end is named: {lost}")

    def _session(self, session: str) -> tuple[RoundsPass, SessionLife]:
        found = (one for one in self.passes.values() if session in one.sessions)
        one = next(found)
        return one, one.sessions[session]

    # --- facts ---

    def restarted(self, state: DispatcherState) -> None:
        """See `Witness.restarted`."""
        for name, iteration in state.iterations.items():
            self.current = name
            self._check_durable(name, iteration)

    def _check_durable(self, name: IterationId, iteration: IterationRecord) -> None:
        one, rounds = self.passes[name], iteration.rounds
        one.since = self.world.now
        if rounds is None:
            raise LawBroken("law 2: it is not read in rounds any more")
        if rounds.released < one.told:
            raise LawBroken(f"law 2: {one.told} rounds were released, and are {rounds.released}")
        if one.told_last is not None and rounds.last != one.told_last:
            raise LawBroken(f"law 2: the end was {one.told_last}, and is {rounds.last}")
        del one.log[rounds.released - one.first :]
        for number, entry in enumerate(rounds.entries(), rounds.floor):
            known = one.entry(number)
            if (known.task, known.group) != (entry.task, entry.group):
                raise LawBroken(f"law 2: round {number} was {known}, and is {entry}")
        one.floor, one.last = rounds.floor, rounds.last
        for task in one.tasks.keys() - iteration.tasks.keys():
            if not iteration.finished:
                del one.tasks[task]
        for task, known_task in one.tasks.items():
            if task in iteration.tasks:
                known_task.attempt = iteration.tasks[task].attempt
                known_task.total = rounds.tasks[task].total
        for member in rounds.members.values():
            session = iteration.readers[member.reader].session
            ended = one.sessions[session].ended and not iteration.finished
            if ended and member.taken != rounds.last:
                raise LawBroken(f"law 14: {session} was told of the end, and is at {member.taken}")
        one.members = {
            index: iteration.readers[member.reader].session
            for index, member in rounds.members.items()
        }
        one.left, one.expired = (
            {r.session for r in iteration.readers.values() if r.status is status}
            for status in (ReaderStatus.LEFT, ReaderStatus.EXPIRED)
        )
        self._readers |= {name: reader.session for name, reader in iteration.readers.items()}

    def decided(self, fact: Fact) -> None:
        """See `Witness.decided`."""
        match fact:
            case IterationOpened() | IterationRestored():
                self._opened(fact)
            case TaskCreated(task, iteration, index):
                self.passes[iteration].tasks[task] = Task(index)
                self._of_task[task] = iteration
                if self.passes[iteration].last is not None:
                    raise LawBroken("law 12: a task is created behind the end")
            case AttemptStarted(task, attempt, _, acked):
                one = self._pass_of(task)
                one.tasks[task].attempt = attempt
                self.world.stats["attempts again"] += attempt > 1
                if acked.more.spans or acked.floor > one.element_floor(task):
                    raise LawBroken(f"law 3: {acked} of task {task} counts as taken")
            case CheckpointSaved(task, checkpoint):
                if checkpoint.number > self._pass_of(task).element_floor(task):
                    raise LawBroken("law 7: a state is kept, and not all took what is before it")
            case TaskDone(task, _):
                one = self._pass_of(task)
                if one.groups(task) != one.groups(task, one.floor):
                    raise LawBroken("law 12: a task is done, and not all took its groups")
            case ReaderJoined(_, reader, session):
                self._readers[reader] = session
            case ConsumerJoined():
                self._joined(fact)
            case ReaderRemoved(iteration, reader, status):
                one, session = self.passes[iteration], self._readers[reader]
                (one.left if status is ReaderStatus.LEFT else one.expired).add(session)
            case RoundsAdvanced():
                self._advanced(self.passes[fact.iteration], fact)
            case IterationDeleted(_, superseded=True):
                self.world.stats["superseded"] += 1
            case SaveCompleted(iteration, result):
                self.world.stats["saves" if result.state else "saves failed"] += 1
                if result.state:
                    self._saved(self.passes[iteration], result)

    def _pass_of(self, task: TaskId) -> RoundsPass:
        return self.passes[self._of_task[task]]

    def _new_pass(self, first: int, turn: int) -> RoundsPass:
        one = RoundsPass(self.plan.consumers, Remainder(self.plan.remainder), first, turn)
        one.since = self.world.now
        return one

    def _opened(self, fact: IterationOpened | IterationRestored) -> None:
        self.current = fact.iteration
        if isinstance(fact, IterationOpened):
            self.passes[fact.iteration] = self._new_pass(0, -1)
            return
        assert self.origin is not None
        if fact.rounds is None or fact.rounds.round != self.origin.round:
            raise LawBroken(f"a state of round {self.origin.round} goes on at {fact.rounds}")
        one = self.passes[fact.iteration] = self._new_pass(fact.rounds.round, fact.rounds.turn)
        one.contents, one.totals = dict(self.origin.contents), dict(self.origin.totals)
        for at in fact.tasks:
            one.tasks[at.task] = Task(at.index, at.acked.floor)
            self._of_task[at.task] = fact.iteration

    def _joined(self, fact: ConsumerJoined) -> None:
        one, session = self.passes[fact.iteration], self._readers[fact.reader]
        life, now = one.sessions[session], self.world.now
        if not one.floor <= fact.start <= one.released:
            raise LawBroken(f"law 8: {fact} begins outside {one.floor} to {one.released}")
        before = one.members.get(fact.index)
        one.members[fact.index] = session
        one.left.discard(session)
        one.expired.discard(session)
        if life.index != fact.index or life.stamp != fact.stamp:
            raise LawBroken(f"law 8: {fact} is of another consumer")
        if before is not None and before != session:
            self.world.stats["joins again"] += 1
            earlier = one.sessions[before]
            silent = now - max(earlier.heard_at, one.since) > LEASE
            if earlier.stamp > life.stamp and not silent and before not in one.left:
                raise LawBroken(f"law 8: {session} displaces {before}, which began later")
        if life.next is not None:
            if fact.start > life.next:
                raise LawBroken(f"law 8: {session} is to begin again behind its place")
        elif life.asked is not None:
            if life.asked != fact.start:
                raise LawBroken(f"law 8: {session} asked for {life.asked}, and gets {fact.start}")
        else:
            for index, name in one.members.items():
                other = one.sessions[name]
                heard = index != fact.index and now - other.heard_at < LEASE
                if heard and name not in one.left and other.reported > fact.start:
                    raise LawBroken(f"law 8: {session} begins at {fact.start}, behind {name}")

    def _advanced(self, one: RoundsPass, fact: RoundsAdvanced) -> None:
        if one.last is not None and (fact.entries or fact.last != one.last):
            raise LawBroken("law 12: rounds are released behind the end")
        for task in fact.entries:
            self._release(one, task)
        for task, total in fact.totals.items():
            one.tasks[task].total = total
        one.last = fact.last
        if one.last not in (None, one.released):
            raise LawBroken(f"law 12: the end is {one.last}, and {one.released} are released")
        least = min(one.place.get(index, one.first) for index in range(one.consumers))
        if not one.floor <= fact.floor <= min(one.released, least):
            raise LawBroken(f"law 3: the floor moves to {fact.floor}, and not all are at {least}")
        one.floor = fact.floor
        in_hand = one.released - one.floor
        self.world.stats["most in hand"] = max(self.world.stats["most in hand"], in_hand)

    def _release(self, one: RoundsPass, task: TaskId) -> None:
        group, attempt = one.groups(task), one.tasks[task].attempt
        for index in range(one.consumers):
            session = one.members.get(index)
            if session is None or (task, attempt, group) not in one.sessions[session].arrived:
                raise LawBroken(f"law 4: {session}, consumer {index}, has no {group} of {task}")
        one.log.append(Round(task, group, attempt, tuple(one.members.values())))
        self.world.stats["rounds"] += 1

    def _saved(self, one: RoundsPass, result: SaveResult) -> None:
        number = json.loads(result.state)["rounds"]["round"]
        lives = [one.sessions[session] for session in one.members.values()]
        # Who skips what is not released yet stands at what is, and skips it then.
        places = [{min(place, one.released) for place in life.stood_at} for life in lives]
        if len(lives) < one.consumers or not all(number in some for some in places):
            raise LawBroken(f"a save succeeds at {number}, and consumers stood at {places}")
        self.saved = SavedRounds(result.state, number, dict(one.contents), one.by_index())

    # --- the end ---

    def check_end(self, account: Account | None) -> None:
        """Hold all that happened against what should."""
        plan, one = self.plan, self.last
        whole = plan.size * plan.passes
        made = whole if plan.dynamic else whole * len({*one.totals, *self._indexes(one)})
        failed = plan.fails >= 0
        calm = plan.kind in ("calm", "stuck")
        exact = not plan.twins and not failed and (calm or plan.rejoin == "own")
        one.check_end(None if failed else made, exact=exact, ordered=plan.ordered)
        if account is None:
            return
        if faults := account.faults():
            raise LawBroken(f"account: {'; '.join(faults)}")
        if not failed and not account.finished:
            raise LawBroken("law 11: the pass does not finish")
        if not account.finished:
            return
        if account.elements != made:
            raise LawBroken(f"account: {account.elements} elements of {made}")
        if exact and not one.jumped and not account.unreported:
            before = len(self.origin.contents) if self.origin else 0
            if self.origin is None and account.consumed != sum(one.takes.values()):
                takes = sum(one.takes.values()) + before
                raise LawBroken(f"account: {account.consumed} count as handed out, {takes} were")

    @staticmethod
    def _indexes(one: RoundsPass) -> set[int]:
        return {task.index for task in one.tasks.values()}

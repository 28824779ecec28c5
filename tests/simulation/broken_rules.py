"""The rules of the protocol, each broken on purpose: a rule that no law misses proves nothing.

A rule is broken in the real code, by putting something else in the place of a function of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from penstock.protocol.control import SplitGrant, TaskAssignment
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED
from penstock.protocol.splits import SplitLog
from penstock.protocol.types import ReaderStatus
from penstock.reader.core.ack_collector import AckCollector
from penstock.reader.core.flow_control import FlowControl
from penstock.reader.core.membership import KnownTasks, Membership
from penstock.reader.core.state_machine import ReaderCore
from penstock.reader.core.task_reports import TaskReports
from penstock.reader.core.task_stream import TaskStream
from penstock_dispatcher.core import saves, scheduler, views, workers
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.events import AppendFact, SendCommand, SendView
from penstock_dispatcher.core.facts import AttemptStarted, WorkerRegistered
from penstock_dispatcher.core.records import WorkerRecord
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.journal.journal import DurableJournal
from penstock_worker.core import state_machine
from penstock_worker.core.attempt import Attempt
from penstock_worker.core.checkpoints import AttemptCheckpoints
from penstock_worker.core.first_come import FirstCome
from penstock_worker.core.ownership import Ownership
from penstock_worker.core.sharing_readers import SharingReaders
from simulation.dispatcher import SimDispatcher
from simulation.rules import Rules, put

RULES = Rules()


@RULES.add("a new attempt starts when every live reader has reported on the old one")
def barrier(stack: ExitStack) -> None:
    right = scheduler.fenced_report

    def report(*args: Any) -> Any:
        given = right(*args)
        return NO_RANGES if given is None else given

    put(stack, scheduler, "fenced_report", report)


@RULES.add("a reader that reported accepts no frame of that attempt")
def fence(stack: ExitStack) -> None:
    right_seen, right_received = FlowControl.on_task_view, ReaderCore.on_frame

    def seen(self: FlowControl, stream: TaskStream, view: Any) -> None:
        streaming = stream.streaming
        if view.worker is None:
            stream.streaming = False  # so that it is not closed
        right_seen(self, stream, view)
        if view.worker is None:
            stream.streaming = streaming

    def received(self: ReaderCore, frame: Any, *args: Any) -> None:
        stream = self.tasks.get(frame.task)
        fence = stream.fence if stream is not None else 0
        if stream is not None:
            stream.fence = 0
        right_received(self, frame, *args)
        if stream is not None:
            stream.fence = fence

    put(stack, FlowControl, "on_task_view", seen)
    put(stack, ReaderCore, "on_frame", received)


@RULES.add("a new attempt keeps for a reader what that reader has buffered")
def buffered_stays_reserved(stack: ExitStack) -> None:
    right = AttemptStarted

    def started(task: Any, attempt: Any, worker: Any, acked: Any, held: Any, *rest: Any) -> Any:
        return right(task, attempt, worker, acked, {}, *rest)

    put(stack, scheduler, "AttemptStarted", started)


@RULES.add("a restarted worker's attempts are over, though its name is the same")
def new_incarnation(stack: ExitStack) -> None:
    right = DispatcherState._apply_to_peers

    def welcome(ctx: DecisionContext, heartbeat: Any, entry: Any) -> None:
        ctx.commit(WorkerRegistered(heartbeat.worker, heartbeat.incarnation, entry))
        ctx.mark_all_dirty()

    def apply(self: DispatcherState, fact: Any) -> None:
        if isinstance(fact, WorkerRegistered) and fact.worker in self.workers:
            mine = self.workers[fact.worker].tasks
            self.workers[fact.worker] = WorkerRecord(fact.incarnation, mine)
        else:
            right(self, fact)

    put(stack, workers, "_register", welcome)
    put(stack, DispatcherState, "_apply_to_peers", apply)


@RULES.add("a worker forgets an element when it is acked, not when it is sent")
def keep_until_acked(stack: ExitStack) -> None:
    put(stack, Ownership, "_requeue", lambda *_: None)


@RULES.add("a subscription says what is buffered; only the rest is given to others")
def subscribe_says_buffered(stack: ExitStack) -> None:
    right = Ownership.reconcile

    def reconcile(self: Ownership, reader: Any, buffered: Any) -> Any:
        return right(self, reader, NO_RANGES)

    put(stack, Ownership, "reconcile", reconcile)


@RULES.add("subscriptions are numbered; frames and requests of an older one are ignored")
def subscriptions(stack: ExitStack) -> None:
    right = ReaderCore.on_frame

    def received(self: ReaderCore, frame: Any, *args: Any) -> None:
        share = self.tasks.get(frame.task)
        subscription = frame.subscription if share is None else share.subscription
        right(self, replace(frame, subscription=subscription), *args)

    put(stack, ReaderCore, "on_frame", received)
    put(stack, SharingReaders, "is_superseded", lambda *_: False)


@RULES.add("a reader drops an element that it has acked")
def drop_known(stack: ExitStack) -> None:
    right = TaskStream.receive

    def receive(self: TaskStream, *args: Any) -> None:
        acked, self.acked = self.acked, NOTHING_ACKED
        right(self, *args)
        self.acked = acked

    put(stack, TaskStream, "receive", receive)


@RULES.add("a restarted runner goes on by the numbers of its state")
def runner_numbers(stack: ExitStack) -> None:
    right = Attempt.start_runner

    def begin(self: Attempt, now: float, out: list[Any]) -> None:
        right(self, now, out)
        start = out[-1]
        checkpoint = replace(start.assignment.checkpoint, number=start.send_from)
        out[-1] = replace(start, assignment=replace(start.assignment, checkpoint=checkpoint))

    put(stack, Attempt, "start_runner", begin)


@RULES.add("what depends on a fact is sent when the fact is on disk")
def journal_first(stack: ExitStack) -> None:
    put(stack, DurableJournal, "call_when_durable", lambda _self, effect: effect())


@RULES.add("a reply without facts of its own does not overtake the facts it shows")
def replies_wait(stack: ExitStack) -> None:
    right = SimDispatcher._pass_on

    def pass_on(self: SimDispatcher, effects: list[Any]) -> None:
        if any(isinstance(effect, AppendFact) for effect in effects) or self._telling:
            right(self, effects)
        else:
            for effect in effects:
                self._perform(effect)

    put(stack, SimDispatcher, "_pass_on", pass_on)


@RULES.add("a reader is journaled before it is answered")
def readers_journaled(stack: ExitStack) -> None:
    right = SimDispatcher._pass_on

    def pass_on(self: SimDispatcher, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, SendView):
                self._perform(effect)
        right(self, [effect for effect in effects if not isinstance(effect, SendView)])

    put(stack, SimDispatcher, "_pass_on", pass_on)


@RULES.add("a split request names its position in the log; asked twice, it is answered alike")
def splits_by_position(stack: ExitStack) -> None:
    right = workers.on_split_request

    def split_request(ctx: DecisionContext, ask: Any, now: float) -> None:
        task = ctx.state.task(ask.task)
        if task is None or ask.position >= task.logs[ask.provider].stop:
            right(ctx, ask, now)
        elif workers._runs(task, ask.worker, ask.attempt):
            stop = task.logs[ask.provider].stop
            scheduler.grant_splits(ctx, ask.task, ask.provider, now)
            splits = ctx.state.task(ask.task).logs[ask.provider].after(stop)  # type: ignore[union-attr]
            grant = SplitGrant(ask.task, ask.attempt, ask.provider, ask.position, splits)
            ctx.effects.append(SendCommand(ask.worker, ask.incarnation, grant))

    put(stack, workers, "on_split_request", split_request)


@RULES.add("a new attempt draws what the log says before it asks for more")
def log_first(stack: ExitStack) -> None:
    right = TaskAssignment

    def run(*args: Any) -> Any:
        order = right(*args)
        return replace(order, logs=tuple(SplitLog(log.stop) for log in order.logs))

    put(stack, views, "TaskAssignment", run)


@RULES.add("an engine state is saved when everything before it is acked")
def state_behind_floor(stack: ExitStack) -> None:
    put(
        stack,
        AttemptCheckpoints,
        "latest_below",
        lambda self, _floor: self.newest if len(self) > 1 else None,
    )
    put(stack, workers, "_counts", lambda *_: True)


@RULES.add("a worker learns with the end of a reader what it had acked")
def acked_with_status(stack: ExitStack) -> None:
    right = state_machine.WorkerCore._on_task

    def told(self: Any, run: Any, *args: Any) -> None:
        known = (run.task, run.attempt) in self._started
        right(self, replace(run, acked=NOTHING_ACKED) if known else run, *args)

    put(stack, state_machine.WorkerCore, "_on_task", told)


class _OrGone(dict[Any, Any]):
    def get(self, key: Any, _default: Any = None) -> Any:
        return super().get(key, ReaderStatus.LEFT)


@RULES.add("a reader that an assignment does not mention is new, not gone")
def unknown_is_new(stack: ExitStack) -> None:
    put(stack, state_machine, "dict", _OrGone)


@RULES.add("assignments and views have revisions; an older one is ignored")
def revision(stack: ExitStack) -> None:
    right_assigned, right_concerns = state_machine.WorkerCore._on_assignment, Membership.concerns

    def assigned(self: Any, *args: Any) -> None:
        self.revision = -1
        right_assigned(self, *args)

    def concerns(self: Membership, view: Any) -> bool:
        self.revision = -1
        return right_concerns(self, view)

    put(stack, state_machine.WorkerCore, "_on_assignment", assigned)
    put(stack, Membership, "concerns", concerns)


@RULES.add("a reader hands out within its lease only, by its own clock")
def permission(stack: ExitStack) -> None:
    right = Membership.renew

    def renew(self: Membership, view: Any) -> None:
        right(self, view)
        self.lease_until = float("inf")

    put(stack, Membership, "renew", renew)


@RULES.add("a restarted dispatcher gives everyone a full lease")
def grace(stack: ExitStack) -> None:
    right = DecisionContext._expect_all

    def expect_everybody(self: DecisionContext, _now: float) -> None:
        self.soft_state.since = -1e9
        right(self, -1e9)

    put(stack, DecisionContext, "_expect_all", expect_everybody)


@RULES.add("a reader that expired drops what it had not handed out")
def gone_drops_buffer(stack: ExitStack) -> None:
    put(stack, AckCollector, "drop_all", lambda _self: None)


@RULES.add("a task is done when everything is acked, not when everything is sent")
def end_when_acked(stack: ExitStack) -> None:
    def done(self: FirstCome) -> bool:
        return (
            self.total is not None
            and self.ownership.head >= self.total
            and not self.ownership.ready
        )

    put(stack, FirstCome, "done", property(done))


@RULES.add("from its barrier to the result a reader hands out nothing")
def barrier_blocks(stack: ExitStack) -> None:
    for name in ("next_slice", "permit"):
        put(stack, ReaderCore, name, _without_barrier(getattr(ReaderCore, name)))
    put(stack, ReaderCore, "lease_until", property(lambda self: self.membership.lease_until))


def _without_barrier(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(self: ReaderCore, *args: Any) -> Any:
        barrier, self.save_state.barrier = self.save_state.barrier, None
        result = self.save_state._result
        try:
            return right(self, *args)
        finally:
            self.save_state.barrier, self.save_state._result = barrier, result

    return wrong


@RULES.add("a save waits until the workers have told what an expired reader acked")
def settled_first(stack: ExitStack) -> None:
    right = saves.advance_save

    def judge(ctx: DecisionContext, name: Any, iteration: Any, now: float) -> None:
        suspects = {task: one.expired_holders for task, one in iteration.tasks.items()}
        for one in iteration.tasks.values():
            one.expired_holders = {}
        right(ctx, name, iteration, now)
        for task, were in suspects.items():
            iteration.tasks[task].expired_holders = were

    put(stack, saves, "advance_save", judge)


@RULES.add("at the end, what one loop does not ask for goes to one that waits")
def recall(stack: ExitStack) -> None:
    put(stack, FirstCome, "recall", lambda *_: None)


@RULES.add("what readers do not reach goes on where they do")
def moves_to_readers(stack: ExitStack) -> None:
    put(stack, scheduler, "move", lambda *_: False)


@RULES.add("what readers may have acked that a save goes without is in doubt")
def missing_in_doubt(stack: ExitStack) -> None:
    right = saves._state
    put(stack, saves, "_state", lambda ctx, iteration, _missing: right(ctx, iteration, ()))


@RULES.add("what no worker runs is in each heartbeat, and at a barrier all that a reader has")
def reports_of_what_waits(stack: ExitStack) -> None:
    def needed(self: TaskReports, *_: Any) -> list[Any]:
        return [task for task, stream in self._streams.items() if not self._is_known(stream)][:1]

    put(stack, TaskReports, "_needed", needed)
    put(stack, TaskReports, "_all", lambda self: self._needed())


@RULES.add("a view builds on what the reader says that it knows, not on what it was sent")
def changes_since_known(stack: ExitStack) -> None:
    right_show, right_take = views._Views.show, KnownTasks.take
    sent: dict[tuple[int, str], int] = {}

    def show(self: views._Views, session: str, asked: Any) -> SendView:
        key = id(self._ctx), session
        told = right_show(self, session, replace(asked, known=sent.get(key, asked.known)))
        sent[key] = told.view.revision
        return told

    def take(self: KnownTasks, view: Any) -> Any:
        self.as_of = max(self.as_of, view.changes_since or 0)
        return right_take(self, view)

    put(stack, views._Views, "show", show)
    put(stack, KnownTasks, "take", take)

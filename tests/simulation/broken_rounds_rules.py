"""The rules of coordinated reads, each broken on purpose: what no law misses proves nothing.

See `broken_rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from penstock.protocol.ranges import AckedSet
from penstock.reader.core.limits import FrameLimit
from penstock.reader.core.rounds import RoundsCore
from penstock_dispatcher.core import consumers, rounds, saves
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.rounds_record import RoundsRecord
from penstock_dispatcher.journal.journal import DurableJournal
from penstock_worker.core.round_groups import RoundGroups
from simulation import consumer as training
from simulation.rules import Rules, put

RULES = Rules()


@RULES.add("a group is released when all consumers have it")
def held_by_all(stack: ExitStack) -> None:
    put(stack, rounds._Walk, "_is_complete", _held(lambda groups: max(groups)))


@RULES.add("what is held counts if it was made by the newest attempt")
def held_of_newest_attempt(stack: ExitStack) -> None:
    def groups(holder: Any, name: Any, _attempt: int) -> int:
        held = holder.held.get(name)
        return held.groups if held is not None else 0

    put(stack, rounds, "_groups", groups)


def _held(choose: Callable[[list[int]], int]) -> Callable[..., bool]:
    def is_complete(self: Any, name: Any) -> bool:
        if self._holders is None:
            return False
        attempt = self.iteration.tasks[name].attempt
        groups = [rounds._groups(holder, name, attempt) for holder in self._holders]
        return choose(groups) > self._released[name]

    return is_complete


@RULES.add("rounds are journaled before anybody is told of them")
def journal_first(stack: ExitStack) -> None:
    put(stack, DurableJournal, "call_when_durable", lambda _self, effect: effect())


@RULES.add("the floor is what all consumers took")
def floor_of_all(stack: ExitStack) -> None:
    right = rounds.advance

    def advance(ctx: Any, name: Any, iteration: Any, now: float) -> None:
        known = consumers.taken
        with ExitStack() as inner:

            def taken(ctx: Any, record: Any, _index: int) -> int:
                return max(known(ctx, record, index) for index in range(record.consumers))

            put(inner, consumers, "taken", taken)
            right(ctx, name, iteration, now)

    put(stack, rounds, "advance", advance)


@RULES.add("a frame is kept until all consumers took it, not until it is sent")
def kept_until_taken(stack: ExitStack) -> None:
    right = RoundGroups._send

    def send(self: Any, index: int, stream: Any, frame: Any, out: list[Any]) -> None:
        right(self, index, stream, frame, out)
        if frame.first in self._frames:
            self._remove(frame.first)

    put(stack, RoundGroups, "_send", send)


@RULES.add("an element belongs to one consumer, whoever reads as that")
def own_elements(stack: ExitStack) -> None:
    right = RoundGroups.open

    def open_(self: Any, name: Any, request: Any, out: list[Any]) -> Any:
        if request.wants is not None and request.subscription > 2:
            other = (request.wants.index + 1) % self._grouped.consumers
            request = replace(request, wants=replace(request.wants, index=other))
        return right(self, name, request, out)

    put(stack, RoundGroups, "open", open_)


@RULES.add("a new attempt begins where the floor is, or before it")
def begins_at_floor(stack: ExitStack) -> None:
    put(
        stack,
        DecisionContext,
        "acked",
        lambda self, name, task: _beyond(self.state.iterations[task.iteration], name),
    )


def _beyond(iteration: Any, name: Any) -> AckedSet:
    known = iteration.rounds.tasks[name]
    return AckedSet(iteration.rounds.grouped(name).floor(known.released))


@RULES.add("a task that is not complete loses its turn while few rounds are in hand")
def turns_are_lost(stack: ExitStack) -> None:
    right = rounds._Walk._next
    put(stack, rounds._Walk, "_next", lambda self, _in_hand: right(self, 1 << 20))


@RULES.add("in order, a task that is not complete is waited for")
def ordered_waits(stack: ExitStack) -> None:
    right = rounds._Walk._next
    put(stack, rounds._Walk, "_next", lambda self, _in_hand: right(self, -1))


@RULES.add("where order is agreed no task joins")
def ordered_is_closed(stack: ExitStack) -> None:
    put(stack, RoundsRecord, "is_closed", property(lambda self: self.last is not None))


@RULES.add("a process without a place of its own begins where the others are")
def begins_with_others(stack: ExitStack) -> None:
    def start(_ctx: Any, _iteration: Any, record: Any, report: Any, _now: float) -> int:
        return record.floor if report.start is None else report.start

    put(stack, consumers, "_start", start)


@RULES.add("a process that began earlier does not displace one that lives")
def latest_stamp(stack: ExitStack) -> None:
    put(stack, consumers, "_is_silent", lambda *_: True)


@RULES.add("a consumer is lost when it was silent for its lease")
def lease_of_consumers(stack: ExitStack) -> None:
    right = consumers._lost

    def lost(ctx: Any, *args: Any) -> Any:
        settings = ctx.settings
        ctx.settings = replace(settings, consumer_lease=0.3)
        found = tuple(right(ctx, *args))
        ctx.settings = settings
        return found

    put(stack, consumers, "_lost", lost)


@RULES.add("whoever waits for one that is lost is told so")
def lost_are_named(stack: ExitStack) -> None:
    put(stack, consumers, "_lost", lambda *_: ())


@RULES.add("a consumer has room for an element of each task")
def room_for_each_task(stack: ExitStack) -> None:
    put(stack, training, "TaskFrameLimit", FrameLimit)


@RULES.add("a save succeeds when all consumers stand at the same round")
def saves_at_one_round(stack: ExitStack) -> None:
    def save(ctx: Any, name: Any, iteration: Any, barriers: Any, absent: Any, _now: float) -> None:
        if not absent and len(barriers) == iteration.rounds.consumers:
            saves._succeed(ctx, name, iteration, next(iter(barriers.values())).label)

    put(stack, saves, "_save_rounds", save)


@RULES.add("no task is created behind the end")
def no_task_behind_the_end(stack: ExitStack) -> None:
    put(stack, RoundsRecord, "is_closed", property(lambda self: self.ordered))


@RULES.add("a pass ends when nothing is left of any task, and none can be added")
def ends_when_all_is_released(stack: ExitStack) -> None:
    right = rounds._Walk._next

    def step(self: Any, in_hand: int) -> Any:
        found = right(self, in_hand)
        waits = isinstance(found, rounds._Turn) and any(map(self._exhausted, self._order))
        return rounds._End() if waits else found

    put(stack, rounds._Walk, "_next", step)


@RULES.add("a consumer drops what another attempt made, unless it is released")
def one_attempt_a_round(stack: ExitStack) -> None:
    from penstock.reader.core.group_streams import GroupBuffer

    put(stack, GroupBuffer, "renew", lambda _self: None)


@RULES.add("at a barrier nothing is handed out")
def barrier_blocks(stack: ExitStack) -> None:
    put(stack, RoundsCore, "lease_until", property(lambda self: self.membership.lease_until))


@RULES.add("a loop is told of the end when the dispatcher knows that it is there")
def end_is_known(stack: ExitStack) -> None:
    put(stack, RoundsCore, "finished", property(lambda self: self._over or self.log.finished))


@RULES.add("that a consumer came to the end is journaled before it is told so")
def end_is_journaled(stack: ExitStack) -> None:
    put(stack, consumers, "note_end", lambda *_: None)

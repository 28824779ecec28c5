"""The rules of the cross-trainer cache, each broken on purpose: see `broken_rules`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock_dispatcher.core import cache_members, scheduler
from penstock_worker.core.ownership import Ownership
from penstock_worker.core.shared_cache import SharedCache, _Trainer
from penstock_worker.core.shares import CacheRoom
from penstock_worker.core.sharing_readers import SharingReaders
from simulation.broken_rules import RULES as ORDINARY
from simulation.rules import Rules, put

RULES = Rules(
    (name, ORDINARY[name])
    for name in ("barrier", "buffered_stays_reserved", "keep_until_acked", "permission")
)


@RULES.add("what leaves the window before a trainer has it is counted")
def skipped_are_counted(stack: ExitStack) -> None:
    def skip(self: _Trainer, numbers: RangeSet) -> None:
        self.ownership.ack(numbers)

    put(stack, _Trainer, "skip", skip)


@RULES.add("a trainer that is new begins with the oldest element in the window")
def new_begins_at_oldest(stack: ExitStack) -> None:
    right = SharedCache._join

    def join(self: SharedCache, request: Any) -> _Trainer:
        new = request.trainer not in self._trainers
        trainer = right(self, request)
        if new:
            trainer.before += len(trainer.ownership.ack(trainer.ownership.ready))
        return trainer

    put(stack, SharedCache, "_join", join)


@RULES.add("a frame that leaves the window stays with the readers that have it")
def readers_keep_what_leaves(stack: ExitStack) -> None:
    def evict(self: _Trainer, numbers: RangeSet) -> None:
        self.skip(numbers - self.ownership.acked.ranges)

    put(stack, _Trainer, "evict", evict)


@RULES.add("what is requeued and is gone is skipped")
def requeued_and_gone_is_skipped(stack: ExitStack) -> None:
    put(stack, Ownership, "missing", property(lambda _self: RangeSet(), lambda _self, _value: None))


@RULES.add("a task goes on from the slowest trainer that is read, not from the fastest")
def moves_to_the_slowest(stack: ExitStack) -> None:
    def acked(self: SharedCache) -> AckedSet:
        floors = [t.ownership.acked.floor for t in self._trainers.values()]
        return AckedSet(max(floors, default=self.oldest))

    put(stack, SharedCache, "acked", property(acked))
    put(stack, cache_members, "floor", lambda *_: None)


@RULES.add(
    "a task goes on from the oldest element in the window, for those that come behind others"
)
def moves_to_the_oldest(stack: ExitStack) -> None:
    def acked(self: SharedCache) -> AckedSet:
        floors = [t.ownership.acked.floor for t in self._trainers.values() if t.live]
        return AckedSet(min(floors, default=self.oldest))

    put(stack, SharedCache, "acked", property(acked))


@RULES.add("a new attempt knows what each trainer has")
def places_are_kept(stack: ExitStack) -> None:
    right = cache_members.cached

    def cached(*args: Any) -> Any:
        found = right(*args)
        return None if found is None else replace(found, trainers={})

    put(stack, cache_members, "cached", cached)


@RULES.add("what is acked for one trainer is acked for no other")
def trainers_are_apart(stack: ExitStack) -> None:
    right = cache_members.places

    def places(*args: Any) -> Any:
        found = right(*args)
        acked = AckedSet()
        for one in found.values():
            acked = acked | one.acked
        return {name: TrainerProgress(acked, p.skipped, p.before) for name, p in found.items()}

    put(stack, scheduler.cache_members, "places", places)


@RULES.add("with when_full='wait' nothing leaves the window that a trainer lacks")
def waits_for_the_slowest(stack: ExitStack) -> None:
    put(stack, SharedCache, "_holds", lambda *_: False)


@RULES.add("of what waits, what is gone is made again")
def gone_is_made_again(stack: ExitStack) -> None:
    right = SharedCache._settle

    def settle(self: SharedCache, *args: Any) -> None:
        waits, self._waits = self._waits, False
        right(self, *args)
        self._waits = waits

    put(stack, SharedCache, "_settle", settle)


@RULES.add("a trainer without readers holds up nobody")
def absent_hold_nobody(stack: ExitStack) -> None:
    put(stack, SharedCache, "_holds", lambda self, _trainer: self._waits)


@RULES.add("a frame leaves the window when somebody wants more than there is room for")
def evicts_for_somebody(stack: ExitStack) -> None:
    def shed(self: SharedCache) -> list[Any]:
        frame = self._evict()
        return [] if frame is None else [frame]

    put(stack, SharedCache, "shed", shed)


@RULES.add("a window takes no more than its share")
def window_is_bounded(stack: ExitStack) -> None:
    def grant(self: CacheRoom, *, waits: bool) -> None:  # noqa: ARG001
        self._granted = 3 * self.nbytes

    put(stack, CacheRoom, "_grant", grant)


@RULES.add("ahead of the fastest trainer no more is made than of an ordinary task")
def ahead_is_bounded(stack: ExitStack) -> None:
    def grant(self: CacheRoom, *, waits: bool) -> None:  # noqa: ARG001
        self._granted = self.nbytes

    put(stack, CacheRoom, "_grant", grant)


@RULES.add("a frame says what is acked for its reader's trainer")
def floors_are_a_trainers(stack: ExitStack) -> None:
    right = SharingReaders.send_ready

    def send_ready(self: SharingReaders, out: list[Any], *, ended: bool) -> bool:
        before = len(out)
        result = right(self, out, ended=ended)
        for i in range(before, len(out)):
            header = getattr(out[i], "header", None)
            if header is not None:
                floor = self.ownership.ready.spans[0][0] if self.ownership.ready else header.first
                out[i] = replace(out[i], header=replace(header, floor=floor))
        return result

    put(stack, SharingReaders, "send_ready", send_ready)


@RULES.add("a trainer that is at the end gets no new task")
def end_is_final(stack: ExitStack) -> None:
    put(stack, cache_members, "is_closed", lambda _iteration: False)

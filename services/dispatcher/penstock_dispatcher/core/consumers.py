"""Consumers of coordinated reads: who joins as which, how far each is, and who is lost."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import DatasetError, PenstockError, Refused, Superseded
from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.rounds import LostConsumer, RoundsReport
from penstock.protocol.types import Failure, IterationId, ReaderId, ReaderStatus
from penstock_dispatcher.core.admission import LOST_HISTORY
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.events import CloseReaderStream
from penstock_dispatcher.core.facts import ConsumerEnded, ConsumerJoined, ReaderJoined
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.rounds_record import RoundsRecord
from penstock_dispatcher.core.soft_state import ConsumersWaited, ReaderLiveness
from penstock_dispatcher.core.stats import ConsumerStats, RoundsStats


def check(heartbeat: ReaderHeartbeat, iteration: IterationRecord) -> None:
    """Refuse a reader that reads in rounds where others do not, or is no consumer here.

    Raises:
        PenstockError: saying why.
    """
    rounds, report = iteration.rounds, heartbeat.rounds
    if rounds is None:
        if report is not None:
            raise Refused(
                f"job {iteration.job!r} is not read in rounds, and this reader is consumer "
                f"{report.index}: all readers of a job give the same num_consumers, or none"
            )
        return
    if report is None:
        raise Refused(
            f"job {iteration.job!r} is read in rounds by {rounds.consumers} consumers, and this "
            "reader does not say which of them it is: give consumer_index and num_consumers"
        )
    if report.index >= rounds.consumers:
        raise DatasetError(
            f"consumer_index must be below num_consumers, {rounds.consumers}, not {report.index}"
        )
    if heartbeat.reader is not None and report.taken > rounds.released:
        raise Refused(
            f"consumer {report.index} took the rounds before {report.taken}, and of job "
            f"{iteration.job!r} {rounds.released} are released here: {LOST_HISTORY}; open anew"
        )


def check_place(heartbeat: ReaderHeartbeat, reader: ReaderId, iteration: IterationRecord) -> None:
    """Refuse a reader whose place another process has taken.

    Raises:
        Superseded: naming that.
    """
    rounds, report = iteration.rounds, heartbeat.rounds
    if rounds is None or report is None or heartbeat.leaving:
        return
    member = rounds.members.get(report.index)
    if member is not None and member.reader != reader and _is_live(iteration, member.reader):
        raise _superseded(iteration, report.index, member.reader)


def check_end(heartbeat: ReaderHeartbeat, iteration: IterationRecord) -> None:
    """Refuse a reader that did not come to the end of a pass: another process did, in its place.

    Raises:
        Superseded: naming that.
    """
    rounds, report = iteration.rounds, heartbeat.rounds
    if rounds is None or rounds.last is None or report is None or heartbeat.leaving:
        return
    member = rounds.members.get(report.index)
    if member is None or heartbeat.reader is None or report.taken >= rounds.last:
        return
    if iteration.readers[member.reader].session != heartbeat.session:
        raise _superseded(iteration, report.index, member.reader)


def join(
    ctx: DecisionContext, heartbeat: ReaderHeartbeat, iteration: IterationRecord, now: float
) -> ReaderId | None:
    """Let a process be a consumer, in the place of an earlier one perhaps; return its reader id.

    None means that it cannot be said yet with which round it begins: it asks again.

    Raises:
        PenstockError: when it may not join, or not at the round that it asks for.
    """
    rounds, report, name = iteration.rounds, heartbeat.rounds, heartbeat.iteration
    if rounds is None or report is None:
        raise ValueError(f"iteration {name} is not read in rounds")
    member = rounds.members.get(report.index)
    before = None
    if member is not None and _is_live(iteration, member.reader):
        before = member.reader
        if report.stamp < member.stamp and not _is_silent(ctx, before, now):
            raise _superseded(iteration, report.index, before)
    start = _start(ctx, iteration, rounds, report, now)
    if start is None:
        return None
    _note_joining(ctx, heartbeat, iteration, now)
    reader = ReaderId(ctx.state.next_id)
    if before is not None:
        session = iteration.readers[before].session
        ctx.remove_reader(name, before, ReaderStatus.EXPIRED, now)
    ctx.commit(ReaderJoined(name, reader, heartbeat.session, heartbeat.process))
    ctx.commit(ConsumerJoined(name, reader, report.index, report.stamp, start))
    if before is not None and session != heartbeat.session:
        error = _superseded(iteration, report.index, reader)
        ctx.effects.append(CloseReaderStream(session, Failure.of(error)))
    return reader


def note_leaving(
    ctx: DecisionContext, heartbeat: ReaderHeartbeat, iteration: IterationRecord, now: float
) -> None:
    """Note that a consumer leaves: the others need not wait for it."""
    if iteration.rounds is not None and heartbeat.rounds is not None:
        waited(ctx, heartbeat.iteration, now).left.add(heartbeat.rounds.index)


def note_end(
    ctx: DecisionContext, heartbeat: ReaderHeartbeat, reader: ReaderId, iteration: IterationRecord
) -> None:
    """Commit that a consumer took all rounds of the pass, before it is told that this is known."""
    rounds, report = iteration.rounds, heartbeat.rounds
    if rounds is None or report is None or rounds.last is None or rounds.failed is not None:
        return
    member = rounds.members.get(report.index)
    if member is None or member.reader != reader or heartbeat.reader is None:
        return
    if member.taken < rounds.last <= report.taken:
        ctx.commit(ConsumerEnded(heartbeat.iteration, reader, heartbeat.consumed))


def note_back(
    ctx: DecisionContext, heartbeat: ReaderHeartbeat, reader: ReaderId, iteration: IterationRecord
) -> None:
    """Note where a consumer is that expired, and is about to join again."""
    rounds, report = iteration.rounds, heartbeat.rounds
    if rounds is not None and report is not None and not heartbeat.leaving:
        member = rounds.members.get(report.index)
        if member is not None and member.reader == reader:
            ctx.soft_state.back[reader] = report.taken


def taken(ctx: DecisionContext, rounds: RoundsRecord, index: int) -> int:
    """Return the round below which a consumer has surely taken all."""
    member = rounds.members.get(index)
    if member is None:
        return rounds.floor
    liveness = ctx.soft_state.readers.get(member.reader)
    report = None if liveness is None else liveness.report
    known = member.taken if report is None else report.taken
    return max(rounds.floor, min(known, rounds.released))


def place(ctx: DecisionContext, iteration: IterationRecord, index: int) -> int:
    """Return the round at which a consumer is: one that has joined is where it begins."""
    rounds = iteration.rounds
    if rounds is None:
        return 0
    member, known = rounds.members.get(index), taken(ctx, rounds, index)
    if member is None:
        return known
    if not _is_live(iteration, member.reader):
        return max(known, min(ctx.soft_state.back.get(member.reader, 0), rounds.released))
    liveness = ctx.soft_state.readers.get(member.reader)
    return known if liveness and liveness.report else max(known, member.start)


def handed(ctx: DecisionContext, iteration: IterationRecord, index: int) -> int:
    """Return the round below which a consumer has none in hand: the loop had it, or operators."""
    rounds, at = iteration.rounds, place(ctx, iteration, index)
    member = None if rounds is None else rounds.members.get(index)
    liveness = None if member is None else ctx.soft_state.readers.get(member.reader)
    if rounds is None or liveness is None or liveness.report is None:
        return at
    return max(at, min(liveness.report.handed, rounds.released))


def without_rounds(
    ctx: DecisionContext, iteration: IterationRecord, released: int
) -> list[ReaderId]:
    """Return the consumers that had none of the rounds below *released* in hand."""
    rounds = iteration.rounds
    if rounds is None:
        return []
    return [
        member.reader
        for index, member in rounds.members.items()
        if handed(ctx, iteration, index) >= released
    ]


def holders(
    ctx: DecisionContext, iteration: IterationRecord, now: float
) -> list[ReaderLiveness] | None:
    """Return what each consumer reported, by index; None if one is missing or lost."""
    rounds = iteration.rounds
    if rounds is None or len(rounds.members) < rounds.consumers:
        return None
    found, least = [], now - ctx.settings.consumer_lease
    for index in range(rounds.consumers):
        liveness = ctx.soft_state.readers.get(rounds.members[index].reader)
        if liveness is None or liveness.report is None or liveness.last_heard < least:
            return None
        found.append(liveness)
    return found


def lost(
    ctx: DecisionContext, name: IterationId, iteration: IterationRecord, now: float
) -> tuple[LostConsumer, ...]:
    """Return the consumers that others wait for in vain: silent, gone, or never there."""
    rounds = iteration.rounds
    if rounds is None or iteration.finished:
        return ()
    return tuple(_lost(ctx, name, iteration, rounds, now))


def note_lost(
    ctx: DecisionContext, name: IterationId, iteration: IterationRecord, now: float
) -> None:
    """Have all readers told when other consumers than before are lost."""
    if iteration.rounds is None or iteration.finished:
        return
    indexes = frozenset(one.index for one in lost(ctx, name, iteration, now))
    if waited(ctx, name, now).lost != indexes:
        waited(ctx, name, now).lost = indexes
        ctx.notifications.iterations[name] = None


def waited(ctx: DecisionContext, name: IterationId, now: float) -> ConsumersWaited:
    """Return the record of a pass's consumers that others wait for."""
    known = ctx.soft_state.consumers.get(name)
    if known is None:
        known = ctx.soft_state.consumers[name] = ConsumersWaited(now)
    return known


def all_stats(ctx: DecisionContext, now: float) -> dict[IterationId, RoundsStats]:
    """Return how far each pass is that is read in rounds."""
    found = {}
    for name, iteration in ctx.state.iterations.items():
        if (rounds := iteration.rounds) is not None:
            why = {one.index: one.description for one in lost(ctx, name, iteration, now)}
            members = tuple(
                ConsumerStats(
                    index,
                    None if (member := rounds.members.get(index)) is None else member.reader,
                    taken(ctx, rounds, index),
                    why.get(index, ""),
                )
                for index in range(rounds.consumers)
            )
            found[name] = RoundsStats(rounds.released, rounds.floor, rounds.last, members)
    return found


def describe(iteration: IterationRecord, index: int) -> str:
    """Return a consumer's name for messages: with the process that it is, or was."""
    rounds = iteration.rounds
    member = None if rounds is None else rounds.members.get(index)
    process = None if member is None else iteration.readers[member.reader].process
    return f"consumer {index}" if process is None else f"consumer {index} ({process})"


def silence(ctx: DecisionContext, iteration: IterationRecord, index: int, now: float) -> float:
    """Return for how long a consumer has been silent; infinite if it is not there."""
    rounds = iteration.rounds
    member = None if rounds is None else rounds.members.get(index)
    liveness = None if member is None else ctx.soft_state.readers.get(member.reader)
    return ctx.soft_state.silence(liveness.last_heard, now) if liveness else float("inf")


def _lost(
    ctx: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    rounds: RoundsRecord,
    now: float,
) -> Iterator[LostConsumer]:
    lease, known = ctx.settings.consumer_lease, waited(ctx, name, now)
    overdue = ctx.soft_state.silence(known.since, now) > lease
    if not overdue and not known.left:
        return
    for index in range(rounds.consumers):
        member, who = rounds.members.get(index), describe(iteration, index)
        at = taken(ctx, rounds, index)
        if at == rounds.last:
            continue
        if member is None:
            if overdue:
                yield LostConsumer(index, f"{who}, which never came")
        elif _is_live(iteration, member.reader):
            silent = silence(ctx, iteration, index, now)
            if overdue and silent > lease:
                yield LostConsumer(index, f"{who}, silent for {silent:.1f} s")
        elif overdue or index in known.left:
            left = iteration.readers[member.reader].status is ReaderStatus.LEFT
            how = "left" if left else "expired"
            yield LostConsumer(index, f"{who}, which {how} at round {at}")


def _note_joining(
    ctx: DecisionContext, heartbeat: ReaderHeartbeat, iteration: IterationRecord, now: float
) -> None:
    """Restart the wait for the others if none of them is there: all were started again, perhaps."""
    if iteration.rounds is None or heartbeat.rounds is None:
        return
    known, late = waited(ctx, heartbeat.iteration, now), 2 * ctx.settings.refresh_interval
    known.left.discard(heartbeat.rounds.index)
    others = set(range(iteration.rounds.consumers)) - {heartbeat.rounds.index}
    if all(silence(ctx, iteration, index, now) > late for index in others):
        known.since, known.left = now, set()


def _start(
    ctx: DecisionContext,
    iteration: IterationRecord,
    rounds: RoundsRecord,
    report: RoundsReport,
    now: float,
) -> int | None:
    """Return the round with which a consumer begins; None if others must be heard first."""
    if report.start is not None:
        if not rounds.floor <= report.start <= rounds.released:
            raise DatasetError(
                f"consumer {report.index} asks to begin with round {report.start}, and rounds "
                f"{rounds.floor} to {rounds.released} can be had: what comes before was taken by "
                "all, and what comes behind is not made yet"
            )
        return report.start
    if rounds.log:
        for index, member in rounds.members.items():
            liveness = ctx.soft_state.readers.get(member.reader)
            unheard = liveness is not None and liveness.heartbeat.seq < 0
            if index != report.index and unheard and not _is_silent(ctx, member.reader, now):
                return None
    return max((place(ctx, iteration, i) for i in rounds.members), default=rounds.floor)


def _is_live(iteration: IterationRecord, reader: ReaderId) -> bool:
    return iteration.readers[reader].status is ReaderStatus.LIVE


def _is_silent(ctx: DecisionContext, reader: ReaderId, now: float) -> bool:
    """Return whether a live reader was silent for longer than the lease of consumers."""
    last_heard = ctx.soft_state.readers[reader].last_heard
    return ctx.soft_state.silence(last_heard, now) > ctx.settings.consumer_lease


def _superseded(iteration: IterationRecord, index: int, reader: ReaderId) -> PenstockError:
    process = iteration.readers[reader].process
    who = "another process" if process is None else f"another process ({process})"
    return Superseded(
        f"{who} reads job {iteration.job!r} as consumer {index}: each index is for one process, "
        "and the one that began last has it"
    )

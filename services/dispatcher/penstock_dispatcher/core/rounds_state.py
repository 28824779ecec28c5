"""How facts of coordinated reads change an iteration: its rounds and acked elements."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from penstock.protocol.ranges import AckedSet
from penstock.protocol.rounds import Remainder
from penstock.protocol.types import TaskId
from penstock_dispatcher.core.fact_values import JobParameters, RestoredRounds
from penstock_dispatcher.core.facts import ConsumerEnded, ConsumerJoined, RoundsAdvanced, RoundsFact
from penstock_dispatcher.core.records import IterationRecord, JobRecord
from penstock_dispatcher.core.rounds_record import PATIENCE, Displaced, RoundsRecord


def rounds_of(parameters: JobParameters) -> RoundsRecord | None:
    """Return an empty log of rounds for a pass of a job, if it is read in rounds."""
    if parameters.num_consumers is None:
        return None
    patience = PATIENCE if parameters.patience is None else parameters.patience
    return RoundsRecord(
        parameters.num_consumers,
        Remainder(parameters.remainder),
        parameters.ordered,
        0 if parameters.ordered else patience,
    )


def apply(iteration: IterationRecord, fact: RoundsFact) -> None:
    """Apply a fact of a pass that is read in rounds."""
    rounds = iteration.rounds
    if rounds is None:
        return
    match fact:
        case ConsumerJoined():
            _join(iteration, rounds, fact)
        case ConsumerEnded(_, reader, consumed):
            iteration.readers[reader].consumed = consumed
            iteration.readers[reader].final = True
            rounds.end(reader)
        case RoundsAdvanced():
            _advance(iteration, rounds, fact)
        case _:
            assert_never(fact)


def _join(iteration: IterationRecord, rounds: RoundsRecord, fact: ConsumerJoined) -> None:
    before, readers = rounds.members.get(fact.index), iteration.readers
    session = readers[fact.reader].session
    rounds.correct(session, fact.start)  # one that is back after all says where it was
    rounds.displaced.pop(session, None)
    earlier = None if before is None else readers[before.reader]
    again = earlier is not None and earlier.session == session
    if before is not None and earlier is not None and not again and not earlier.final:
        known = Displaced(fact.start, max(rounds.floor, before.taken, before.start))
        rounds.displaced[earlier.session] = known
    rounds.join(fact.index, fact.reader, fact.stamp, fact.start, again=again)


def restore(job: JobRecord, iteration: IterationRecord, at: RestoredRounds) -> None:
    """Let a pass and its job continue at a round, perhaps with another number of consumers."""
    job.parameters = replace(job.parameters, num_consumers=at.consumers)
    iteration.parameters = job.parameters
    iteration.rounds = rounds = rounds_of(job.parameters)
    if rounds is not None:
        rounds.floor, rounds.turn, rounds.floor_turn = at.round, at.turn, at.turn
        rounds.planned = list(at.log)


def finish_task(iteration: IterationRecord, name: TaskId, acked: AckedSet) -> None:
    """Let a task be done, of which *acked* is all that there is.

    Before its end was known its last group may have counted as a whole one; attempts that began
    after it reported the same.
    """
    if iteration.rounds is not None:
        task = iteration.tasks[name]
        task.acked, task.head = acked, min(task.head, acked.floor)
        iteration.rounds.finish_task(name)


def _advance(iteration: IterationRecord, rounds: RoundsRecord, fact: RoundsAdvanced) -> None:
    """Append rounds, and count the settled ones as acked."""
    for name in {*rounds.advance(fact.entries, fact.floor, fact.totals), *fact.totals}:
        task = iteration.tasks[name]
        task.acked = task.acked | AckedSet(rounds.element_floor(name))
    rounds.last, rounds.failed = fact.last, fact.failed

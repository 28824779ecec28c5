"""Elements that were left out because of errors: they are counted, and too many fail the pass."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.errors import TransformError
from penstock.protocol.calls import OnError
from penstock.protocol.control import SkippedErrors
from penstock.protocol.malformed import MALFORMED
from penstock.protocol.types import Failure, TaskId
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.facts import AttemptEnded, ErrorsSkipped, TaskFailed
from penstock_dispatcher.core.records import IterationRecord, TaskRecord


def are_skipped(iteration: IterationRecord) -> bool:
    """Return whether elements of *iteration* that cannot be made are left out."""
    return iteration.parameters.on_error is OnError.SKIP


def count(iteration: IterationRecord) -> int:
    """Return how many elements of the pass were left out."""
    return iteration.before.errors + sum(t.errors.count for t in iteration.tasks.values())


def too_many(iteration: IterationRecord) -> bool:
    """Return whether more elements were left out than the pass may leave out."""
    most = iteration.parameters.max_errors
    return most is not None and are_skipped(iteration) and count(iteration) > most


def dead_letters(iteration: IterationRecord) -> tuple[dict[str, Any], ...]:
    """Return the dead letters of the first elements that were left out: of each failure once."""
    texts = list(iteration.before.letters)
    texts += [one.letter for task in iteration.tasks.values() for one in task.errors.first]
    read = [_read(text) for text in texts]
    return tuple({str(letter.get("id")): letter for letter in read if letter}.values())


def error(iteration: IterationRecord) -> TransformError:
    """Return the error of the first element that is known, saying that there were too many."""
    letter, worker = _first(iteration)
    number, said = letter.get("element"), str(letter.get("message", "its error is not known"))
    many = f"{count(iteration)} element{'s' * (count(iteration) > 1)}"
    return TransformError(
        str(letter.get("source") or "distribute"),
        number if isinstance(number, int) else 0,
        f"{said.partition(chr(10))[0]}; it is the first of {many} that this pass of job "
        f"{iteration.job!r} could not make and left out, and max_errors is "
        f"{iteration.parameters.max_errors}: mend them (see dead_letters of `penstock status "
        "--json`), or give distribute a larger max_errors and another job_name",
        worker,
        str(letter.get("traceback", "")),
        str(letter.get("input", "")),
    )


def _read(text: str) -> dict[str, Any]:
    """Return what a dead letter says; nothing if it is none."""
    try:
        read = msgspec.json.decode(text)
    except MALFORMED:
        return {}
    return read if isinstance(read, dict) else {}


def _first(iteration: IterationRecord) -> tuple[dict[str, Any], str]:
    """Return the first dead letter, and the worker that wrote it."""
    for text in iteration.before.letters:
        letter = _read(text)
        return letter, str(letter.get("host") or "of before")
    found = [
        (str(letter.get("time", "")), letter, task.ran_on)
        for task in iteration.tasks.values()
        for letter in [_read(one.letter) for one in task.errors.first[:1]]
    ]
    _, first, worker = min(found, key=lambda each: each[0], default=("", {}, None))
    return first, worker or "that is gone"


LETTERS_KEPT = 32
"""How many dead letters of a pass are kept, the first that were reported."""

LONGEST = 1 << 16
"""Characters of a dead letter that is kept. Workers shorten longer ones."""


def report(
    ctx: DecisionContext, name: TaskId, task: TaskRecord, reported: SkippedErrors | None
) -> None:
    """Commit the elements left out of a task since the last report."""
    known, iteration = task.errors, ctx.state.iterations[task.iteration]
    if reported is None or reported.count <= known.count or not are_skipped(iteration):
        return
    kept = len(iteration.before.letters)
    kept += sum(len(each.errors.first) for each in iteration.tasks.values())
    new = [one for one in reported.first if one.number > known.count and len(one.letter) <= LONGEST]
    ctx.commit(ErrorsSkipped(name, reported.count, tuple(new[: max(0, LETTERS_KEPT - kept)])))
    if too_many(iteration):
        ctx.dirty[task.iteration] = None


def stop(ctx: DecisionContext, iteration: IterationRecord) -> None:
    """Commit that a pass goes no further that left out too many: all its tasks fail."""
    failure = Failure.of(error(iteration))
    for name, task in iteration.tasks.items():
        if not task.done and task.failure is None:
            ctx.task_over(TaskFailed(name, failure))
        if task.worker is not None:
            ctx.task_over(AttemptEnded(name, ctx.totals_of(name)))

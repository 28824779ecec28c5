"""The saved state of one reader's operators after `distribute`.

    {"seed": 7, "at": the outermost operator's state,
     "sources": [{"path": ".0.0", "passes": [1], "consumer": [0, 2] or null,
                  "held": [[task, first number, number after the last], ...]}, ...]}

A *task* is an index into the tasks that the job's state lists.

The operators had read the *held* elements and still needed them. They are unacked, so they come
again. If they come in the same order, the operators continue exactly as they were. A consumer's
elements always do. If readers share a job, a `Replay` asks for that order and checks it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from penstock.engine.iterator import State
from penstock.engine.unacked import has_exactly, opens_again, unacked_from_start
from penstock.errors import StateError
from penstock.protocol.malformed import MALFORMED, glimpse
from penstock.reader.core.deliveries import Run

if TYPE_CHECKING:
    from penstock.reader.delivery.iterator_state import SavedPass

log = logging.getLogger("penstock.reader")


@dataclass(frozen=True, slots=True)
class SavedSource:
    """The elements of one pass of a `distribute` that the operators held."""

    path: str
    passes: tuple[int, ...]
    consumer: tuple[int, int] | None
    held: tuple[Run, ...]

    @classmethod
    def of(
        cls, saved: SavedPass, unacked: Iterable[Run], consumer: tuple[int, int] | None
    ) -> SavedSource | None:
        """Return a *saved* pass's *unacked* elements; None if the pass's state lacks their task."""
        passes, held = tuple(number for _, number in saved.passes), list[Run]()
        if consumer is None and not saved.job.finished:
            job = saved.job.state
            tasks = job.get("tasks", ())
            if job.get("ordered"):  # so they are restored
                tasks = sorted(tasks, key=itemgetter("index"))
            places = {task.get("name"): place for place, task in enumerate(tasks)}
            for task, start, stop in unacked:
                if task not in places:
                    return None
                held.append((places[task], start, stop))
        return cls(saved.path, passes, consumer, tuple(held))

    def plain(self) -> State:
        """Return it as JSON."""
        whose = None if self.consumer is None else list(self.consumer)
        held = [list(run) for run in self.held]
        return {"path": self.path, "passes": list(self.passes), "consumer": whose, "held": held}


@dataclass(frozen=True, slots=True)
class SavedOperators:
    """The operators' state, and the elements that they held."""

    seed: int
    at: State
    sources: tuple[SavedSource, ...]

    def plain(self) -> State:
        """Return it as JSON."""
        sources = [source.plain() for source in self.sources]
        return {"seed": self.seed, "at": self.at, "sources": sources}

    @classmethod
    def of(cls, plain: Any) -> SavedOperators:
        """Read what `plain` wrote.

        Raises:
            StateError: if *plain* is malformed.
        """
        try:
            sources = tuple(
                SavedSource(
                    str(one["path"]),
                    tuple(int(number) for number in one["passes"]),
                    None if one["consumer"] is None else _pair(one["consumer"]),
                    tuple((int(task), int(a), int(b)) for task, a, b in one["held"]),
                )
                for one in plain["sources"]
            )
            return cls(int(plain["seed"]), plain["at"], sources)
        except MALFORMED as exc:
            raise StateError(
                f"the saved state of the operators behind distribute(...) is malformed: "
                f"{glimpse(plain)}"
            ) from exc

    def held(self, path: str, passes: Sequence[int]) -> tuple[Run, ...]:
        """Return the elements held of that pass of the `distribute` at *path*."""
        for source in self.sources:
            if (source.path, source.passes) == (path, tuple(passes)):
                return source.held
        return ()


def portable(at: State, *, revoked: bool) -> State | None:
    """Return the operators' state in the form to save; None if they cannot continue from it.

    If some of the elements that they hold were *revoked*, these do not come again. This matters
    only if the held elements are not simply the last that they read.
    """
    if revoked and has_exactly(at):
        return None
    return unacked_from_start(at) if opens_again(at) else None


def continued(
    plain: State,
    saved: str,
    pipeline: str,
    consumers: Mapping[str, tuple[int, int] | None],
) -> SavedOperators | None:
    """Return the operators to continue with; None, and a warning, if they start over.

    *saved* names the pipeline that was saved, *pipeline* this one, which has these *consumers*.

    Raises:
        StateError: if *plain* is malformed.
    """
    if plain is None:
        begin_anew_because("the state does not hold them")
        return None
    found = SavedOperators.of(plain)
    if saved != pipeline:
        begin_anew_because(f"the state has the operators {saved!r}, this dataset has {pipeline!r}")
        return None
    for source in found.sources:
        now = consumers.get(source.path)
        if now != source.consumer:
            were, are = map(_described, (source.consumer, now))
            begin_anew_because(f"the state was taken by {were}, this is {are}")
            return None
    return found


def begin_anew_because(why: str) -> None:
    """Log that the operators do not continue as they were, and why."""
    log.warning(
        "the operators after distribute(...) start over: %s. Nothing is lost; elements that they "
        "had cut into pieces come again whole",
        why,
    )


def _described(consumer: tuple[int, int] | None) -> str:
    if consumer is None:
        return "a reader without consumer_index"
    return "consumer {} of {}".format(*consumer)


def _pair(plain: Any) -> tuple[int, int]:
    index, count = plain
    return int(index), int(count)

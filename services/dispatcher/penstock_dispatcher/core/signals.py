"""What the mind hears beside beats, and what it wants done: signals and effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NewType, TypeAlias

from penstock.files import Order
from penstock.graph import FilePattern
from penstock.messages import (
    Failure,
    Opened,
    OpenRequest,
    ReaderBeat,
    SplitRequest,
    Versions,
    View,
    WorkerBeat,
    WorkerOrder,
)
from penstock.numbers import DatasetId, IterationId, WorkerId
from penstock.sharding import Stream
from penstock_dispatcher.core.facts import Fact
from penstock_dispatcher.core.listings import Outline

Call = NewType("Call", int)
"""A unary call that waits for its answer, named by the body."""

# --- signals ---


@dataclass(frozen=True, slots=True)
class Begin:
    """The books are empty: begin a history. No other one has this *birth*, and later is more."""

    birth: int


@dataclass(frozen=True, slots=True)
class Register:
    """A client made a pipeline known."""

    call: Call
    versions: Versions
    dataset: DatasetId
    streams: tuple[Stream, ...]
    unsplittable: str
    inexact: str = ""
    """Why an element made again may be another one; nothing if it is the same."""
    outline: str = ""
    """Its operators, in words, for people."""
    python: str = ""
    """The minor version of Python that can load it; nothing if all can."""


@dataclass(frozen=True, slots=True)
class OpenIteration:
    """A client wants to read. *seed* is for a job that does not exist yet.

    *names* are the files of each stream of files, once they have been listed.
    """

    call: Call
    request: OpenRequest
    seed: int
    names: Mapping[int, tuple[str, ...]] | None = None
    listings: Mapping[int, Outline] = field(default_factory=dict)
    """What tells these listings from others. Their names are kept already."""
    orders: Mapping[int, Mapping[int, Order]] = field(default_factory=dict)
    """Orders of the files, by seed; see `ListFiles`."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Somebody wants a worker to leave in order."""

    call: Call
    worker: WorkerId


@dataclass(frozen=True, slots=True)
class LineBroken:
    """The stream of a worker ended. That is no death, but it gets nothing new until it beats."""

    worker: WorkerId
    incarnation: int


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """At the address of a worker whose line broke nobody answers: that process has ended."""

    worker: WorkerId
    incarnation: int


@dataclass(frozen=True, slots=True)
class ReaderLineBroken:
    """The stream of a reader ended. Only its lease says when it is given up."""

    iteration: IterationId
    token: str


@dataclass(frozen=True, slots=True)
class FilesOrdered:
    """The order was made that `OrderFiles` asked for."""

    iteration: IterationId
    stream: int
    seed: int
    order: Order


@dataclass(frozen=True, slots=True)
class Tick:
    """Time went by."""


Signal: TypeAlias = (
    Begin
    | Register
    | OpenIteration
    | Drain
    | WorkerBeat
    | SplitRequest
    | LineBroken
    | WorkerGone
    | ReaderBeat
    | ReaderLineBroken
    | FilesOrdered
    | Tick
)

# --- effects ---


@dataclass(frozen=True, slots=True)
class Write:
    """Put a fact into the history. Effects that follow wait until it is there."""

    fact: Fact


@dataclass(frozen=True, slots=True)
class Send:
    """Send an order to a worker in this life of it."""

    worker: WorkerId
    incarnation: int
    order: WorkerOrder


@dataclass(frozen=True, slots=True)
class Show:
    """Send a view to the reader that it names by its token."""

    view: View


@dataclass(frozen=True, slots=True)
class HangUp:
    """End a reader's stream with an error."""

    token: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a call; with nothing, if there is no more to say than that it was heard."""

    call: Call
    answer: DatasetId | Opened | Failure | None


@dataclass(frozen=True, slots=True)
class Probe:
    """Find out whether a process listens at *worker*'s address: if none does, it is `WorkerGone`.

    A refused connection alone is proof; silence is none.
    """

    worker: WorkerId
    incarnation: int


@dataclass(frozen=True, slots=True)
class ListFiles:
    """Find out which files the streams have, keep their names, and send *signal* again with them.

    They will be wanted in the orders that *seeds* make: with a million names that takes seconds.
    """

    signal: OpenIteration
    patterns: Mapping[int, FilePattern]
    seeds: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    names: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The files of streams that are not to be listed again."""


@dataclass(frozen=True, slots=True)
class OrderFiles:
    """Make the order of *names* that the next pass will want, while this one is read."""

    iteration: IterationId
    stream: int
    names: tuple[str, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Report:
    """Log a line: somebody should look at it."""

    line: str


Effect: TypeAlias = Write | Send | Show | HangUp | Answer | Probe | ListFiles | OrderFiles | Report

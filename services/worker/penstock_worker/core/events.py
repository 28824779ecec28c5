"""What the worker's mind hears, and what it wants done: events and effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, TypeAlias

from penstock.messages import (
    Ack,
    Assignment,
    Frame,
    Open,
    Recall,
    Run,
    SplitGrant,
    SplitRequest,
    StreamEnd,
)
from penstock_worker.runner.orders import (
    Ended,
    Failed,
    Free,
    Full,
    Grant,
    Made,
    Need,
    Pause,
    Paused,
    Reached,
    Skipped,
    Want,
)

StreamId = NewType("StreamId", int)
"""One reading stream, named by the body; a reader that opens anew gets another."""

# --- events ---


@dataclass(frozen=True, slots=True)
class Opened:
    """A reader opened a stream, and said what it has. It asks for a first frame."""

    stream: StreamId
    open: Open


@dataclass(frozen=True, slots=True)
class Acked:
    """A reader took elements, or has room for more."""

    stream: StreamId
    ack: Ack


@dataclass(frozen=True, slots=True)
class Asked:
    """A stream has sent what it was given, and could send another frame."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class Hung:
    """A stream is gone. What its reader holds stays held until it opens anew or parts."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class Inexact:
    """The pipeline of *run* may not make the same element when it makes it again."""

    run: int


@dataclass(frozen=True, slots=True)
class RunnerLost:
    """The process of *run* ended by itself; *how* says so in words."""

    run: int
    how: str


@dataclass(frozen=True, slots=True)
class NotStarted:
    """No runner could be had for *run*: the system has no room for one now; *why* says so."""

    run: int
    why: str


@dataclass(frozen=True, slots=True)
class Leave:
    """The worker is to leave in order: its tasks go on elsewhere."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The line to the dispatcher is new: what was asked on the old one may be lost."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time went by."""


FromRunner: TypeAlias = (
    Inexact
    | Made
    | Skipped
    | Reached
    | Need
    | Full
    | Paused
    | Ended
    | Failed
    | RunnerLost
    | NotStarted
)
FromReader: TypeAlias = Opened | Acked | Asked | Hung
FromDispatcher: TypeAlias = Assignment | SplitGrant | Connected
Event: TypeAlias = FromRunner | FromReader | FromDispatcher | Leave | Tick

# --- effects ---


@dataclass(frozen=True, slots=True)
class StartRun:
    """Have a runner run *order* in *after* seconds; it answers under the name *run*.

    *known* and *careful* are those of `penstock_worker.runner.orders.Start`.
    """

    run: int
    order: Run
    known: int
    careful: bool = False
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class StopRun:
    """The runner of *run* is free for another. Its places are all given up."""

    run: int


@dataclass(frozen=True, slots=True)
class Keep:
    """The runner of *run* is dead: of what it made, *frames* are needed until they are freed."""

    run: int
    frames: tuple[Made, ...]


@dataclass(frozen=True, slots=True)
class Tell:
    """Pass *order* to the runner that it names. Of a dead one, places are freed that were kept."""

    order: Grant | Free | Want | Pause


@dataclass(frozen=True, slots=True)
class AskSplits:
    """Ask the dispatcher for splits."""

    request: SplitRequest


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send the payload of *made*, under *header*. It is there now, and may not be later."""

    stream: StreamId
    header: Frame
    made: Made


@dataclass(frozen=True, slots=True)
class SendRecall:
    """Ask a reader for what its loop is not asking for."""

    stream: StreamId
    recall: Recall


@dataclass(frozen=True, slots=True)
class SendEnd:
    """End a stream behind what was sent on it."""

    stream: StreamId
    end: StreamEnd


@dataclass(frozen=True, slots=True)
class Break:
    """Break a stream off: its reader may try again. *why* says what for."""

    stream: StreamId
    why: str


@dataclass(frozen=True, slots=True)
class Beat:
    """Beat now: something changed that the dispatcher waits for, or it is time."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """From now on the worker is about to leave."""


@dataclass(frozen=True, slots=True)
class Left:
    """Nothing keeps the worker any more: the dispatcher knows that its tasks are free."""


@dataclass(frozen=True, slots=True)
class Complain:
    """Log *text*: something is wrong that does not end the worker."""

    text: str


Effect: TypeAlias = (
    StartRun
    | StopRun
    | Keep
    | Tell
    | AskSplits
    | SendFrame
    | SendRecall
    | SendEnd
    | Break
    | Beat
    | Leaving
    | Left
    | Complain
)

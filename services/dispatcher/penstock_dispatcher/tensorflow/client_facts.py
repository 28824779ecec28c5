"""Final decisions about TensorFlow's jobs, passes, clients and workers."""

from __future__ import annotations

import msgspec


class ClientFact(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A final decision."""


class JobMade(ClientFact, frozen=True):
    """A job has this number. One of a single client has a name that nobody else asks for."""

    number: int
    dataset_id: str
    name: str
    sharding_policy: int
    num_consumers: int
    cached: bool
    target_workers: int


class PassMade(ClientFact, frozen=True):
    """A repetition of a job has this number."""

    number: int
    job: int
    repetition: int


class ClientMade(ClientFact, frozen=True):
    """A client of a pass has this number."""

    number: int
    reads: int


class ClientGone(ClientFact, frozen=True):
    """A client was released, or has been silent for long."""

    number: int


class PassOver(ClientFact, frozen=True):
    """All of a pass was read."""

    number: int


class WorkerNumbered(ClientFact, frozen=True):
    """A worker has this number, from 0 on."""

    number: int
    address: str


class ReaderChosen(ClientFact, frozen=True):
    """One worker reads a pass for all its consumers: they get the elements of a round there.

    That is task number *turn* of the pass.
    """

    number: int
    worker: str
    turn: int = 0


class ConsumerCounted(ClientFact, frozen=True):
    """In the newest task of a pass, a consumer's client means *round* by the number *asked*."""

    number: int
    consumer: int
    asked: int
    round: int


class TaskGivenUp(ClientFact, frozen=True):
    """A consumer heard that the newest task of a pass is gone, and continues with *start*."""

    number: int
    consumer: int
    start: int | None


Fact = (
    JobMade
    | PassMade
    | ClientMade
    | ClientGone
    | PassOver
    | WorkerNumbered
    | ReaderChosen
    | ConsumerCounted
    | TaskGivenUp
)

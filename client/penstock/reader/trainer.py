"""The cross-trainer cache, as `distribute` is asked for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import DatasetError
from penstock.protocol.cache import WhenFull
from penstock.protocol.calls import OpenIterationRequest
from penstock.protocol.malformed import glimpse
from penstock.protocol.names import LONGEST_NAME, too_long


@dataclass(frozen=True)
class CrossTrainerCache:
    """Which trainer reads a job whose elements are made once for any number of trainers.

    Args:
        trainer_id: the trainer's name: its readers share its elements; another name gets them all
            again, as far as they are still in the workers' windows.

    Raises:
        DatasetError: when *trainer_id* is no name.

    >>> from penstock.service import CrossTrainerCache
    >>> CrossTrainerCache("learning rate 0.1")
    CrossTrainerCache(trainer_id='learning rate 0.1')
    """

    trainer_id: str

    def __post_init__(self) -> None:
        given: Any = self.trainer_id
        if not isinstance(given, str) or not given.strip():
            raise DatasetError(
                f"CrossTrainerCache: trainer_id must be a name that is not empty, not {given!r}"
            )
        if too_long(given):
            raise DatasetError(
                f"CrossTrainerCache: trainer_id may take {LONGEST_NAME} bytes: {glimpse(given)} "
                f"has {len(given)} characters"
            )


@dataclass(frozen=True, slots=True)
class Trainer:
    """Who reads a cached job, and what all its trainers agree on."""

    name: str
    when_full: WhenFull

    def requested(self, request: OpenIterationRequest) -> OpenIterationRequest:
        """Return *request* with what all trainers must agree on."""
        return replace(request, trainer=self.name, when_full=self.when_full.value)


def trainer_of(
    cache: Any, when_full: Any, job_name: str | None, *, coordinated: bool
) -> Trainer | None:
    """Return what the arguments of `distribute` ask for; None is a job without a cache.

    Raises:
        DatasetError: naming the argument, its value and what to do.
    """
    known = [policy.value for policy in WhenFull]
    if not isinstance(when_full, str) or when_full not in known:
        raise DatasetError(f"when_full must be {known[0]!r} or {known[1]!r}, not {when_full!r}")
    if cache is None:
        if when_full != WhenFull.SKIP.value:
            raise DatasetError(
                f"when_full={when_full!r} is for a cross_trainer_cache: without one, nobody skips"
            )
        return None
    if not isinstance(cache, CrossTrainerCache):
        raise DatasetError(
            "cross_trainer_cache must be a penstock.service.CrossTrainerCache(trainer_id), not "
            f"{cache!r}"
        )
    if job_name is None:
        raise DatasetError(
            f"distribute: cross_trainer_cache={cache!r} needs a job_name, under which trainers meet"
        )
    if coordinated:
        raise DatasetError(
            "distribute: cross_trainer_cache and num_consumers exclude each other: in a round all "
            "consumers are at one element, and trainers of a cache go each at its own pace"
        )
    return Trainer(cache.trainer_id, WhenFull(when_full))

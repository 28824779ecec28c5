"""What an attempt is made with: what all of a worker's share, and who is to get what it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.protocol.control import TaskAssignment
from penstock.protocol.types import WorkerId
from penstock_worker.core.counters import WorkerCounters
from penstock_worker.core.delivery_policy import DeliveryPolicy
from penstock_worker.core.first_come import FirstCome
from penstock_worker.core.round_groups import RoundGroups
from penstock_worker.core.shared_cache import SharedCache
from penstock_worker.core.sharing_readers import Sender
from penstock_worker.core.strided import Strided

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class AttemptConfig(Generic[A]):
    """What all attempts of a worker share: *room* is how many bytes of a job may be kept.

    Tasks that fill its *slots* have equal parts of that. *cache* is how many bytes those of a
    cached job may keep together.
    """

    worker: WorkerId
    room: int
    cache: int
    slots: int
    counters: WorkerCounters
    name_run: Callable[[A], int]
    """Returns the number of an attempt's next run."""


def policy_of(assignment: TaskAssignment, sender: Sender) -> DeliveryPolicy[Any]:
    """Return who is to get what of an attempt."""
    if assignment.grouped is not None:
        return RoundGroups(assignment, assignment.grouped, sender)
    if assignment.cached is not None:
        return SharedCache(assignment, assignment.cached, sender)
    if assignment.stride is not None:
        return Strided(assignment, assignment.stride, sender)
    return FirstCome(assignment, sender)

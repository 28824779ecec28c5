"""The loops that are interrupted: one of each kind, over numbered elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from penstock import Dataset
from penstock.service import CrossTrainerCache

ELEMENTS = 20_000


class After(Enum):
    """How the loop goes on after an interrupt, now and then; else by the same iterator."""

    STATE = auto()
    """By another iterator, from the state of the one that was interrupted."""
    CLOSED = auto()
    """By another iterator of the same job, when the one that was interrupted is closed."""
    SAME = auto()


@dataclass(frozen=True)
class Loop:
    """*make* returns the dataset of pass *number*, at a cluster or without one."""

    make: Callable[[Dataset, str, int], Dataset]
    distributed: bool
    after: After
    elements: int = ELEMENTS
    copies: int = 1
    """How often each element comes: in coordinated reads, from each of two workers."""

    def dataset(self, target: str, number: int) -> Dataset:
        """Return the dataset of a pass."""
        return self.make(Dataset.range(self.elements), target, number)


def _one_more(x: Any) -> Any:
    return x + 1 - 1


def _tens(x: Any) -> Dataset:
    return Dataset.range(x * 10, x * 10 + 10)


def _far(source: Dataset, target: str, number: int, **how: Any) -> Dataset:
    return source.map(_one_more).distribute(
        "distributed_epoch", target, f"pass {number}", on_finished="ignore", **how
    )


def _rounds(source: Dataset, target: str, number: int) -> Dataset:
    return source.map(_one_more).distribute(
        "parallel_epochs", target, f"rounds {number}", consumer_index=0, num_consumers=1
    )


def _trained(source: Dataset, target: str, number: int) -> Dataset:
    cached = CrossTrainerCache(f"trainer {number}")
    return source.map(_one_more).distribute(
        "distributed_epoch", target, f"cached {number}", cross_trainer_cache=cached
    )


def _local(behind: Callable[[Dataset], Dataset], elements: int = ELEMENTS) -> Loop:
    return Loop(lambda source, _target, _number: behind(source), False, After.STATE, elements)


LOOPS = {
    "local map": _local(lambda d: d.map(_one_more)),
    "local prefetch": _local(lambda d: d.map(_one_more).prefetch(8)),
    "local parallel map": _local(lambda d: d.map(_one_more, num_parallel_calls=4)),
    "local interleave": _local(
        lambda d: d.take(ELEMENTS // 10).interleave(
            _tens, cycle_length=2, num_parallel_calls=2, deterministic=True
        )
    ),
    "local shuffle": _local(lambda d: d.shuffle(100, seed=1).map(_one_more).ignore_errors()),
    "local generator": _local(
        lambda d: Dataset.from_generator(lambda: iter(range(ELEMENTS))).map(_one_more)
    ),
    "local cache": _local(lambda d: d.map(_one_more).cache()),
    "distributed": Loop(_far, True, After.CLOSED),
    "distributed, operators behind": Loop(
        lambda *given: _far(*given).map(_one_more).prefetch(4), True, After.CLOSED
    ),
    "coordinated": Loop(_rounds, True, After.SAME, 500, copies=2),
    "cached for trainers": Loop(_trained, True, After.SAME, 5_000),
}

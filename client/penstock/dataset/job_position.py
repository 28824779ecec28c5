"""The position of an iterator in its jobs: rounds, skipped elements, and transports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from penstock.element import Element
from penstock.graph.run import PipelineRun
from penstock.options import check_count


class JobPosition(ABC):
    """The properties and methods of `DatasetIterator` that concern jobs."""

    _active: Iterator[Element]

    @abstractmethod
    def _check_open(self) -> PipelineRun:
        """Return the run, unless this is closed."""

    @abstractmethod
    def _in_turn(self, call: Callable[[], Any]) -> Any:
        """Make *call* when no other thread is at it."""

    @property
    def round(self) -> int:
        """The number of rounds of coordinated reads taken or skipped: the next round's number.

        Rounds whose elements operators after `distribute` still hold do not count as taken. After
        a crash, all consumers continue with the largest `round` of all. A restarted consumer uses
        ``distribute(..., start_round=...)``, the others call `skip_to`.

        Raises:
            DatasetError: when the pipeline has not exactly one `distribute` with *num_consumers*.
            Closed: after `close`.

        >>> from penstock_cluster import LocalCluster
        >>> with LocalCluster(workers=1) as cluster:
        ...     rounds = Dataset.range(6).distribute(
        ...         "parallel_epochs", cluster.target, "one", consumer_index=0, num_consumers=1
        ...     )
        ...     with iter(rounds) as elements:
        ...         elements.round, int(next(elements)), elements.round
        (0, 0, 1)
        """
        return self._check_open().round

    def skip_to(self, round: int) -> None:  # noqa: A002  # its name in all of this
        """Continue with a later round of coordinated reads; rounds left out count as `skipped`.

        Operators after `distribute` start again.

        Args:
            round: the round whose element comes next: the current `round` or a later one.

        Raises:
            DatasetError: when *round* was already taken, or see `round`.
            Closed: after `close`.

        >>> from penstock_cluster import LocalCluster
        >>> with LocalCluster(workers=1) as cluster:
        ...     rounds = Dataset.range(6).distribute(
        ...         "parallel_epochs", cluster.target, "one", consumer_index=0, num_consumers=1
        ...     )
        ...     with iter(rounds) as elements:
        ...         elements.skip_to(4)
        ...         [int(x) for x in elements], elements.skipped
        ([4, 5], 4)
        """
        self._check_open()
        self._in_turn(partial(self._skip_to, check_count("skip_to", "round", round, least=0)))

    @property
    def skipped(self) -> int:
        """How many elements this reader left out: rounds that `skip_to` skipped.

        With a `CrossTrainerCache`, it counts elements that left the window before the trainer got
        them, the same for all its readers. Elements that left before the trainer came do not count.

        Raises:
            Closed: after `close`.

        >>> iter(Dataset.range(5)).skipped
        0
        """
        return self._check_open().skipped

    @property
    def transport(self) -> Mapping[str, str]:
        """The transport by which each worker is read, by address: ``"local"`` or ``"grpc"``.

        Workers that have no more elements may be missing.

        Raises:
            Closed: after `close`.

        >>> iter(Dataset.range(5)).transport
        {}
        """
        return self._check_open().transport

    @property
    def padding(self) -> bool:
        """Whether the newest element of coordinated reads only pads a group that was too short.

        This happens at the end of a task with ``remainder="pad"``; a loss can leave the element
        out. With operators after `distribute`, it describes the newest element that they took.

        Raises:
            DatasetError: see `round`.
            Closed: after `close`.

        >>> from penstock_cluster import LocalCluster
        >>> with LocalCluster(workers=1) as cluster:
        ...     rounds = Dataset.range(6).distribute(
        ...         "parallel_epochs", cluster.target, "one", consumer_index=0, num_consumers=1
        ...     )
        ...     with iter(rounds) as elements:
        ...         int(next(elements)), elements.padding
        (0, False)
        """
        return self._check_open().padding

    def _skip_to(self, number: int) -> None:
        self._check_open().skip_to(number)
        self._active = iter(())

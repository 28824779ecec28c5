"""Where an iterator stands in the jobs that it reads: rounds, what was left out, by which way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from penstock.element import Element
from penstock.graph.run import PipelineRun
from penstock.options import check_count


class JobPosition(ABC):
    """What `DatasetIterator` says of jobs."""

    _active: Iterator[Element]

    @abstractmethod
    def _check_open(self) -> PipelineRun:
        """Return the run, unless this is closed."""

    @abstractmethod
    def _in_turn(self, call: Callable[[], Any]) -> Any:
        """Make *call* when no other thread is at it."""

    @property
    def round(self) -> int:
        """The round of coordinated reads whose element comes next: as many were had, or skipped.

        What operators behind `distribute` hold was not had. After a crash, all consumers go on
        with the largest one: the restarted with ``distribute(..., start_round=...)``, the others by
        `skip_to`.

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
        """Go on with a later round of coordinated reads; what is left out counts as `skipped`.

        Operators behind `distribute` begin anew.

        Args:
            round: the round whose element comes next; that of `round` or a later one.

        Raises:
            DatasetError: when *round* was had already, or see `round`.
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
        """How many elements were left out here: rounds that `skip_to` passed over.

        With a `CrossTrainerCache`, those that left the window before the trainer had them: the same
        for all its readers. What had left the window before the trainer came is not counted.

        Raises:
            Closed: after `close`.

        >>> iter(Dataset.range(5)).skipped
        0
        """
        return self._check_open().skipped

    @property
    def transport(self) -> Mapping[str, str]:
        """The transport by which each worker is read, by address: ``"local"`` or ``"grpc"``.

        Workers that have nothing more may be missing.

        Raises:
            Closed: after `close`.

        >>> iter(Dataset.range(5)).transport
        {}
        """
        return self._check_open().transport

    @property
    def padding(self) -> bool:
        """Whether the newest element of coordinated reads fills a group that was too short.

        That is so with ``remainder="pad"`` at the end of a task: a loss can leave it out. Behind
        operators it is that of the newest element which they took.

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

"""How many bytes of definitions are kept, in all and of whom: the room that registering takes."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.credentials.per_identity import PerIdentity
from penstock.errors import Overloaded
from penstock.protocol.types import DatasetId


class RegisteredBytes:
    """Counts definitions. Those that were there before this process are nobody's in particular.

    Args:
        most: how many bytes they may take together.
        most_each: how many of these one identity may have brought.
    """

    def __init__(self, most: int, most_each: int) -> None:
        self._most = most
        self._each = PerIdentity(
            most_each, "bytes of pipelines", "max_registered_bytes_per_identity"
        )
        self._kept: dict[DatasetId, dict[str, tuple[int, str | None]]] = {}
        self.total = 0
        """Bytes that are kept."""

    def found(self, dataset: DatasetId, python: str, nbytes: int) -> None:
        """Count a definition that was there before."""
        self._note(dataset, python, nbytes, None)

    def take(self, dataset: DatasetId, python: str, nbytes: int, who: str) -> bool:
        """Count a definition that *who* brings; return False if it is counted already.

        Raises:
            Overloaded: when there is no room for it.
        """
        if python in self._kept.get(dataset, {}):
            return False
        if self.total + nbytes > self._most:
            raise Overloaded(
                f"the pipeline takes {nbytes} bytes, those that are registered here take "
                f"{self.total}, and together they may take {self._most}: wait until those that "
                "nothing uses are forgotten (dataset_gc_timeout), keep large data in files, or "
                "start the dispatcher with a larger max_registered_bytes"
            )
        self._each.take(who, nbytes)
        self._note(dataset, python, nbytes, who)
        return True

    def give_back(self, dataset: DatasetId, python: str) -> None:
        """Count a definition no more."""
        variants = self._kept.get(dataset, {})
        nbytes, who = variants.pop(python, (0, None))
        self.total -= nbytes
        if who is not None:
            self._each.give_back(who, nbytes)
        if not variants:
            self._kept.pop(dataset, None)

    def forget(self, datasets: Iterable[DatasetId]) -> None:
        """Count the definitions of *datasets* no more."""
        for dataset in datasets:
            for python in tuple(self._kept.get(dataset, ())):
                self.give_back(dataset, python)

    def _note(self, dataset: DatasetId, python: str, nbytes: int, who: str | None) -> None:
        self._kept.setdefault(dataset, {})[python] = nbytes, who
        self.total += nbytes

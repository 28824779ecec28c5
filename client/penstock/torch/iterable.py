"""`as_iterable`: a dataset as an `IterableDataset`, for code that has a ``DataLoader``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch.utils.data

from penstock.element import Element
from penstock.errors import DatasetError
from penstock.loading.loader import FrameworkLoader
from penstock.torch.tensors import tensors_of


def as_iterable(dataset: Any) -> PassedOn:
    """Return a dataset as an `torch.utils.data.IterableDataset` of nests of CPU tensors and text.

    Read it by ``DataLoader(as_iterable(dataset), batch_size=None)``: batches are the dataset's own.
    It has ``state_dict`` and ``load_state_dict``, which `torchdata`'s ``StatefulDataLoader`` calls.
    Processes of a ``DataLoader`` (``num_workers=1`` and more) are refused: each would read all of
    the job. Workers of Penstock make elements in parallel instead.

    Args:
        dataset: what to read.

    Raises:
        DatasetError: when *dataset* is no `Dataset`; and when it is read in a ``DataLoader``'s
            process.
        ElementError: at the element, when it holds numbers that torch has not, as times.

    >>> from torch.utils.data import DataLoader
    >>> from penstock.torch import as_iterable
    >>> batches = DataLoader(as_iterable(Dataset.range(4).batch(2)), batch_size=None)
    >>> list(batches)
    [tensor([0, 1]), tensor([2, 3])]
    """
    made = Counted(dataset)
    return made if made.known else PassedOn(dataset)


class PassedOn(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """The result of `as_iterable`."""

    def __init__(self, dataset: Any) -> None:
        self._loader = _Tensors(dataset, prefetch=0)

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        if info is not None:
            raise DatasetError(
                f"as_iterable: this is process {info.id} of {info.num_workers} of a DataLoader, "
                "and each would read all of the dataset by itself: use num_workers=0; "
                "Dataset.distribute has elements made in parallel, by workers of Penstock"
            )
        return iter(self._loader)

    def state_dict(self) -> dict[str, Any]:
        """Return where the pass that is read stands, as plain JSON; see `Loader.state_dict`."""
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next ``iter()`` continue from a state; see `Loader.load_state_dict`."""
        self._loader.load_state_dict(state)


class Counted(PassedOn):
    """A `PassedOn` whose number of elements is known: others must have no length."""

    @property
    def known(self) -> bool:
        """Whether the number of elements is known."""
        return self._loader.cardinality >= 0

    def __len__(self) -> int:
        return len(self._loader)


class _Tensors(FrameworkLoader):
    framework: ClassVar[str] = "penstock.torch.as_iterable"

    def _place(self, element: Element) -> Any:
        return tensors_of(element)

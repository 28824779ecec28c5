"""The window of a dataset of dicts: a dict of datasets that has a dataset's methods too."""

from __future__ import annotations

from typing import Any

from penstock.graph.dataset_base import DatasetBase


class WindowDict(dict[str, Any]):
    """A dict of datasets. Methods of `Dataset` see their elements side by side, as dicts."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # protocols that are looked for: it has those of a dict
            raise AttributeError(name)
        concrete: Any = DatasetBase.concrete
        return getattr(concrete.zip(datasets=self), name)

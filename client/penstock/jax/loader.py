"""`Loader`: a dataset's elements as `jax.Array`, on their devices before they are used."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import numpy as np

from penstock.element import Element, arranged, describe, leaves, map_leaves, rebuild
from penstock.errors import DatasetError, ElementError
from penstock.loading.loader import FrameworkLoader, jobs
from penstock.loading.placed import numeric
from penstock.runtime.tracebacks import named_by


class Loader(FrameworkLoader):
    """A dataset's elements as nests of `jax.Array`; each ``iter()`` is a pass.

    Each element is this process' part of a global array, as
    `jax.make_array_from_process_local_data` puts it together: a batch of 8 rows in each of two
    processes is one array of 16 under a sharding by rows. The next elements are put on their
    devices by a thread while the step runs. Dtypes are those of the dataset; without
    ``jax_enable_x64`` JAX makes 32-bit numbers of 64-bit ones.

    Several processes must make equally many steps: give `distribute` consumer indexes
    (``jax.process_index()`` of ``jax.process_count()``).

    Args:
        dataset: what to read. Its batches are the loader's: there is no batch size here.
        sharding: a `jax.sharding.Sharding` for all arrays of an element, or a nest of them as the
            element is; None: the default device.
        prefetch: how many elements are placed ahead of the loop; 2 is a double buffer, 0 is without
            a thread.

    Raises:
        DatasetError: when an argument is malformed; when several processes share a job first come,
            first served, which ends at another step in each.
        ElementError: at the element, when it holds text, or cannot be divided as *sharding* says.

    >>> import jax
    >>> from penstock.jax import Loader
    >>> mesh = jax.make_mesh((1,), ("data",))
    >>> rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    >>> for batch in Loader(Dataset.range(4).map(lambda x: {"x": x * 0.5}).batch(2), rows):
    ...     print(batch["x"].shape, float(batch["x"].sum()))
    (2,) 0.5
    (2,) 2.5
    """

    framework: ClassVar[str] = "penstock.jax.Loader"

    def __init__(self, dataset: Any, sharding: Any = None, prefetch: int = 2) -> None:
        for each in leaves(sharding):
            if each is not None and not isinstance(each, jax.sharding.Sharding):
                raise DatasetError(
                    "Loader: sharding must be a jax.sharding.Sharding, as NamedSharding, or a nest "
                    f"of them as the elements are, not {each!r}"
                )
        self._sharding = sharding
        super().__init__(dataset, prefetch)
        if jax.process_count() > 1:
            _check_even(self._node)

    def _place(self, element: Element) -> Any:
        shardings = self._shardings(element)
        arrays = [numeric(leaf, "JAX") for leaf in leaves(element)]
        placed = [_placed(*pair) for pair in zip(arrays, shardings, strict=True)]
        return rebuild(element, placed)

    def _shardings(self, element: Element) -> list[Any]:
        if not isinstance(self._sharding, (tuple, dict)):
            return [self._sharding] * len(leaves(element))
        shardings = arranged(element, self._sharding)
        if shardings is None:
            raise ElementError(
                f"Loader: the nest of shardings {map_leaves(type, self._sharding)} is not that of "
                f"the element {describe(element)}: give one sharding for each of its arrays"
            )
        return leaves(shardings)


def _placed(array: np.ndarray[Any, Any], sharding: Any) -> Any:
    if sharding is None:
        return jax.device_put(array)
    try:
        return jax.make_array_from_process_local_data(sharding, array)
    except (ValueError, IndexError) as exc:
        raise ElementError(
            f"an array of {array.dtype}{list(array.shape)} cannot be divided by {sharding}: {exc}. "
            "Batches must have as many rows as the process has devices along that axis, or a "
            "multiple: use batch(..., drop_remainder=True), and another sharding for arrays with "
            "fewer axes"
        ) from exc


def _check_even(node: Any) -> None:
    if any(job.shared and not job.in_rounds for job in jobs(node)):
        raise DatasetError(
            f"Loader: {jax.process_count()} processes share a job that is not read in rounds: some "
            "would end at an earlier step, and the others wait for them forever. Give distribute("
            "consumer_index=jax.process_index(), num_consumers=jax.process_count()), without "
            "ordered=True"
        )


named_by(Loader)

"""`Dataset`: the fluent face of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.analysis.element_spec import Spec, element_spec
from penstock.analysis.visitation import Visitation, visitation
from penstock.dataset import reduce as reduce_module
from penstock.dataset.elementwise import Elementwise
from penstock.dataset.iterator import DatasetIterator
from penstock.dataset.reduce import single
from penstock.dataset.regrouping import Regrouping
from penstock.dataset.sources import Sources
from penstock.element import Element
from penstock.engine.iterator import State
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE, UNKNOWN, Node
from penstock.protocol.types import ShardingPolicy
from penstock.reader.distribute import distribute
from penstock.reader.external_state import check_external_state


class Dataset(Sources, Elementwise, Regrouping):
    """An immutable recipe for elements; nothing runs until it is read.

    Every method returns a new dataset:

    >>> list(Dataset.range(6).map(lambda x: x * x).batch(4))
    [array([0, 1, 4, 9]), array([16, 25])]
    """

    __slots__ = ("_spec",)

    _spec: Spec

    def __getstate__(self) -> object:
        # As by default, without what was found out about it: it is the same dataset as before.
        return None, {"_node": self.node}

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Return ``transformation_func(self)``: for steps that have no method."""
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise DatasetError(f"apply: transformation_func must return a Dataset, not {dataset!r}")
        return dataset

    # --- the mesh ---

    def distribute(  # noqa: PLR0913  # see `penstock.reader.distribute.distribute`
        self,
        processing_mode: ShardingPolicy | str,
        service: str | tuple[str, str],
        job_name: str | None = None,
        consumer_index: int | None = None,
        num_consumers: int | None = None,
        max_outstanding_requests: int | None = None,
        data_transfer_protocol: str | None = None,
        compression: str | None = "AUTO",
        cross_trainer_cache: object = None,
        target_workers: str = "AUTO",
        *,
        ordered: bool = False,
        remainder: str = "drop",
        writable: bool = False,
        timeout: float = 60.0,
        on_finished: str = "warn",
    ) -> Dataset:
        """Run what is before this on workers; see `penstock.reader.distribute.distribute`."""
        return self.apply(
            distribute(
                processing_mode,
                service,
                job_name,
                consumer_index,
                num_consumers,
                max_outstanding_requests,
                data_transfer_protocol,
                compression,
                cross_trainer_cache,
                target_workers,
                ordered=ordered,
                remainder=remainder,
                writable=writable,
                timeout=timeout,
                on_finished=on_finished,
            )
        )

    # --- reading ---

    def cardinality(self) -> int:
        """Return how many elements there are, or `INFINITE`, or `UNKNOWN`."""
        return self.node.cardinality

    def visitation(self) -> Visitation:
        """Return how often each element is handed out, whatever dies, and why not more exactly.

        Print it to read it. No function is called and no data is read. What cannot be seen so
        (an installed package that draws random numbers by itself) is taken for harmless.
        """
        return visitation(self.node)

    @property
    def element_spec(self) -> Spec:
        """What elements look like: a nest of `ArraySpec` and, for windows, `DatasetSpec`.

        The first use makes one element in this process, also where `distribute` has workers make
        them; nothing else does. An axis of elements that may have another length in others, such
        as that of batches of which the last may be short, is None. Of what a function returns only
        the first axis is None, if it is as long as a batch that it was given.

        >>> Dataset.range(5).batch(2).element_spec
        ArraySpec(shape=(None,), dtype=dtype('int64'))

        Raises:
            DatasetError: when there are no elements.
        """
        try:
            return self._spec
        except AttributeError:
            self._spec = element_spec(self.node)
            return self._spec

    def reduce(self, initial_state: Any, reduce_func: Callable[[Element, Element], Any]) -> Element:
        """Read everything; return what is left of ``state = reduce_func(state, element)``.

        The state is a nest of array-likes; it keeps its structure. Tuples are not unpacked.

        >>> int(Dataset.range(5).reduce(0, lambda total, x: total + x))
        10

        Raises:
            TransformError: when *reduce_func* raises, or returns something else than a state.
        """
        return reduce_module.reduce(self._checked(), initial_state, reduce_func)

    def get_single_element(self) -> Element:
        """Return the only element.

        Raises:
            DatasetError: when there are none, or more than one.
        """
        return single(self._checked())

    def iterator(self, state: State = None) -> DatasetIterator:
        """Return an iterator, from *state* on if one is given.

        A state is what `DatasetIterator.state` returned, here or elsewhere, for a dataset that
        the same code built. With `distribute` it is a whole job's, and goes on with any number of
        readers and workers, also of a cluster that never saw the job: readers that give it the same
        ``job_name`` share what was left, the first opens it. What was taken since the state was
        saved comes again; who still reads the job as it was then gets a `Superseded` error. What
        is behind `distribute` may differ from then, in batch size for instance.

        Raises:
            StateError: saying what differs, when the state is not one of this dataset.
        """
        return DatasetIterator(self._checked(), state)

    def as_numpy_iterator(self) -> DatasetIterator:
        """Return an iterator: elements are NumPy arrays, scalars and text in any case."""
        return DatasetIterator(self._checked())

    def __iter__(self) -> DatasetIterator:
        return DatasetIterator(self._checked())

    def _checked(self) -> Node:
        """Return the graph; what is wrong with it shows when it is read, by whatever way."""
        check_external_state(self.node)
        return self.node

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        size = self.node.cardinality
        if size in (INFINITE, UNKNOWN):
            word = "infinite" if size == INFINITE else "unknown"
            raise TypeError(f"the length of this dataset is {word}; see Dataset.cardinality()")
        return size

    def __repr__(self) -> str:
        return f"<Dataset {self.node.label}>"

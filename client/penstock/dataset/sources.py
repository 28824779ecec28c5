"""Sources that need no files, and datasets made of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from penstock.element import is_flat, leaves, rebuild, shown
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.graph.traversal import DatasetBase
from penstock.ops.counter import Counter
from penstock.ops.generator import Generator
from penstock.ops.random import Random
from penstock.ops.range import Range
from penstock.ops.selection import ChooseFromDatasets, SampleFromDatasets
from penstock.ops.sequence import sequence_of
from penstock.ops.slices import Slices, Tensors
from penstock.ops.zip import Zip


class Sources(DatasetBase):
    """Class methods that return a new dataset."""

    __slots__ = ()

    @classmethod
    def range(cls, *args: int) -> Self:
        """Return a dataset of int64 scalars, counted as `range` counts.

        Args:
            args: ``stop``, or ``start, stop``, or ``start, stop, step``; *stop* is not reached.

        Raises:
            DatasetError: when these are not one to three integers that fit int64, or a step is 0.

        >>> list(Dataset.range(2, 10, 3).batch(3))
        [array([2, 5, 8])]
        """
        if not 1 <= len(args) <= 3:
            raise DatasetError(f"range: give stop, or start and stop, or a step too, not {args!r}")
        start, stop = (0, args[0]) if len(args) == 1 else args[:2]
        return cls(Range(start, stop, args[2] if len(args) == 3 else 1))

    @classmethod
    def from_tensors(cls, tensors: Any) -> Self:
        """Return a dataset of one element.

        Args:
            tensors: the element, a nest (tuples, named tuples, dicts) of array-likes and text. A
                list is an array.

        Raises:
            ElementError: when a part of it is neither an array nor text.

        >>> list(Dataset.from_tensors({"x": [1, 2], "y": "a"}))
        [{'x': array([1, 2]), 'y': 'a'}]
        """
        return cls(Tensors(tensors))

    @classmethod
    def from_tensor_slices(cls, tensors: Any) -> Self:
        """Return a dataset of the rows of arrays, one for each index of their first axis.

        Args:
            tensors: a nest of array-likes, whose first axes have one length. Elements have its
                structure, and its dtypes.

        Raises:
            DatasetError: when there is no array, one is a scalar, or lengths differ.
            ElementError: when a part is neither an array nor text.

        >>> list(Dataset.from_tensor_slices({"x": [[1, 2], [3, 4]], "y": ["a", "b"]}))
        [{'x': array([1, 2]), 'y': 'a'}, {'x': array([3, 4]), 'y': 'b'}]
        """
        return cls(Slices(tensors))

    @classmethod
    def from_sequence(cls, obj: Any) -> Self:
        """Return a dataset of the items of a list, or of anything with a length and items.

        Workers split it by index, and a saved state is an index, so resuming makes no item again.
        PyTorch's map-style datasets work too.

        Args:
            obj: an object with ``len(obj)`` and ``obj[i]``. ``obj[i]`` is called only when element
                *i* is read. The object travels to workers with the pipeline.

        Raises:
            DatasetError: when *obj* has no length or no items.
            TransformError: in the place of an item for which ``obj[i]`` raises.

        >>> class Squares:
        ...     def __len__(self):
        ...         return 4
        ...     def __getitem__(self, i):
        ...         return i * i
        >>> list(Dataset.from_sequence(Squares()).batch(4))
        [array([0, 1, 4, 9])]
        """
        return cls(sequence_of(obj))

    @classmethod
    def from_generator(
        cls, generator: Callable[..., Iterable[Any]], args: Sequence[Any] | None = None
    ) -> Self:
        """Return a dataset of the elements of an iterable.

        To restore a state, Penstock runs the generator again up to its position, without the later
        operators. `distribute` cannot give parts of it to different workers. If the data has
        indices, use `from_sequence`.

        Args:
            generator: a function that returns the iterable, called once in each pass. It must give
                the same elements each time.
            args: the arguments of the function; None is none.

        Raises:
            DatasetError: when *generator* is not callable, or *args* no tuple or list.
            TransformError: in the place of an element for which the iterable raises. A generator
                function has no more elements after that.

        >>> def countdown(n):
        ...     while n:
        ...         yield n
        ...         n -= 1
        >>> list(Dataset.from_generator(countdown, args=(3,)).batch(3))
        [array([3, 2, 1])]
        """
        return cls(Generator(generator, () if args is None else args))

    @classmethod
    def counter(cls, start: int = 0, step: int = 1) -> Self:
        """Return an infinite dataset of int64 scalars.

        Args:
            start: the first number.
            step: the difference between two numbers; it may be negative.

        Raises:
            DatasetError: when one is no integer that fits int64.

        >>> list(Dataset.counter(5, 10).take(3).batch(3))
        [array([ 5, 15, 25])]
        """
        return cls(Counter(start, step))

    @classmethod
    def random(
        cls, seed: int | None = None, rerandomize_each_iteration: bool | None = None
    ) -> Self:
        """Return an infinite dataset of random int64 scalars, from 0 to below 2**32.

        Under dynamic sharding, tasks divide the numbers: together they give the same numbers as one
        process.

        Args:
            seed: makes each new iterator give the same numbers; see `shuffle`.
            rerandomize_each_iteration: whether the passes of a later `repeat` differ, as they do by
                default.

        Raises:
            DatasetError: when *seed* is no integer.

        >>> list(Dataset.random(seed=1).take(3).batch(3))
        [array([2433363436, 3203108257, 4170425070])]
        """
        return cls(Random(seed, rerandomize_each_iteration is not False))

    @classmethod
    def sample_from_datasets(
        cls,
        datasets: Sequence[DatasetBase],
        weights: Sequence[float] | None = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Self:
        """Return a dataset that takes each element from a dataset drawn at random.

        Args:
            datasets: the datasets to draw from, at least one.
            weights: the relative probability of each dataset; by default all are equal.
            seed: makes each new iterator draw the same; see `shuffle`.
            stop_on_empty_dataset: end when a dataset that has ended is drawn; False continues with
                the others until all have ended.
            rerandomize_each_iteration: whether the passes of a later `repeat` differ, as they do by
                default.

        Raises:
            DatasetError: when an argument is malformed, or *weights* are not as many as *datasets*.

        >>> small, large = Dataset.range(4).repeat(), Dataset.range(10, 14).repeat()
        >>> mixed = Dataset.sample_from_datasets([small, large], weights=[3, 1], seed=1)
        >>> list(mixed.take(8).batch(8))
        [array([ 0,  1, 10,  2,  3, 11, 12,  0])]
        """
        nodes = _nodes("sample_from_datasets", datasets)
        shares: Any = weights
        again = rerandomize_each_iteration is not False
        return cls(SampleFromDatasets(nodes, shares, seed, stop_on_empty_dataset, again))

    @classmethod
    def choose_from_datasets(
        cls,
        datasets: Sequence[DatasetBase],
        choice_dataset: DatasetBase,
        stop_on_empty_dataset: bool = True,
    ) -> Self:
        """Return a dataset that takes each element from the dataset whose number comes next.

        Args:
            datasets: the datasets to choose from, at least one.
            choice_dataset: a dataset of integer scalars from 0 to below ``len(datasets)``.
            stop_on_empty_dataset: end where a dataset that has ended is chosen; False passes such
                choices over.

        Raises:
            DatasetError: when an argument is malformed.
            ElementError: in the place of a choice that is no number of a dataset.

        >>> both = [Dataset.range(3), Dataset.range(10, 13)]
        >>> choices = Dataset.range(2).repeat(3)
        >>> list(Dataset.choose_from_datasets(both, choices).batch(6))
        [array([ 0, 10,  1, 11,  2, 12])]
        """
        nodes = _nodes("choose_from_datasets", datasets)
        if not isinstance(choice_dataset, DatasetBase):
            raise DatasetError(
                f"choose_from_datasets: choice_dataset must be a Dataset, not {choice_dataset!r}"
            )
        return cls(ChooseFromDatasets(choice_dataset.node, nodes, stop_on_empty_dataset))

    @classmethod
    def zip(cls, *args: Any, datasets: Any = None) -> Self:
        """Return a dataset of datasets side by side, as long as the shortest.

        Args:
            args: datasets, for elements that are tuples; or one nest of datasets, for elements of
                its structure.
            datasets: the same nest, by keyword.

        Raises:
            DatasetError: when there are no datasets, or anything else is among them.

        >>> pairs = Dataset.zip({"x": Dataset.range(3), "y": Dataset.range(10, 20)})
        >>> list(pairs.batch(3))
        [{'x': array([0, 1, 2]), 'y': array([10, 11, 12])}]
        """
        if datasets is None:
            datasets = args[0] if len(args) == 1 else args
        elif args:
            raise DatasetError("zip: give the datasets, or the keyword datasets, not both")
        parts = leaves(datasets)
        if not parts or not all(isinstance(part, DatasetBase) for part in parts):
            raise DatasetError(
                "zip: give datasets, or a nest of tuples and dicts of datasets (not of lists), "
                f"not {shown(datasets)}"
            )
        nodes = tuple(part.node for part in parts)
        flat = is_flat(datasets) and isinstance(datasets, tuple)
        return cls(Zip(nodes, None if flat else rebuild(datasets, [0] * len(parts))))


def _nodes(op: str, datasets: Any) -> tuple[Node, ...]:
    if not isinstance(datasets, Sequence) or not all(
        isinstance(one, DatasetBase) for one in datasets
    ):
        raise DatasetError(f"{op}: datasets must be a list of Datasets, not {datasets!r}")
    return tuple(dataset.node for dataset in datasets)

"""Operators that look at one element at a time, and whole passes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Self

from penstock.errors import DatasetError
from penstock.graph.dataset_base import DatasetBase
from penstock.graph.traversal import options_of
from penstock.ops.assert_cardinality import AssertCardinality
from penstock.ops.cache import Cache
from penstock.ops.concatenate import Concatenate
from penstock.ops.enumerate import Enumerate
from penstock.ops.filter import Filter
from penstock.ops.ignore_errors import IgnoreErrors
from penstock.ops.map import Map
from penstock.ops.map_batches import MapBatches
from penstock.ops.repeat import Repeat
from penstock.ops.scan import Scan
from penstock.ops.shard import Shard
from penstock.ops.skip import Skip
from penstock.ops.take import Take
from penstock.ops.take_while import TakeWhile
from penstock.ops.unique import Unique
from penstock.ops.with_options import with_options
from penstock.options import Options


class Elementwise(DatasetBase):
    """Methods that return a new dataset of the elements, changed or chosen one by one."""

    __slots__ = ()

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        executor: str = "thread",
    ) -> Self:
        """Return the dataset of what a function makes of each element.

        Args:
            map_func: the function. A plain tuple is unpacked into its arguments; named tuples and
                dicts are one argument. It returns a nest of array-likes and text, of any shapes and
                dtypes; a list that it returns becomes a tuple. A keyword-only parameter ``rng``
                gets a `numpy.random.Generator` that depends on the seed and the element's number
                alone.
            num_parallel_calls: how many threads call it at once; None is the reader's thread,
                `AUTOTUNE` as many as help.
            deterministic: False lets elements overtake each other; their order is then not
                repeatable. None is what options say (see `with_options`), else True.
            executor: ``"process"`` calls it in so many processes instead (None is one, `AUTOTUNE`
                one for each core), so that functions written in Python run at the same time. A
                process is one of its own for each thread, has what the function held when an
                iterator began, and is kept for the next iterator. Arrays are copied to and fro.

        Raises:
            DatasetError: when an argument is malformed.
            TransformError: in the place of an element for which *map_func* raises, returns what is
                no element, or takes its process along.

        >>> list(Dataset.range(4).map(lambda x: x * x, num_parallel_calls=2).batch(4))
        [array([0, 1, 4, 9])]
        """
        by_options = options_of(self.node).deterministic
        return type(self)(
            Map(self.node, map_func, num_parallel_calls, deterministic, executor, by_options)
        )

    def map_batches(
        self,
        fn: Callable[..., Any],
        num_parallel_calls: int | None = None,
        executor: str | None = None,
    ) -> Self:
        """Return the same as `map`, by a function that is called on many elements at once.

        The function gets a block of consecutive elements, stacked as `batch` stacks them: an
        element's shape with one axis more in front, a row for each element. It returns arrays with
        as many rows, and row k of them is what it makes of element k. Elements stay elements: a
        `batch` that follows has its own size.

        How many elements a block has is not promised: one at first and more while that is fast,
        about as many as are made in 2 ms (at most 65,536; 1,024 with *num_parallel_calls*; what
        takes 25 ms, at most 256, in processes). A restored iterator cuts other blocks. So a row may
        not depend on the others: no mean of the block, no number in it. Elements that differ in
        structure, dtype or shape are never in one block; text is stacked to object arrays.

        Args:
            fn: the function. A plain tuple of arrays is unpacked into its arguments; it may write
                to what it gets. When it raises it is called again, for each element of the block by
                itself, and only those for which it raises then are errors.
            num_parallel_calls: how many threads call it at once; None is the reader's thread,
                `AUTOTUNE` as many as help. The order is that of the elements.
            executor: as of `map`; None is ``"thread"``.

        Raises:
            DatasetError: when an argument is malformed.
            TransformError: in the place of an element for which *fn* raises; and when *fn* returns
                another number of rows than it got, naming both.

        >>> list(Dataset.range(5).map_batches(lambda x: x * x).batch(5))
        [array([ 0,  1,  4,  9, 16])]
        """
        return type(self)(MapBatches(self.node, fn, num_parallel_calls, executor))

    def with_options(self, options: Options) -> Self:
        """Return the same elements, made as options say: all of the pipeline, also what follows.

        Later options override earlier ones, one by one; what an operator is told itself overrides
        both. Datasets that functions make are not meant by `Options.deterministic`.

        Args:
            options: what to change; fields that are None stay as they are.

        Raises:
            DatasetError: when *options* are no `Options`.

        >>> quick = Options(deterministic=False, threads=2)
        >>> mapped = Dataset.range(4).map(lambda x: x + 1, num_parallel_calls=8).with_options(quick)
        >>> sorted(int(x) for x in mapped)
        [1, 2, 3, 4]
        """
        return type(self)(with_options(self.node, options))

    def filter(self, predicate: Callable[..., Any]) -> Self:
        """Return the dataset of the elements for which a function returns true.

        Args:
            predicate: the function, called as by `map`; it returns one bool, of Python or NumPy.

        Raises:
            DatasetError: when *predicate* is not callable.
            TransformError: in the place of an element for which *predicate* raises, or returns
                anything else.

        >>> list(Dataset.range(6).filter(lambda x: x % 2 == 1).batch(3))
        [array([1, 3, 5])]
        """
        return type(self)(Filter(self.node, predicate))

    def ignore_errors(
        self, max_errors: int | None = None, log: str | os.PathLike[str] | None = None
    ) -> Self:
        """Return the dataset without the elements that stages before this one fail to make.

        Args:
            max_errors: how many to leave out; the error behind these is raised, and so is each that
                follows. None is any number. A new pass begins to count anew, and so does each
                worker's task.
            log: a folder, local or remote, that gets a record of each: a JSON object in a line of
                a file, which each process has for itself, with the stage (and its file), the
                element's number, error and traceback. Elements that are replayed, after a
                process died or a state was restored, may have several, with the same id.

        Raises:
            DatasetError: when an argument is malformed.
            TransformError: in the place of each element that fails behind *max_errors* others;
                from the element's own error.
            PenstockError: what is no error of one element, as a `MissingFile`: it is not ignored.

        >>> inverse = Dataset.range(-1, 3).map(lambda x: 6 // int(x))
        >>> list(inverse.ignore_errors().batch(3))
        [array([-6,  6,  3])]
        """
        folder: Any = log
        return type(self)(IgnoreErrors(self.node, max_errors, folder))

    def scan(self, initial_state: Any, scan_func: Callable[..., Any]) -> Self:
        """Return the dataset of what a function makes of each element and of a state that it keeps.

        Args:
            initial_state: a nest of array-likes. The state keeps its structure and is saved with
                the iterator's.
            scan_func: called as ``scan_func(state, element)``, without unpacking tuples; it returns
                the next state and an output.

        Raises:
            DatasetError: when *scan_func* is not callable.
            ElementError: when *initial_state* is no nest of arrays and text.
            TransformError: in the place of an element for which *scan_func* raises, returns no
                pair, or a state of another structure.

        >>> total = Dataset.range(1, 5).scan(0, lambda total, x: (total + x, total + x))
        >>> list(total.batch(4))
        [array([ 1,  3,  6, 10])]
        """
        return type(self)(Scan(self.node, initial_state, scan_func))

    def unique(self) -> Self:
        """Return the dataset without the elements that came before.

        A saved state holds 16 bytes for each different element: it grows, unlike others.

        >>> list(Dataset.from_tensor_slices([1, 2, 1, 3]).unique().batch(3))
        [array([1, 2, 3])]
        """
        return type(self)(Unique(self.node))

    def take(self, count: int) -> Self:
        """Return the dataset of the first elements.

        Args:
            count: how many; -1 is all.

        Raises:
            DatasetError: when *count* is no integer of at least -1.

        >>> list(Dataset.range(10).take(3).batch(10))
        [array([0, 1, 2])]
        """
        return type(self)(Take(self.node, count))

    def take_while(self, predicate: Callable[..., Any]) -> Self:
        """Return the dataset of the elements before the first for which a function returns false.

        Nothing behind that one is read.

        Args:
            predicate: the function, called as by `map`; it returns one bool, of Python or NumPy.

        Raises:
            DatasetError: when *predicate* is not callable.
            TransformError: in the place of an element for which *predicate* raises, or returns
                anything else.

        >>> list(Dataset.counter(1).take_while(lambda x: x < 4).batch(10))
        [array([1, 2, 3])]
        """
        return type(self)(TakeWhile(self.node, predicate))

    def skip(self, count: int) -> Self:
        """Return the dataset without the first elements.

        Args:
            count: how many; -1 is all.

        Raises:
            DatasetError: when *count* is no integer of at least -1.

        >>> list(Dataset.range(5).skip(3).batch(10))
        [array([3, 4])]
        """
        return type(self)(Skip(self.node, count))

    def assert_cardinality(self, expected_cardinality: int) -> Self:
        """Return the same elements, with a cardinality that is known and checked.

        A worker that reads a part of the elements notices only if that alone is too many.

        Args:
            expected_cardinality: how many elements there are: a number, `INFINITE`, or `UNKNOWN` to
                say nothing.

        Raises:
            DatasetError: when *expected_cardinality* is none of these.
            ElementError: in place of the first element that is one too many; or of the end, if
                there are too few.

        >>> odd = Dataset.range(6).filter(lambda x: x % 2 == 1)
        >>> len(odd.assert_cardinality(3))
        3
        """
        return type(self)(AssertCardinality(self.node, expected_cardinality))

    def shard(self, num_shards: int, index: int) -> Self:
        """Return the dataset of every *num_shards*-th element.

        Args:
            num_shards: how many shards there are, at least 1; or `penstock.service.SHARD_HINT`,
                under `ShardingPolicy.HINT`: as many as workers, of which each keeps its own.
            index: which to keep: the elements whose number leaves *index* when divided by
                *num_shards*, from 0 to below that. With a hint it does not count.

        Raises:
            DatasetError: when the two are no such integers.

        >>> list(Dataset.range(7).shard(num_shards=3, index=1).batch(3))
        [array([1, 4])]
        """
        return type(self)(Shard(self.node, num_shards, index))

    def enumerate(self, start: int = 0) -> Self:
        """Return the dataset of pairs ``(number, element)``, with an int64 scalar as the number.

        Args:
            start: the number of the first element.

        Raises:
            DatasetError: when *start*, or a number behind it, is no integer that fits int64.

        >>> words = Dataset.from_tensor_slices(["a", "b"])
        >>> [(int(number), word) for number, word in words.enumerate(start=1)]
        [(1, 'a'), (2, 'b')]
        """
        return type(self)(Enumerate(self.node, start))

    def concatenate(self, dataset: DatasetBase) -> Self:
        """Return the dataset of these elements, and behind them those of another one.

        Args:
            dataset: what follows. Its elements may have another structure.

        Raises:
            DatasetError: when *dataset* is no `Dataset`.

        >>> list(Dataset.range(2).concatenate(Dataset.range(7, 9)).batch(4))
        [array([0, 1, 7, 8])]
        """
        if not isinstance(dataset, DatasetBase):
            raise DatasetError(f"concatenate: dataset must be a Dataset, not {dataset!r}")
        return type(self)(Concatenate(self.node, dataset.node))

    def repeat(self, count: int | None = None) -> Self:
        """Return the dataset of several passes over this one, one behind the other.

        Shuffles have another order in each pass.

        Args:
            count: how many passes; None and -1 are passes without end, which an empty one ends.

        Raises:
            DatasetError: when *count* is no integer of at least -1.

        >>> list(Dataset.range(3).repeat(2).batch(6))
        [array([0, 1, 2, 0, 1, 2])]
        """
        return type(self)(Repeat(self.node, count))

    def cache(self, filename: str | os.PathLike[str] = "") -> Self:
        """Return the same elements, kept from the first pass for later passes and later iterators.

        Only a pass that is read to its end fills the cache. Cached arrays are read-only. An element
        that could not be made in that pass is not there later either.

        Args:
            filename: a file to keep them in, for later processes, too; by default they are kept
                in memory. Any file system that fsspec writes will do. It is written beside this
                name, and renamed when it is whole: several may do that at once (one that is killed
                may leave a ``.part`` behind). Where it is there it is read instead of the pipeline
                before it, and it must be of the same pipeline. Put it behind `distribute`: before
                it each task has a file of its own, for as long as it runs, and a warning says so.

        Raises:
            DatasetError: when *filename* is no path of a file; where it is read, when it was made
                by another pipeline or is damaged; where it is written, when it cannot be.

        >>> squares = Dataset.range(4).map(lambda x: x * x).cache("squares.cache")
        >>> for _ in range(2):  # the second pass calls no function
        ...     print(list(squares.batch(4)))
        [array([0, 1, 4, 9])]
        [array([0, 1, 4, 9])]
        """
        name: Any = os.fspath(filename) if isinstance(filename, os.PathLike) else filename
        return type(self)(Cache(self.node, name))

"""Operators that look at one element at a time, and whole passes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Self

from penstock.errors import DatasetError
from penstock.graph.traversal import DatasetBase, options_of
from penstock.ops.assert_cardinality import AssertCardinality
from penstock.ops.cache import Cache
from penstock.ops.concatenate import Concatenate
from penstock.ops.enumerate import Enumerate
from penstock.ops.filter import Filter, TakeWhile
from penstock.ops.ignore_errors import IgnoreErrors
from penstock.ops.map import Map, MapBatches
from penstock.ops.repeat import Repeat
from penstock.ops.scan import Scan
from penstock.ops.shard import Shard
from penstock.ops.take import Skip, Take
from penstock.ops.unique import Unique
from penstock.ops.webdataset import decoded, decoders_of, refuse_batches
from penstock.ops.with_options import with_options
from penstock.options import Options
from penstock.reference import resolved


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
        """Apply a function to each element.

        Args:
            map_func: the function. A plain tuple is unpacked into its arguments; named tuples and
                dicts are one argument. It returns a nest of array-likes and text, of any shapes and
                dtypes; a list that it returns becomes a tuple. A keyword-only parameter ``rng``
                gets a `numpy.random.Generator` that depends on the seed and the element's number
                alone.
            num_parallel_calls: how many threads call it at once; None is the reader's thread,
                `AUTOTUNE` as many as help.
            deterministic: False lets elements overtake each other; their order is then not
                repeatable. None takes the value of `with_options`, else True.
            executor: ``"process"`` calls it in *num_parallel_calls* processes instead (None is one,
                `AUTOTUNE` one for each core), so that functions written in Python run at the same
                time. The processes have the objects that the function held when the iterator began,
                and stay for the next iterator. Arrays are copied to and from them.

        Raises:
            DatasetError: when an argument is malformed.
            TransformError: in the place of an element for which *map_func* raises, returns
                something that is no element, or ends its process.

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
        """Apply a function to many elements at once, with the same result as `map`.

        The function gets a block of consecutive elements, stacked as `batch` stacks them: an
        element's shape with a new first axis, one row for each element. It returns arrays with
        the same number of rows, and row k is the result for element k. Elements stay elements: a
        `batch` that follows has its own size.

        The size of a block is not promised. It starts at one and grows to about 2 ms of work (at
        most 65,536 elements; 1,024 with *num_parallel_calls*; in processes 25 ms, at most 256). A
        restored iterator cuts other blocks. So a row must not depend on the others: no mean of the
        block, no number in it. Elements that differ in structure, dtype or shape are never in one
        block; text is stacked to object arrays.

        Args:
            fn: the function. A plain tuple of arrays is unpacked into its arguments. It may write
                to its arguments. If it raises, it is called again for each element of the block,
                and only elements for which it raises then are errors.
            num_parallel_calls: how many threads call it at once; None is the reader's thread,
                `AUTOTUNE` as many as help. The order is that of the elements.
            executor: as for `map`; None is ``"thread"``.

        Raises:
            DatasetError: when an argument is malformed.
            TransformError: in the place of an element for which *fn* raises; and when *fn* returns
                another number of rows than it got, naming both.

        >>> list(Dataset.range(5).map_batches(lambda x: x * x).batch(5))
        [array([ 0,  1,  4,  9, 16])]
        """
        return type(self)(MapBatches(self.node, fn, num_parallel_calls, executor))

    def resolve(
        self,
        decode: str | Mapping[str, str | Callable[[bytes], Any]] | None = None,
        num_parallel_calls: int | None = None,
    ) -> Self:
        """Read the bytes that each `Reference` in an element stands for, and put them in its place.

        Args:
            decode: how to decode the fields of elements that are dicts, as for `webdataset`; not
                for batches.
            num_parallel_calls: how many threads read and decode, as for `map`.

        Raises:
            DatasetError: when an argument is malformed, or *decode* is given for batches.
            TransformError: in the place of an element whose bytes cannot be read: the file is
                missing, is no longer the version that was listed, or is too short.

        >>> from pathlib import Path
        >>> _ = Path("words.bin").write_bytes(b"onetwothree")
        >>> words = Dataset.range(2).map(lambda n: {"txt": Reference("words.bin", 3 * n, 3)})
        >>> [word["txt"] for word in words.resolve(decode={"txt": "txt"})]
        ['one', 'two']
        """
        decoders = decoders_of(decode)
        dataset = self.map(resolved, num_parallel_calls)
        if decoders is None:
            return dataset
        refuse_batches(self.node)
        return type(self)(decoded(dataset.node, decoders, num_parallel_calls))

    def with_options(self, options: Options) -> Self:
        """Set options for the whole pipeline, also for the operators that follow.

        Later options override earlier ones, one by one. An argument of an operator overrides both.
        `Options.deterministic` does not apply to datasets that functions make.

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
        """Keep the elements for which a function returns true.

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
        """Leave out the elements that earlier operators fail to make.

        Args:
            max_errors: how many to leave out; all later errors are raised. None is any number. The
                count starts at 0 in each pass and in each worker's task.
            log: a folder, local or remote, for a record of each such element. Each process writes a
                file of its own, with a JSON object in each line: the operator (and its file), the
                element's number, error and traceback. Elements that are made again, after a
                process died or a state was restored, may have several records, with the same id.

        Raises:
            DatasetError: when an argument is malformed.
            TransformError: in the place of each element that fails after *max_errors* others;
                from the element's own error.
            PenstockError: an error that does not concern one element, such as `MissingFile`.

        >>> inverse = Dataset.range(-1, 3).map(lambda x: 6 // int(x))
        >>> list(inverse.ignore_errors().batch(3))
        [array([-6,  6,  3])]
        """
        folder: Any = log
        return type(self)(IgnoreErrors(self.node, max_errors, folder))

    def scan(self, initial_state: Any, scan_func: Callable[..., Any]) -> Self:
        """Apply a function to each element and to a state that it carries along.

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
        """Leave out elements that are equal to an earlier one.

        A saved state holds 16 bytes for each different element, so it grows during the pass.

        >>> list(Dataset.from_tensor_slices([1, 2, 1, 3]).unique().batch(3))
        [array([1, 2, 3])]
        """
        return type(self)(Unique(self.node))

    def take(self, count: int) -> Self:
        """Keep only the first elements.

        Args:
            count: how many; -1 is all.

        Raises:
            DatasetError: when *count* is no integer of at least -1.

        >>> list(Dataset.range(10).take(3).batch(10))
        [array([0, 1, 2])]
        """
        return type(self)(Take(self.node, count))

    def take_while(self, predicate: Callable[..., Any]) -> Self:
        """Keep the elements before the first one for which a function returns false.

        No later element is read.

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
        """Keep every *num_shards*-th element.

        Args:
            num_shards: the number of shards, at least 1; or `penstock.service.SHARD_HINT`, under
                `ShardingPolicy.HINT`: one shard for each worker.
            index: the shard to keep, from 0 to below *num_shards*: the elements whose number leaves
                *index* when divided by *num_shards*. With a hint it is ignored.

        Raises:
            DatasetError: when the two are no such integers.

        >>> list(Dataset.range(7).shard(num_shards=3, index=1).batch(3))
        [array([1, 4])]
        """
        return type(self)(Shard(self.node, num_shards, index))

    def enumerate(self, start: int = 0) -> Self:
        """Number the elements: pairs ``(number, element)``, with an int64 scalar as the number.

        Args:
            start: the number of the first element.

        Raises:
            DatasetError: when *start*, or a later number, is no integer that fits int64.

        >>> words = Dataset.from_tensor_slices(["a", "b"])
        >>> [(int(number), word) for number, word in words.enumerate(start=1)]
        [(1, 'a'), (2, 'b')]
        """
        return type(self)(Enumerate(self.node, start))

    def concatenate(self, dataset: DatasetBase) -> Self:
        """Append the elements of another dataset.

        Args:
            dataset: the other dataset. Its elements may have another structure.

        Raises:
            DatasetError: when *dataset* is no `Dataset`.

        >>> list(Dataset.range(2).concatenate(Dataset.range(7, 9)).batch(4))
        [array([0, 1, 7, 8])]
        """
        if not isinstance(dataset, DatasetBase):
            raise DatasetError(f"concatenate: dataset must be a Dataset, not {dataset!r}")
        return type(self)(Concatenate(self.node, dataset.node))

    def repeat(self, count: int | None = None) -> Self:
        """Repeat this dataset several times.

        Shuffles have another order in each pass.

        Args:
            count: how many passes; None and -1 repeat forever, until a pass is empty.

        Raises:
            DatasetError: when *count* is no integer of at least -1.

        >>> list(Dataset.range(3).repeat(2).batch(6))
        [array([0, 1, 2, 0, 1, 2])]
        """
        return type(self)(Repeat(self.node, count))

    def cache(self, filename: str | os.PathLike[str] = "") -> Self:
        """Keep the elements of the first pass, for later passes and later iterators.

        Only a pass that is read to its end fills the cache. Cached arrays are read-only. An element
        that failed in that pass is missing in later passes too.

        Args:
            filename: a file for the elements, also for later processes; by default they stay in
                memory. It may be on any file system that fsspec can write. A process writes
                another file first and renames it when it is complete, so several processes may
                write at once (a killed one may leave a ``.part`` file). If the file exists, it
                replaces the pipeline before `cache`, and must come from the same pipeline. Before
                `distribute`, it is the folder of a `snapshot`, which workers share.

        Raises:
            DatasetError: when *filename* is no path of a file; during reading, when the file comes
                from another pipeline, is damaged or cannot be written. Before `distribute`, as
                `snapshot`.

        >>> squares = Dataset.range(4).map(lambda x: x * x).cache("squares.cache")
        >>> for _ in range(2):  # the second pass calls no function
        ...     print(list(squares.batch(4)))
        [array([0, 1, 4, 9])]
        [array([0, 1, 4, 9])]
        """
        name: Any = os.fspath(filename) if isinstance(filename, os.PathLike) else filename
        return type(self)(Cache(self.node, name))

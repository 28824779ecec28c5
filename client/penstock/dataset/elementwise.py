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
        """Apply *map_func* to each element.

        A plain tuple is unpacked into arguments. A keyword-only parameter ``rng`` gets a
        `numpy.random.Generator` that depends on the seed and the element's number alone.

        Args:
            map_func: the function; a list that it returns becomes a tuple.
            num_parallel_calls: how many threads call it at once; None is the reader's thread,
                `AUTOTUNE` as many as help.
            deterministic: False lets elements overtake each other; their order is then not
                repeatable. None is what options say (see `with_options`), else True.
            executor: ``"process"`` calls it in so many processes instead (None is one, `AUTOTUNE`
                one for each core), so that functions written in Python run at the same time. A
                process is one of its own for each thread, has what the function held when an
                iterator began, and is kept for the next iterator. Arrays are copied to and fro.
        """
        by_options = options_of(self.node).deterministic
        return type(self)(
            Map(self.node, map_func, num_parallel_calls, deterministic, executor, by_options)
        )

    def with_options(self, options: Options) -> Self:
        """Return the same elements, made as *options* say: all of the pipeline, also what follows.

        Later options override earlier ones, one by one; what an operator is told itself overrides
        both. Datasets that functions make are not meant by *deterministic*.
        """
        return type(self)(with_options(self.node, options))

    def filter(self, predicate: Callable[..., Any]) -> Self:
        """Keep the elements for which *predicate*, called as by `map`, returns true."""
        return type(self)(Filter(self.node, predicate))

    def ignore_errors(
        self, max_errors: int | None = None, log: str | os.PathLike[str] | None = None
    ) -> Self:
        """Leave out the elements that cannot be made, because a stage before this one fails there.

        Args:
            max_errors: how many; the error behind these is raised, and so is each that follows. A
                new pass begins to count anew, and so does each worker's task.
            log: a folder, local or remote, that gets a record of each: a JSON object in a line of
                a file, which each process has for itself, with the stage (and its file), the
                element's number, error and traceback. Elements that are made again, after a
                process died or a state was restored, may have several, with the same id.
        """
        folder: Any = log
        return type(self)(IgnoreErrors(self.node, max_errors, folder))

    def scan(self, initial_state: Any, scan_func: Callable[..., Any]) -> Self:
        """Call ``scan_func(state, element)``, which returns the next state and an output.

        The state is a nest of array-likes; it keeps its structure. Tuples are not unpacked.

        >>> total = Dataset.range(1, 5).scan(0, lambda total, x: (total + x, total + x))
        >>> list(total.batch(4))
        [array([ 1,  3,  6, 10])]
        """
        return type(self)(Scan(self.node, initial_state, scan_func))

    def unique(self) -> Self:
        """Drop the elements that came before.

        A saved state holds 16 bytes for each different element: it grows, unlike others.
        """
        return type(self)(Unique(self.node))

    def take(self, count: int) -> Self:
        """Keep the first *count* elements; -1 keeps all."""
        return type(self)(Take(self.node, count))

    def take_while(self, predicate: Callable[..., Any]) -> Self:
        """Keep the elements before the first for which *predicate*, called as by `map`, is false.

        Nothing behind that one is read.
        """
        return type(self)(TakeWhile(self.node, predicate))

    def skip(self, count: int) -> Self:
        """Drop the first *count* elements; -1 drops all."""
        return type(self)(Skip(self.node, count))

    def assert_cardinality(self, expected_cardinality: int) -> Self:
        """Say how many elements there are: a number, `INFINITE`, or `UNKNOWN` to say nothing.

        If there are more, reading raises a `DatasetError` in place of the first that is one too
        many; if there are fewer, in place of the end. A worker that reads a part of the elements
        notices only if that alone is too many.
        """
        return type(self)(AssertCardinality(self.node, expected_cardinality))

    def shard(self, num_shards: int, index: int) -> Self:
        """Keep the elements whose number leaves *index* when divided by *num_shards*."""
        return type(self)(Shard(self.node, num_shards, index))

    def enumerate(self, start: int = 0) -> Self:
        """Pair each element with its number: ``(number, element)``."""
        return type(self)(Enumerate(self.node, start))

    def concatenate(self, dataset: DatasetBase) -> Self:
        """Let the elements of *dataset* follow."""
        if not isinstance(dataset, DatasetBase):
            raise DatasetError(f"concatenate: dataset must be a Dataset, not {dataset!r}")
        return type(self)(Concatenate(self.node, dataset.node))

    def repeat(self, count: int | None = None) -> Self:
        """Go over the dataset *count* times; without end if it is None or -1.

        Shuffles have another order in each pass. An endless `repeat` ends with an empty pass.
        """
        return type(self)(Repeat(self.node, count))

    def cache(self, filename: str | os.PathLike[str] = "") -> Self:
        """Keep the elements of the first pass for later ones and later iterators.

        Only a pass that is read to its end fills the cache. Cached arrays are read-only. An element
        that could not be made in that pass is not there later either.

        Args:
            filename: a file to keep them in, for later processes, too; by default they are kept
                in memory. Any file system that fsspec writes will do. It is written beside this
                name, and renamed when it is whole: several may do that at once (one that is killed
                may leave a ``.part`` behind). Where it is there it is read instead of the pipeline
                before it, and it must be of the same pipeline. On workers each task has a file of
                its own, for as long as it runs.
        """
        name: Any = os.fspath(filename) if isinstance(filename, os.PathLike) else filename
        return type(self)(Cache(self.node, name))

"""Operators that put elements together, apart, or in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from penstock.graph.traversal import DatasetBase, options_of
from penstock.ops.batch import Batch
from penstock.ops.bucket_by_sequence_length import BucketBySequenceLength
from penstock.ops.flat_map import FlatMap
from penstock.ops.global_shuffle import globally_shuffled
from penstock.ops.group_by_window import GroupByWindow
from penstock.ops.interleave import CYCLE, Interleave
from penstock.ops.padded_batch import PaddedBatch
from penstock.ops.prefetch import Prefetch
from penstock.ops.ragged_batch import RaggedBatch
from penstock.ops.rebatch import Rebatch
from penstock.ops.shuffle import Shuffle
from penstock.ops.unbatch import Unbatch
from penstock.ops.window import Window
from penstock.options import AUTOTUNE


class Regrouping(DatasetBase):
    """Methods that return a new dataset of the elements in other groups or another order."""

    __slots__ = ()

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Self:
        """Stack consecutive elements to batches, along a new first axis.

        Elements of one batch must have one structure and shape; arrays keep their dtype, text
        becomes an object array of `str` or `bytes`.

        Args:
            batch_size: how many elements make a batch, at least 1.
            drop_remainder: leave out the last batch if it is short.

        Raises:
            DatasetError: when *batch_size* is malformed.
            ElementError: in the place of a batch whose elements differ.

        >>> list(Dataset.range(5).batch(2))
        [array([0, 1]), array([2, 3]), array([4])]
        """
        return type(self)(Batch(self.node, batch_size, drop_remainder))

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
    ) -> Self:
        """Pad consecutive elements to one shape, and stack them to batches.

        Args:
            batch_size: how many elements make a batch, at least 1.
            padded_shapes: a nest like the elements, with a tuple of lengths for each array; a
                length of None (or -1) is that of the longest in the batch. None is that for all
                axes.
            padding_values: a nest like the elements, or one value for all; None is zero, or empty
                text.
            drop_remainder: leave out the last batch if it is short.

        Raises:
            DatasetError: when an argument is malformed.
            ElementError: in the place of a batch whose elements differ in structure, dtype or
                number of axes, or do not fit *padded_shapes* or *padding_values*.

        >>> list(Dataset.range(3).window(2, 1).flat_map(lambda w: w.batch(2)).padded_batch(3))
        [array([[0, 1],
               [1, 2],
               [2, 0]])]
        """
        return type(self)(
            PaddedBatch(self.node, batch_size, padded_shapes, padding_values, drop_remainder)
        )

    def ragged_batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        fields: Sequence[str] | None = None,
    ) -> Self:
        """Put consecutive elements to batches whose arrays may differ in length, without padding.

        Each array becomes a row of a `penstock.Ragged`. Numbers and text are stacked as by `batch`.

        Args:
            batch_size: how many elements make a batch, at least 1.
            drop_remainder: leave out the last batch if it is short.
            fields: the keys of the arrays that differ in length; the others are stacked. None is
                all arrays.

        Raises:
            DatasetError: when an argument is malformed.
            ElementError: in the place of a batch whose elements differ in structure, in dtype or in
                an axis but the first, or have no such field.

        >>> next(iter(Dataset.range(1, 4).map(lambda n: [n] * n).ragged_batch(3)))
        Ragged(values=array([1, 2, 2, 3, 3, 3]), offsets=array([0, 1, 3, 6]))
        """
        return type(self)(RaggedBatch(self.node, batch_size, drop_remainder, fields))

    def unbatch(self) -> Self:
        """Split each element into its rows, one for each index of its first axis.

        Raises:
            ElementError: in the place of an element with a part that has no first axis, or another
                length.

        >>> list(Dataset.from_tensors([[1, 2], [3, 4]]).unbatch())
        [array([1, 2]), array([3, 4])]
        """
        return type(self)(Unbatch(self.node))

    def rebatch(self, batch_size: int, drop_remainder: bool = False) -> Self:
        """Change the size of batches, like `unbatch` and `batch` but faster.

        Args:
            batch_size: how many rows make a batch, at least 1.
            drop_remainder: leave out the last batch if it is short.

        Raises:
            DatasetError: when *batch_size* is malformed.
            ElementError: in the place of an element with a part that has no first axis, or another
                length.

        >>> list(Dataset.range(7).batch(3).rebatch(2))
        [array([0, 1]), array([2, 3]), array([4, 5]), array([6])]
        """
        return type(self)(Rebatch(self.node, batch_size, drop_remainder))

    def window(
        self,
        size: int,
        shift: int | None = None,
        stride: int = 1,
        drop_remainder: bool = False,
    ) -> Self:
        """Group consecutive elements into windows, which are datasets and may overlap.

        Each array or text of an element becomes a dataset: tuples become tuples of datasets, and
        dicts become dicts of datasets, which have the methods of a dataset too. Use `flat_map` to
        make elements of windows.

        Args:
            size: how many elements a window has.
            shift: the distance between the starts of two windows, in elements; None is *size*.
            stride: the distance between two elements of a window.
            drop_remainder: leave out windows that are short, at the end.

        Raises:
            DatasetError: when an argument is no integer of at least 1.
            ElementError: when an iterator would return a window itself.

        >>> list(Dataset.range(4).window(3, shift=1).flat_map(lambda w: w.batch(3)))
        [array([0, 1, 2]), array([1, 2, 3]), array([2, 3]), array([3])]
        >>> rows = Dataset.range(4).map(lambda x: {"x": x, "y": -x})
        >>> next(iter(rows.window(2).flat_map(lambda w: w.batch(2))))
        {'x': array([0, 1]), 'y': array([ 0, -1])}
        """
        shift = size if shift is None else shift
        return type(self)(Window(self.node, size, shift, stride, drop_remainder))

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[..., Any],
        window_size: int | None = None,
        window_size_func: Callable[..., Any] | None = None,
    ) -> Self:
        """Group elements by key, and let a function make a dataset of each group.

        *reduce_func* gets a group as a dataset when the group is full. At the end it gets the
        remaining groups, in the order of their keys.

        Args:
            key_func: a function that returns the key of an element, an integer; called as by `map`.
            reduce_func: a function of ``(key, window)`` that returns a dataset.
            window_size: how many elements make a group full.
            window_size_func: a function that returns this number for a key; give one of the two.

        Raises:
            DatasetError: when an argument is malformed.
            TransformError: in the place of an element for which a function raises, or returns
                something else.

        >>> by_parity = Dataset.range(10).group_by_window(
        ...     lambda x: x % 2, lambda key, window: window.batch(3), window_size=3
        ... )
        >>> list(by_parity)
        [array([0, 2, 4]), array([1, 3, 5]), array([6, 8]), array([7, 9])]
        """
        return type(self)(
            GroupByWindow(self.node, key_func, reduce_func, window_size, window_size_func)
        )

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
    ) -> Self:
        """Make batches of elements of similar length, padded to one length.

        Args:
            element_length_func: a function that returns an element's length; called as by `map`.
            bucket_boundaries: the lengths at which the next bucket begins, in rising order.
            bucket_batch_sizes: for each bucket how many elements make a batch; one more than the
                boundaries.
            padded_shapes: as for `padded_batch`.
            padding_values: as for `padded_batch`.
            pad_to_bucket_boundary: pad axes without a given length to one less than the upper
                boundary of the bucket. Elements too long for the last boundary are errors.
            no_padding: stack like `batch`, instead of padding like `padded_batch`.
            drop_remainder: leave out batches that are not full at the end.

        Raises:
            DatasetError: when an argument is malformed.
            ElementError: in the place of a batch, as for `padded_batch`.
            TransformError: in the place of an element for which *element_length_func* raises, or
                returns no integer.

        >>> words = Dataset.range(1, 5).map(lambda n: np.arange(n))
        >>> list(words.bucket_by_sequence_length(len, [3], [2, 2]))
        [array([[0, 0],
               [0, 1]]), array([[0, 1, 2, 0],
               [0, 1, 2, 3]])]
        """
        boundaries: Any = bucket_boundaries
        sizes: Any = bucket_batch_sizes
        return type(self)(
            BucketBySequenceLength(
                self.node,
                boundaries,
                sizes,
                padded_shapes,
                padding_values,
                pad_to_bucket_boundary,
                no_padding,
                drop_remainder,
                element_length_func,
            )
        )

    def shuffle(
        self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool = True
    ) -> Self:
        """Shuffle the elements with a buffer: each is drawn at random from it.

        The order depends only on the seed: it is the same in every process, and after a state is
        restored.

        Args:
            buffer_size: how many elements the buffer holds; a dataset that fits into it is shuffled
                uniformly.
            seed: gives every new iterator the same order. None takes the job's seed, which is new
                for each iterator (a saved state keeps it).
            reshuffle_each_iteration: False gives all passes of a later `repeat` the same order;
                otherwise they differ, also with a *seed*.

        Raises:
            DatasetError: when *buffer_size* is no integer of at least 1, or *seed* no integer.

        >>> list(Dataset.range(8).shuffle(4, seed=7).batch(8))
        [array([1, 0, 3, 2, 4, 5, 7, 6])]
        """
        return type(self)(Shuffle(self.node, buffer_size, seed, reshuffle_each_iteration))

    def global_shuffle(
        self, seed: int | None = None, reshuffle_each_iteration: bool = True
    ) -> Self:
        """Shuffle all elements of a dataset with an index, without a buffer.

        The dataset must have an index: `range`, `from_tensor_slices`, `from_sequence`,
        `from_tensors`, or files that are not compressed (all kinds except CSV), with `take`,
        `skip`, `shard`, `enumerate`, `zip` and `concatenate` of these.
        Penstock shuffles the indices and fetches the elements by them. A `map` (and `prefetch`,
        `with_options`, `assert_cardinality`) before the shuffle runs after it: its ``rng`` depends
        on the position in the new order.

        The order depends only on the seed and the number of elements: it is the same in every
        process, and after a state is restored. Under dynamic sharding all workers share one order,
        and each gets parts of it.

        Files are listed and indexed here, in this process. An index is kept in the user's cache
        folder (``$XDG_CACHE_HOME/penstock/indexes``), so it is made once for each version of a
        file. The folder holds 1 GiB; indexes that were not read for the longest time leave. Readers
        hold about 64 MiB of elements that they read ahead, and up to 256 MiB of row groups.

        Args:
            seed: gives every new iterator the same order. None takes the job's seed, which is new
                for each iterator (a saved state keeps it).
            reshuffle_each_iteration: False gives all passes of a later `repeat` the same order;
                otherwise they differ, also with a *seed*.

        Raises:
            FileChanged: during reading, when a file is no longer the version that was indexed.
            MissingFile: when there is no such file.
            DatasetError: when an operator has no index, naming it and the remedy; when *seed* is no
                integer.

        >>> list(Dataset.range(8).global_shuffle(seed=7).batch(8))
        [array([0, 7, 4, 1, 5, 2, 3, 6])]
        >>> print(next(iter(Dataset.range(10**12).global_shuffle(seed=7))))
        741869094880
        """
        return type(self)(globally_shuffled(self.node, seed, reshuffle_each_iteration))

    def flat_map(self, map_func: Callable[..., Any]) -> Self:
        """Let a function make a dataset of each element, and return their elements in order.

        Args:
            map_func: a function that returns a `Dataset`; called as by `map`.

        Raises:
            DatasetError: when *map_func* is not callable.
            TransformError: in the place of an element for which *map_func* raises, or returns
                anything else.

        >>> list(Dataset.range(4).flat_map(lambda n: Dataset.range(n)).batch(6))
        [array([0, 0, 1, 0, 1, 2])]
        """
        return type(self)(FlatMap(self.node, map_func))

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: int | None = None,
        block_length: int = 1,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> Self:
        """Let a function make a dataset of each element, and read several of them in turns.

        Args:
            map_func: a function that returns a `Dataset`; called as by `map`.
            cycle_length: how many datasets are open at a time. None is *num_parallel_calls* if that
                is a number, else 10. It decides the order, so it never is the number of cores.
            block_length: how many elements to take from a dataset in its turn.
            num_parallel_calls: how many threads make datasets and read them ahead, in the same
                order; None is the reader's thread, `AUTOTUNE` as many as help.
            deterministic: False takes the elements that are ready, in no repeatable order. None
                takes the value of `with_options`, else True.

        Raises:
            DatasetError: when an argument is malformed.
            TransformError: in the place of an element for which *map_func* raises, or returns
                anything else.

        >>> nested = Dataset.range(3).interleave(lambda n: Dataset.range(10 * n, 10 * n + 2))
        >>> list(nested.batch(6))
        [array([ 0, 10, 20,  1, 11, 21])]
        """
        cycle = cycle_length
        if cycle is None:
            threads = num_parallel_calls
            cycle = CYCLE if threads is None or threads == AUTOTUNE else threads
        by_options = options_of(self.node).deterministic
        return type(self)(
            Interleave(
                self.node,
                map_func,
                cycle,
                block_length,
                num_parallel_calls,
                deterministic,
                by_options,
            )
        )

    def prefetch(self, buffer_size: int) -> Self:
        """Return the same elements, made ahead in a thread.

        Args:
            buffer_size: how many elements to hold, at least 1; `AUTOTUNE` is as many as help.

        Raises:
            DatasetError: when *buffer_size* is malformed.

        >>> list(Dataset.range(4).prefetch(AUTOTUNE).batch(4))
        [array([0, 1, 2, 3])]
        """
        return type(self)(Prefetch(self.node, buffer_size))

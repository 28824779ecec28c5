"""Operators that put elements together, apart, or in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from penstock.graph.dataset_base import DatasetBase
from penstock.graph.traversal import options_of
from penstock.ops.batch import Batch
from penstock.ops.bucket_by_sequence_length import BucketBySequenceLength
from penstock.ops.flat_map import FlatMap
from penstock.ops.global_shuffle import globally_shuffled
from penstock.ops.group_by_window import GroupByWindow
from penstock.ops.interleave import CYCLE, Interleave
from penstock.ops.padded_batch import PaddedBatch
from penstock.ops.prefetch import Prefetch
from penstock.ops.rebatch import Rebatch
from penstock.ops.shuffle import Shuffle
from penstock.ops.unbatch import Unbatch
from penstock.ops.window import Window
from penstock.options import AUTOTUNE


class Regrouping(DatasetBase):
    """Methods that return a new dataset of the elements in other groups or another order."""

    __slots__ = ()

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Self:
        """Return the dataset of batches: consecutive elements, stacked along a new first axis.

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
        """Return the dataset of batches of elements that are padded to one shape.

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

    def unbatch(self) -> Self:
        """Return the dataset of the rows of each element, one for each index of its first axis.

        Raises:
            ElementError: in the place of an element with a part that has no first axis, or another
                length.

        >>> list(Dataset.from_tensors([[1, 2], [3, 4]]).unbatch())
        [array([1, 2]), array([3, 4])]
        """
        return type(self)(Unbatch(self.node))

    def rebatch(self, batch_size: int, drop_remainder: bool = False) -> Self:
        """Return the dataset of batches of another size: `unbatch` and `batch`, without the rows.

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
        """Return the dataset of windows: datasets of consecutive elements, which may overlap.

        A window stands in the place of each array or text of an element: of tuples, it is a tuple
        of datasets, and of dicts a dict of datasets, which has the methods of a dataset too.
        `flat_map` makes elements of windows.

        Args:
            size: how many elements a window has.
            shift: how many elements the next one begins later; None is *size*.
            stride: how many elements lie between two of one window.
            drop_remainder: leave out windows that are short, at the end.

        Raises:
            DatasetError: when an argument is no integer of at least 1.
            ElementError: where an iterator is asked for a window itself.

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
        """Return the elements of the datasets that a function makes of groups of one key.

        A group that is full, and at the end what is left, in the order of keys, is given to
        *reduce_func* as a dataset.

        Args:
            key_func: what returns the key of an element, an integer; called as by `map`.
            reduce_func: what makes a dataset of ``(key, window)``.
            window_size: how many elements make a group full.
            window_size_func: what returns that for a key; give either of the two.

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
        """Return the dataset of batches of elements of about one length, padded alike.

        Args:
            element_length_func: what returns the length of an element; called as by `map`.
            bucket_boundaries: the lengths at which the next bucket begins, rising.
            bucket_batch_sizes: for each bucket how many elements make a batch; one more than the
                boundaries.
            padded_shapes: as for `padded_batch`.
            padding_values: as for `padded_batch`.
            pad_to_bucket_boundary: pad axes of no given length to one less than the upper boundary
                of the bucket. Elements too long for the last boundary are errors.
            no_padding: stack as `batch` does; else pad as `padded_batch` does.
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
        """Return the same elements in random order, each drawn from a buffer.

        The order is a function of the seed alone: it is the same in every process, and after a
        state is restored.

        Args:
            buffer_size: how many elements to draw from; a dataset that is not larger is shuffled
                uniformly.
            seed: makes every new iterator have the same order. None takes the job's seed, which
                each new iterator draws anew (a saved state keeps it).
            reshuffle_each_iteration: False gives the passes of a `repeat` behind it the same order;
                else they differ, also with a *seed*.

        Raises:
            DatasetError: when *buffer_size* is no integer of at least 1, or *seed* no integer.

        >>> list(Dataset.range(8).shuffle(4, seed=7).batch(8))
        [array([1, 0, 3, 2, 4, 5, 7, 6])]
        """
        return type(self)(Shuffle(self.node, buffer_size, seed, reshuffle_each_iteration))

    def global_shuffle(
        self, seed: int | None = None, reshuffle_each_iteration: bool = True
    ) -> Self:
        """Return the same elements in random order: all of them, however many, without a buffer.

        The dataset must have an index: `range`, `from_tensor_slices`, `from_sequence` and
        `from_tensors`, with `take`, `skip`, `shard`, `enumerate`, `zip` and `concatenate` of these.
        Numbers are put in random order, and elements are fetched by them. A `map` (and `prefetch`,
        `with_options`, `assert_cardinality`) in between runs behind the shuffle: its ``rng`` is
        that of the place in the order.

        The order is a function of the seed and the number of elements alone: it is the same in
        every process, and after a state is restored. Under dynamic sharding all workers share one
        order, of which each gets parts.

        Args:
            seed: makes every new iterator have the same order. None takes the job's seed, which
                each new iterator draws anew (a saved state keeps it).
            reshuffle_each_iteration: False gives the passes of a `repeat` behind it the same order;
                else they differ, also with a *seed*.

        Raises:
            DatasetError: when something in the dataset has no index, naming it and the way out;
                when *seed* is no integer.

        >>> list(Dataset.range(8).global_shuffle(seed=7).batch(8))
        [array([0, 7, 4, 1, 5, 2, 3, 6])]
        >>> print(next(iter(Dataset.range(10**12).global_shuffle(seed=7))))
        741869094880
        """
        return type(self)(globally_shuffled(self.node, seed, reshuffle_each_iteration))

    def flat_map(self, map_func: Callable[..., Any]) -> Self:
        """Return the elements of the datasets that a function makes of elements, in order.

        Args:
            map_func: what returns a `Dataset`; called as by `map`.

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
        """Return the elements of the datasets that a function makes, several of them in turns.

        Args:
            map_func: what returns a `Dataset`; called as by `map`.
            cycle_length: how many datasets are open at a time. None is *num_parallel_calls* if that
                is a number, else 10: never the number of cores, for it makes the order.
            block_length: how many elements each gives in its turn.
            num_parallel_calls: how many threads make datasets and read them ahead, in the same
                order; None is the reader's thread, `AUTOTUNE` as many as help.
            deterministic: False takes the elements that are ready, in no repeatable order. None is
                what options say (see `with_options`), else True.

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

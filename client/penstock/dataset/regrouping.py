"""Operators that put elements together, apart, or in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from penstock.graph.dataset_base import DatasetBase
from penstock.graph.traversal import options_of
from penstock.ops.batch import Batch
from penstock.ops.bucket_by_sequence_length import BucketBySequenceLength
from penstock.ops.flat_map import FlatMap
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
        """Stack *batch_size* consecutive elements; the last batch may be short.

        Text becomes an object array of `str` or `bytes`.

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
        """Pad *batch_size* consecutive elements to one shape, and stack them.

        *padded_shapes* is a nest like the elements, with a tuple of lengths for each array; a
        length of None (or -1) is that of the longest in the batch, as it is for all axes by
        default. *padding_values* is a nest like the elements, or one value for all; the default
        is zero, or empty text.

        >>> list(Dataset.range(3).window(2, 1).flat_map(lambda w: w.batch(2)).padded_batch(3))
        [array([[0, 1],
               [1, 2],
               [2, 0]])]
        """
        return type(self)(
            PaddedBatch(self.node, batch_size, padded_shapes, padding_values, drop_remainder)
        )

    def unbatch(self) -> Self:
        """Return the rows of each element: one element for each index of its first axis."""
        return type(self)(Unbatch(self.node))

    def rebatch(self, batch_size: int, drop_remainder: bool = False) -> Self:
        """Cut batches into batches of *batch_size* rows: `unbatch` and `batch`, without the rows.

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
        """Return runs of *size* elements, each run a dataset; or a nest of them, like an element.

        A run begins every *shift* elements (the default is *size*) and takes every *stride*-th.

        >>> list(Dataset.range(4).window(3, shift=1).flat_map(lambda w: w.batch(3)))
        [array([0, 1, 2]), array([1, 2, 3]), array([2, 3]), array([3])]
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
        """Group elements by key, and return those of the datasets made of the groups.

        A group that is full, and at the end what is left, in the order of keys, is given to
        *reduce_func* as a dataset.

        Args:
            key_func: what returns the key of an element, an integer; called as by `map`.
            reduce_func: what makes a dataset of ``(key, window)``.
            window_size: how many elements make a group full.
            window_size_func: what returns that for a key; give either of the two.

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
        """Batch elements with others of about their length, padded as by `padded_batch`.

        Args:
            element_length_func: what returns the length of an element; called as by `map`.
            bucket_boundaries: the lengths at which the next bucket begins.
            bucket_batch_sizes: for each bucket; one more than the boundaries.
            padded_shapes: as for `padded_batch`.
            padding_values: as for `padded_batch`.
            pad_to_bucket_boundary: pad axes of no given length to one less than the upper boundary
                of the bucket. Elements too long for the last boundary are errors.
            no_padding: batch as by `batch`.
            drop_remainder: leave out batches that are not full at the end.

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
        """Return the elements in random order: each is drawn from a buffer of *buffer_size*.

        The order is a function of the seed alone. Without a *seed* it comes from the job's, which
        each new iterator draws anew (a saved state keeps it). With one, every new iterator has the
        same order. The passes of a `repeat` behind it differ either way, unless
        *reshuffle_each_iteration* is False.
        """
        return type(self)(Shuffle(self.node, buffer_size, seed, reshuffle_each_iteration))

    def flat_map(self, map_func: Callable[..., Any]) -> Self:
        """Return the elements of the datasets that *map_func* makes of the elements.

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
        """Return the elements of the datasets that *map_func* makes, several of them in turns.

        *cycle_length* datasets are open; each gives *block_length* elements in its turn. The
        default is *num_parallel_calls* if that is a number, else 10: never the number of cores, for
        it makes the order. With *num_parallel_calls* so many threads (with `AUTOTUNE` as many as
        help) make datasets and read them ahead, in the same order, unless *deterministic* is False:
        then whoever is ready is next. None is what options say (see `with_options`), else True.

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
        """Make up to *buffer_size* elements ahead, in a thread; with `AUTOTUNE` as many as help."""
        return type(self)(Prefetch(self.node, buffer_size))

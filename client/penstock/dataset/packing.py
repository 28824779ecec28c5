"""Operators for sequences of tokens: joined to packs, and dealt evenly to consumers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from penstock.graph.traversal import DatasetBase
from penstock.ops.balance import BalancedRounds
from penstock.ops.pack import Pack
from penstock.ops.token_batches import TokenBatches


class Packing(DatasetBase):
    """Methods that return a new dataset of sequences, joined or in an order of equal cost."""

    __slots__ = ()

    def pack(
        self,
        capacity: int,
        field: str | None = "tokens",
        method: str = "best_fit",
        buffer: int = 1024,
        split_long: str = "cut",
        pad: int | None = None,
    ) -> Self:
        """Join documents to packs of at most *capacity* tokens, with little padding.

        Elements are dicts with an array of one axis under *field*. A pack is a dict with these
        arrays, where n is the number of its tokens and k that of its documents:

        * *field*: the tokens of the documents, one after another; (n,), in their own dtype.
        * ``segment_ids``: 1 for each token of the first document, 2 for the second; (n,), int32.
        * ``positions``: the index of each token in its document, from 0; (n,), int32.
        * ``cu_seqlens``: where documents begin, and at last n; (k + 1,), int32. Flash attention
          takes it as it is.

        With *pad*, n is *capacity*: after the documents, tokens are *pad*, and ``segment_ids`` and
        ``positions`` are 0. ``cu_seqlens`` has length capacity + 1 then, and repeats its last
        entry, the number of tokens without padding. So packs can be batched.

        Other fields of a document may have one entry for each token, such as a loss mask. They are
        packed like the tokens, and with *pad* they are padded with 0. A field that is a number, a
        text or a `Reference` belongs to the document: a pack has an array of k of them, or one
        `Reference` of such arrays, in the order of the documents. They are not padded.
        A document without tokens is left out. The order depends on the documents alone.

        Args:
            capacity: how many tokens a pack holds, at least 1.
            field: the name of the tokens; None if the elements are the tokens themselves, which are
                ``tokens`` in packs.
            method: ``"best_fit"`` puts each document into the fullest open pack in which it fits.
                ``"first_fit_decreasing"`` packs *buffer* documents at a time, the longest first.
                ``"concat"`` fills each pack, and cuts documents wherever a pack ends.
            buffer: how many documents may wait in packs that are not full. If there are more,
                the fullest pack is returned. ``"concat"`` needs none.
            split_long: what becomes of a document with more than *capacity* tokens. ``"cut"``
                makes pieces of *capacity* tokens, and packs the rest. ``"error"`` raises in its
                place. ``"drop"`` leaves it out, and counts it as a skipped element.
            pad: an integer to fill packs with; None leaves them as long as they are.

        Raises:
            DatasetError: when an argument is malformed.
            ElementError: in the place of a document without such a field, or with an array of
                another length; in the place of a pack whose documents differ in dtypes.

        >>> lengths = Dataset.from_sequence([5, 3, 4, 2, 1])
        >>> packs = lengths.map(lambda n: {"tokens": np.arange(n)}).pack(6)
        >>> for pack in packs:
        ...     print(pack["tokens"], pack["segment_ids"], pack["cu_seqlens"])
        [0 1 2 3 4 0] [1 1 1 1 1 2] [0 5 6]
        [0 1 2 3 0 1] [1 1 1 1 2 2] [0 4 6]
        [0 1 2] [1 1 1] [0 3]
        """
        return type(self)(Pack(self.node, capacity, field, method, buffer, split_long, pad))

    def token_batches(self, max_tokens: int, field: str | None = "tokens") -> Self:
        """Join consecutive sequences to batches of at most *max_tokens* tokens, in their order.

        A batch has as many sequences as fit. It has no padding, and is a dict as `pack` makes it:
        *field*, ``segment_ids``, ``positions`` and ``cu_seqlens``. *max_tokens* bounds the sum of
        the lengths. For padded batches of similar lengths, use `bucket_by_sequence_length`.

        Args:
            max_tokens: how many tokens a batch has at most.
            field: the name of the tokens; None if the elements are the tokens themselves.

        Raises:
            DatasetError: when an argument is malformed.
            ElementError: in the place of a sequence with more than *max_tokens* tokens, or without
                such a field.

        >>> lengths = Dataset.from_sequence([3, 2, 4, 1])
        >>> batches = lengths.map(np.ones).token_batches(5, field=None)
        >>> [batch["cu_seqlens"] for batch in batches]
        [array([0, 3, 5], dtype=int32), array([0, 4, 5], dtype=int32)]
        """
        return type(self)(TokenBatches(self.node, max_tokens, field))

    def balance(
        self,
        num_consumers: int,
        cost: Callable[..., Any] | None = None,
        window: int = 1024,
    ) -> Self:
        """Order elements so that each *num_consumers* consecutive ones cost nearly the same.

        In coordinated reads, *num_consumers* consecutive elements of a task are one round: each
        consumer gets one of them, and the slowest decides how long the step takes. This sorts
        *window* elements by their costs, and makes rounds of neighbours. The rounds come in the
        order of their first elements, so costs neither rise nor fall during training. Each element
        comes once.

        Args:
            num_consumers: how many elements a round has, as in `distribute`.
            cost: a function that returns what an element costs, a number; called as by `map`. None
                is the number of its tokens: the length of an array, or of the field ``tokens``.
            window: how many elements are sorted at a time; rounded down to whole rounds.

        Raises:
            DatasetError: when an argument is malformed.
            ElementError: in the place of an element without tokens, if there is no *cost*.
            TransformError: in the place of an element for which *cost* raises, or returns no finite
                number.

        >>> lengths = Dataset.from_sequence([9, 2, 5, 8, 1, 4])
        >>> print(*lengths.balance(2, cost=lambda n: n * n))
        9 8 2 1 5 4
        """
        return type(self)(BalancedRounds(self.node, num_consumers, window, cost))

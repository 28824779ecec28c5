"""`shard`: every n-th element. State: ``[position in the round of shards, the input's state]``.

With `SHARD_HINT` in place of n it only says where tasks divide the elements: each runs a
`TaskShard` there; see `penstock.analysis.auto_shard`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.engine.block_size import MOST
from penstock.engine.context import Context
from penstock.engine.iterator import ByNumber, ChoosingIterator, Mark, OpIterator, State
from penstock.engine.rows import Block, Rows
from penstock.errors import DatasetError
from penstock.graph.node import UNKNOWN, Node
from penstock.graph.traversal import topological_order
from penstock.options import check_count
from penstock.protocol.types import SHARD_HINT

_AT_ONCE = 256
"""How many elements of the input to ask for at a time, unless they are rows."""


@dataclass(frozen=True, eq=False)
class Shard(Node):
    """The elements whose number leaves *index* when divided by *num_shards*."""

    op: ClassVar[str] = "shard"
    per_task: ClassVar[bool] = True
    upstream: Node
    num_shards: int
    index: int

    def __post_init__(self) -> None:
        self._check_unshared()
        if self.is_hint:
            return
        shards = check_count("shard", "num_shards", self.num_shards)
        if self.index == SHARD_HINT:
            raise DatasetError(
                f"shard: SHARD_HINT stands for num_shards, not for index: shard({shards}, "
                "SHARD_HINT) names one shard; write shard(SHARD_HINT, 0), and distribute with "
                "ShardingPolicy.HINT"
            )
        index = check_count("shard", "index", self.index, least=0)
        if index >= shards:
            raise DatasetError(
                f"shard: index must be below num_shards ({shards}), not {index}; "
                "the first shard is 0"
            )
        object.__setattr__(self, "num_shards", shards)
        object.__setattr__(self, "index", index)

    def _check_unshared(self) -> None:
        whole = self.num_shards == 1
        if not whole and any(stage.shared for stage in topological_order(self.upstream)):
            raise DatasetError(
                "shard: behind distribute with a job_name readers share the elements already, so "
                "what a shard leaves out is lost: leave shard out, or the job_name"
            )

    @property
    def is_hint(self) -> bool:
        """Whether it only says where tasks divide the elements."""
        return type(self.num_shards) is int and self.num_shards == SHARD_HINT

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        if self.is_hint:
            return UNKNOWN
        below = self.upstream.cardinality
        return below if below < 0 else max(0, -(-(below - self.index) // self.num_shards))

    def by_number(self) -> ByNumber | None:
        """See `Node.by_number`."""
        if self.is_hint:
            return None
        below, shards, index = self.upstream.by_number(), self.num_shards, self.index
        return below and (lambda numbers: below(numbers * shards + index))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        if self.is_hint:
            raise DatasetError(HINTED)
        place, below = state or (0, None)
        return _ShardIterator(context.open(self.upstream, below), self, place)


class TaskShard(Shard):
    """The elements that one of *num_shards* tasks keeps, of those that all of them make alike."""

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`. The operators before it use the same seed in all tasks."""
        return super().open(context.alike(), state)


HINTED = (
    "shard(SHARD_HINT, ...) says where ShardingPolicy.HINT divides the elements among workers, and "
    "this is not read so: distribute with ShardingPolicy.HINT, or give shard a number; a hint "
    "within a function of flat_map or interleave is not seen: put it before these"
)


class _ShardIterator(ChoosingIterator):
    def __init__(self, upstream: OpIterator, node: Shard, place: int) -> None:
        self._upstream = upstream
        self._shards, self._index = node.num_shards, node.index
        self._place = place
        """The number of the input's next element, modulo the number of shards."""
        self._at_once = _AT_ONCE
        self._behind = 0
        """How many elements of the input's last block come after this shard's last element."""

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        while True:
            # At most *n* of this shard: the first is up to a round away, each other one round more.
            wanted = (self._index - self._place) % self._shards + 1 + (n - 1) * self._shards
            block = self._upstream.rows(min(wanted, self._at_once))
            self._at_once = MOST if isinstance(block, Rows) else _AT_ONCE
            first = (self._index - self._place) % self._shards
            self._place = (self._place + len(block)) % self._shards
            out = block[first :: self._shards]
            if out:
                self._behind = (len(block) - first - 1) % self._shards
            if out or not block:
                return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`. Before an element means right before it."""
        place, behind, shards, index = self._place, self._behind, self._shards, self._index
        below = self._upstream.mark()

        def at(back: int) -> State:
            return [index, below(behind + 1 + (back - 1) * shards)] if back else [place, below(0)]

        return at

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        if not n:
            return 0
        first = (self._index - self._place) % self._shards
        wanted = first + 1 + (n - 1) * self._shards
        moved = self._upstream.skip(wanted)
        self._place, self._behind = (self._place + moved) % self._shards, 0
        return n if moved == wanted else max(0, -(-(moved - first) // self._shards))

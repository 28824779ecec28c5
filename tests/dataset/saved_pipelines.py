"""Pipelines in one process, by name: `saved_states.json` has states that earlier trees took.

Nothing here may change: a state is restored by the pipeline that it was taken of.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from penstock import Dataset


def write_files(folder: Path) -> None:
    """Write what the pipelines that read files read."""
    for i in range(3):
        (folder / f"text-{i}.txt").write_text("".join(f"{i}-{n}\n" for n in range(7)))
        (folder / f"rows-{i}.csv").write_text("a,b\n" + "".join(f"{n},{n / 2}\n" for n in range(5)))
        (folder / f"records-{i}.bin").write_bytes(bytes(range(i, i + 24)))


def _files(folder: Path, pattern: str) -> list[str]:
    return sorted(str(path) for path in folder.glob(pattern))


def _ranges(n: object) -> Dataset:
    return Dataset.range(int(n))  # type: ignore[call-overload]  # an element


def _count() -> object:
    yield from range(20)


PIPELINES: dict[str, Callable[[Path], Dataset]] = {
    "range": lambda _: Dataset.range(3, 40, 2),
    "slices": lambda _: Dataset.from_tensor_slices({"a": np.arange(12), "b": np.ones((12, 2))}),
    "sequence": lambda _: Dataset.from_sequence([n * n for n in range(15)]),
    "generator": lambda _: Dataset.from_generator(_count),
    "random": lambda _: Dataset.random(seed=4).take(12),
    "counter": lambda _: Dataset.counter(5, 3).take(12),
    "map": lambda _: Dataset.range(20).map(lambda x: x * 2),
    "parallel map": lambda _: Dataset.range(60).map(lambda x: x + 1, num_parallel_calls=3),
    "map with chance": lambda _: Dataset.range(20).map(lambda x, *, rng: x + rng.integers(100)),
    "filter": lambda _: Dataset.range(40).filter(lambda x: x % 3 == 0),
    "scan": lambda _: Dataset.range(15).scan(0, lambda total, x: (total + x, total + x)),
    "unique": lambda _: Dataset.range(40).map(lambda x: x % 13).unique(),
    "ignore errors": lambda _: (
        Dataset.range(20).map(lambda x: 10 // int(x % 5)).ignore_errors(max_errors=None)
    ),
    "skip, take, shard": lambda _: Dataset.range(60).skip(3).take(50).shard(3, 1),
    "take while": lambda _: Dataset.range(60).take_while(lambda x: x < 18),
    "enumerate": lambda _: Dataset.range(20).enumerate(start=5),
    "concatenate": lambda _: Dataset.range(6).concatenate(Dataset.range(100, 110)),
    "repeat": lambda _: Dataset.range(5).shuffle(5, seed=1).repeat(4),
    "cache in memory": lambda _: Dataset.range(8).cache().repeat(3),
    "batch": lambda _: Dataset.range(45).batch(4),
    "padded batch": lambda _: Dataset.range(20).map(lambda x: np.ones(x % 4)).padded_batch(3),
    "unbatch": lambda _: Dataset.range(40).batch(4).unbatch(),
    "rebatch": lambda _: Dataset.range(45).batch(4).rebatch(3),
    "window": lambda _: Dataset.range(20).window(4, shift=2).flat_map(lambda w: w.batch(4)),
    "group by window": lambda _: Dataset.range(40).group_by_window(
        lambda x: x % 3, lambda key, group: group.batch(4), 4
    ),
    "buckets": lambda _: (
        Dataset.range(30)
        .map(lambda x: np.full(x % 7, x))
        .bucket_by_sequence_length(len, [3, 5], [2, 3, 4])
    ),
    "shuffle": lambda _: Dataset.range(50).shuffle(12, seed=7),
    "global shuffle": lambda _: Dataset.range(50).global_shuffle(seed=7).repeat(2),
    "shuffle of parallel map": lambda _: (
        Dataset.range(50).map(lambda x: x + 1, num_parallel_calls=2).shuffle(9, seed=2).batch(3)
    ),
    "flat map": lambda _: Dataset.range(8).flat_map(_ranges),
    "interleave": lambda _: Dataset.range(8).interleave(_ranges, cycle_length=3, block_length=2),
    "parallel interleave": lambda _: Dataset.range(8).interleave(
        _ranges, cycle_length=3, num_parallel_calls=2
    ),
    "prefetch": lambda _: Dataset.range(40).map(lambda x: x + 1).prefetch(4),
    "zip": lambda _: Dataset.zip(Dataset.range(20), Dataset.range(100, 130).shuffle(5, seed=3)),
    "sample": lambda _: Dataset.sample_from_datasets(
        [Dataset.range(20), Dataset.range(100, 120)], weights=[0.3, 0.7], seed=5
    ),
    "choose": lambda _: Dataset.choose_from_datasets(
        [Dataset.range(20), Dataset.range(100, 120)], Dataset.range(30).map(lambda x: x % 2)
    ),
    "text lines": lambda folder: Dataset.text_lines(_files(folder, "*.txt")),
    "csv": lambda folder: Dataset.csv(_files(folder, "*.csv")),
    "fixed records": lambda folder: Dataset.fixed_length_records(_files(folder, "*.bin"), 4),
    "interleaved files": lambda folder: (
        Dataset.from_sequence(_files(folder, "*.txt"))
        .interleave(Dataset.text_lines, cycle_length=2)
        .shuffle(6, seed=1)
    ),
    "map batches": lambda _: Dataset.range(30).map_batches(lambda x: x * 3),
    "parallel map batches": lambda _: Dataset.range(60).map_batches(
        lambda x: x + 1, num_parallel_calls=2
    ),
    "assert cardinality": lambda _: Dataset.range(20).assert_cardinality(20),
    "shuffled groups in passes": lambda _: (
        Dataset.range(24)
        .group_by_window(lambda x: x % 5, lambda key, group: group.batch(3), 3)
        .shuffle(4, seed=3)
        .repeat(2)
    ),
    "cache in passes of files": lambda folder: (
        Dataset.text_lines(_files(folder, "text-*.txt")).cache().take(15).repeat(2).batch(4)
    ),
}

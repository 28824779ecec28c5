"""What type checkers see of the public face: mypy and pyright, both strict, read this file.

That a call is refused by both shows in its comments: one that silences nothing is an error, too.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, assert_type

import numpy as np
import pytest

from penstock import (
    AUTOTUNE,
    INFINITE,
    UNKNOWN,
    ArraySpec,
    AutotuneOptions,
    Dataset,
    DatasetSpec,
    Options,
    errors,
    service,
)
from penstock.analysis.visitation import Guarantee, Visitation
from penstock.dataset.iterator import DatasetIterator
from penstock_cluster import (
    DispatcherConfig,
    DispatchServer,
    LocalCluster,
    Member,
    WorkerConfig,
    WorkerServer,
)


def double(x: Any) -> Any:
    return x * 2


def is_odd(x: Any) -> bool:
    return bool(x % 2)


def parity(x: Any) -> int:
    return int(x) % 2


def rows(x: Any) -> Dataset:
    return Dataset.range(int(x))


def batched(window: Dataset) -> Dataset:
    return window.batch(2)


def batched_group(_key: int, window: Dataset) -> Dataset:
    return window.batch(2)


def running(total: Any, x: Any) -> tuple[Any, Any]:
    return total + x, total + x


def total(before: Any, x: Any) -> Any:
    return before + x


def countdown(n: int) -> Iterator[int]:
    yield from range(n, 0, -1)


def all_datasets(given: list[Dataset]) -> bool:
    return {type(one) for one in given} == {Dataset}


def test_sources_give_datasets(tmp_path: Path) -> None:
    numbers = Dataset.range(3)
    made = [
        assert_type(Dataset.range(1, 9, 2), Dataset),
        assert_type(Dataset.from_tensors({"x": 1}), Dataset),
        assert_type(Dataset.from_tensor_slices([1, 2]), Dataset),
        assert_type(Dataset.from_sequence([1, 2]), Dataset),
        assert_type(Dataset.from_generator(countdown, (3,)), Dataset),
        assert_type(Dataset.list_files([tmp_path / "*"], shuffle=False), Dataset),
        assert_type(Dataset.text_lines(tmp_path / "a", errors="replace"), Dataset),
        assert_type(Dataset.fixed_length_records("a", 4, header_bytes=1), Dataset),
        assert_type(Dataset.tfrecords(["a", "b"], "GZIP"), Dataset),
        assert_type(Dataset.csv("a", column_defaults={"x": np.float32}), Dataset),
        assert_type(Dataset.counter(1, 2), Dataset),
        assert_type(Dataset.random(seed=1), Dataset),
        assert_type(Dataset.zip(numbers, numbers), Dataset),
        assert_type(Dataset.zip({"x": numbers}), Dataset),
        assert_type(Dataset.sample_from_datasets([numbers], [1.0], seed=1), Dataset),
        assert_type(Dataset.mixture({"a": numbers}, {"a": 1}, stop="drop"), Dataset),
        assert_type(
            Dataset.mixture({"a": numbers}, [(0, {"a": 1.0})], max_epochs={"a": 2}), Dataset
        ),
        assert_type(Dataset.choose_from_datasets([numbers], Dataset.range(1)), Dataset),
    ]

    assert all_datasets(made)


def test_methods_that_change_elements_give_datasets() -> None:
    numbers = Dataset.range(6)
    made = [
        assert_type(numbers.map(double, AUTOTUNE, deterministic=False), Dataset),
        assert_type(numbers.map(double, 2, executor="process"), Dataset),
        assert_type(numbers.filter(is_odd), Dataset),
        assert_type(numbers.scan(0, running), Dataset),
        assert_type(numbers.unique(), Dataset),
        assert_type(numbers.ignore_errors(3), Dataset),
        assert_type(numbers.take(2), Dataset),
        assert_type(numbers.take_while(is_odd), Dataset),
        assert_type(numbers.skip(2), Dataset),
        assert_type(numbers.shard(2, 0), Dataset),
        assert_type(numbers.enumerate(start=1), Dataset),
        assert_type(numbers.concatenate(numbers), Dataset),
        assert_type(numbers.repeat(), Dataset),
        assert_type(numbers.cache(), Dataset),
        assert_type(numbers.assert_cardinality(6), Dataset),
        assert_type(numbers.with_options(Options(threads=2)), Dataset),
    ]

    assert all_datasets(made)


def test_methods_that_regroup_elements_give_datasets() -> None:
    numbers = Dataset.range(6)
    made = [
        assert_type(numbers.batch(2, drop_remainder=True), Dataset),
        assert_type(numbers.padded_batch(2, (), 0), Dataset),
        assert_type(numbers.ragged_batch(2, fields=["ids"]), Dataset),
        assert_type(numbers.batch(2).unbatch(), Dataset),
        assert_type(numbers.batch(2).rebatch(3), Dataset),
        assert_type(numbers.window(2, shift=1), Dataset),
        assert_type(numbers.group_by_window(parity, batched_group, window_size=2), Dataset),
        assert_type(numbers.bucket_by_sequence_length(len, [3], [2, 2]), Dataset),
        assert_type(numbers.pack(8, None, "best_fit", 16, "cut", 0), Dataset),
        assert_type(numbers.token_batches(8, None), Dataset),
        assert_type(numbers.balance(2, abs, window=8), Dataset),
        assert_type(numbers.shuffle(4, seed=1), Dataset),
        assert_type(numbers.global_shuffle(seed=1), Dataset),
        assert_type(numbers.flat_map(rows), Dataset),
        assert_type(numbers.interleave(rows, 2, num_parallel_calls=AUTOTUNE), Dataset),
        assert_type(numbers.prefetch(AUTOTUNE), Dataset),
        assert_type(numbers.apply(batched), Dataset),
    ]

    assert all_datasets(made)


def test_reading_gives_an_iterator_and_elements_of_any_type() -> None:
    numbers = Dataset.range(4)

    iterator = assert_type(iter(numbers), DatasetIterator)
    first = assert_type(next(iterator), Any)
    state = assert_type(iterator.state(), Any)

    with assert_type(numbers.iterator(json.loads(json.dumps(state))), DatasetIterator) as rest:
        assert [int(x) for x in rest] == [1, 2, 3]
    assert first == 0
    assert assert_type(iterator.reads_job, bool) is False
    assert type(assert_type(numbers.as_numpy_iterator(), DatasetIterator)) is DatasetIterator
    batch = assert_type(numbers.batch(4).get_single_element(), Any)
    assert batch.tolist() == [0, 1, 2, 3]
    assert int(assert_type(numbers.reduce(0, total), Any)) == 6


def test_what_is_known_of_a_dataset_has_types() -> None:
    numbers = Dataset.range(4)

    assert assert_type(numbers.cardinality(), int) == assert_type(len(numbers), int) == 4
    assert INFINITE < 0 > UNKNOWN
    said = assert_type(numbers.visitation(), Visitation)
    assert assert_type(said.promise, Guarantee) is Guarantee.EXACTLY_ONCE
    spec = assert_type(numbers.batch(4).element_spec, Any)
    array = ArraySpec((4,), np.dtype(np.int64))
    assert spec == array
    assert assert_type(array.shape, tuple[int | None, ...]) == (4,)
    assert assert_type(DatasetSpec(array).element, Any) == array


def test_options_have_types() -> None:
    options = Options(deterministic=False, autotune=AutotuneOptions(cpu_budget=2))

    assert assert_type(options.deterministic, bool | None) is False
    assert assert_type(options.threads, int | None) is None
    assert assert_type(options.autotune.cpu_budget, int | None) == 2
    assert assert_type(options.external_state_policy, str | None) is None


def test_distribute_gives_a_function_for_apply() -> None:
    policy = assert_type(service.ShardingPolicy.DYNAMIC, Literal[service.ShardingPolicy.DYNAMIC])
    by_workers: Callable[[Dataset], Dataset] = service.distribute(
        policy, ("grpc", "host:5050"), "job", timeout=3
    )
    numbers = Dataset.range(4)

    made = [
        assert_type(numbers.apply(by_workers), Dataset),
        assert_type(numbers.distribute("parallel_epochs", "host:5050"), Dataset),
    ]

    assert all_datasets(made)
    with pytest.raises(errors.DatasetError):
        assert_type(service.save_job(iter(numbers), "step 1"), Any)


def test_services_have_types() -> None:
    settings = DispatcherConfig.from_env({}, work_dir=None)
    with assert_type(DispatchServer(assert_type(settings, DispatcherConfig)), DispatchServer) as it:
        assert assert_type(it.target, str).endswith(f":{assert_type(it.port, int)}")
        worker = WorkerServer(WorkerConfig(dispatcher_address=it.target), start=False)
        assert type(assert_type(worker, WorkerServer)) is WorkerServer
    cluster = LocalCluster(0, worker=WorkerConfig(drain=0))
    assert assert_type(cluster.workers, list[Member]) == []
    with pytest.raises(errors.Closed):
        assert_type(assert_type(cluster.dispatcher, Member).address, str)


def test_errors_have_types() -> None:
    def fail(_: Any) -> Any:
        raise ZeroDivisionError("no")

    with pytest.raises(errors.TransformError) as raised:
        next(iter(Dataset.range(1).map(fail)))

    error = raised.value
    assert assert_type(error.number, int) == 0
    assert assert_type(error.operator, str) == "map(fail)"
    assert assert_type(error.worker, str | None) is None
    assert assert_type(error.retryable, bool) is False
    assert type(assert_type(error.but(number=7), errors.TransformError)) is errors.TransformError


def test_what_has_another_type_is_refused_before_it_runs() -> None:
    numbers = Dataset.range(3)
    with pytest.raises(errors.DatasetError):
        Dataset.range("3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(errors.DatasetError):
        numbers.batch("2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(errors.DatasetError):
        numbers.map(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(errors.DatasetError):
        numbers.concatenate([1])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(errors.DatasetError):
        numbers.with_options({})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        numbers.shuffle()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(errors.ConfigError):
        DispatchServer(5050)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

"""A mixture on the mesh: one sequence, however many workers make it and consumers divide it."""

import json
import time
from collections import Counter

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from tests.mesh.drivers import each
from tests.ops.test_webdataset import write

DYNAMIC = "distributed_epoch"
WEIGHTS = [(0, {"web": 3, "code": 1}), (600, {"web": 1, "code": 2, "wiki": 1})]


def slow(x):
    time.sleep(0.0005)
    return int(x) + 1


def even(x):
    return x % 2 == 0


def drawn(x, *, rng):
    return int(x) + 100_000 * int(rng.integers(100))


def mixed(**more):
    datasets = {
        "web": Dataset.range(900).global_shuffle(seed=3).map(slow, num_parallel_calls=2),
        "code": Dataset.range(10_000, 10_500).map(slow),
        "wiki": Dataset.range(20_000, 20_040).map(drawn).prefetch(4),
    }
    return Dataset.mixture(datasets, WEIGHTS, turns_per_task=128, **more).take(1500)


def dropping():
    datasets = {
        "web": Dataset.range(900).filter(even).map(slow),
        "code": Dataset.range(10_000, 10_500),
    }
    return Dataset.mixture(datasets, {"web": 3, "code": 1}, stop="drop", turns_per_task=128)


PIPELINES = {"exact": mixed, "dropping": dropping}


def read(dataset, target, **more):
    return dataset.distribute(DYNAMIC, target, ordered=True, **more)


def plain(elements):
    return [int(x) for x in elements]


def without_chance(elements):
    return [x % 100_000 for x in plain(elements)]


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_one_worker_two_and_this_process_make_one_sequence(clusters, name):
    wanted = without_chance(PIPELINES[name]())

    for workers in (1, 2):
        cluster = clusters.shared(workers=workers)
        assert without_chance(read(PIPELINES[name](), cluster.target)) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_without_an_order_each_element_comes_once(clusters, name):
    job = PIPELINES[name]().distribute(DYNAMIC, clusters.shared(workers=2).target)

    assert Counter(without_chance(job)) == Counter(without_chance(PIPELINES[name]()))


def consumers(dataset, target, number, job):
    how = {"job_name": job, "num_consumers": number}
    return [read(dataset, target, consumer_index=k, **how) for k in range(number)]


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_two_consumers_are_resumed_as_three_and_the_sequence_goes_on(another, name):
    def begin(dataset):
        with iter(dataset) as elements:
            return [int(next(elements)) for _ in range(150)], elements.state()

    with another(workers=3) as mesh:
        begun = each(begin, consumers(PIPELINES[name](), mesh.target, 2, "saved"))
        state = begun[0][1]
        (alone,) = consumers(PIPELINES[name](), mesh.target, 1, "whole")
        whole = plain(alone.iterator(state))
    with another(workers=1) as mesh:
        again = consumers(PIPELINES[name](), mesh.target, 3, "saved")
        rest = each(lambda one: plain(one.iterator(state)), again)

    wanted = without_chance(PIPELINES[name]())
    assert [[x % 100_000 for x in got] for got, _ in begun] == [wanted[:300:2], wanted[1:300:2]]
    assert [x % 100_000 for x in whole] == wanted[300:]
    sequence = [None] * 300 + whole
    assert rest == [
        [x for x in sequence[k::3] if x is not None] for k in range(3)
    ]  # with the same chance


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(another):
    wanted = without_chance(mixed())
    with another(workers=3) as mesh:
        got = []
        for x in read(mixed(), mesh.target):
            got.append(int(x) % 100_000)
            if len(got) in (300, 700):
                mesh.workers[len(got) // 400].kill()

    assert got == wanted


def shuffled():
    datasets = {
        "web": Dataset.range(900).shuffle(100, seed=3),
        "code": Dataset.range(10_000, 10_300),
    }
    return Dataset.mixture(datasets, {"web": 3, "code": 1}, stop="drop")


@pytest.mark.slow
def test_datasets_without_an_index_are_mixed_by_each_task(clusters):
    job = shuffled().distribute(DYNAMIC, clusters.shared(workers=2).target)

    assert Counter(plain(job)) == Counter([*range(900), *range(10_000, 10_300)])


def test_one_order_of_datasets_without_an_index_is_refused_before_anybody_is_called():
    with pytest.raises(DatasetError, match=r"ordered=True: mixture .* shuffle of 'web' has no ind"):
        read(shuffled(), "localhost:1")


def picky(x):
    if x % 10 == 7:
        raise ValueError(f"not {x}")
    return x


def with_bad_samples(folder, web=picky):
    datasets = {
        "web": Dataset.range(900).map(web).ignore_errors(log=folder),
        "code": Dataset.range(10_000, 10_300),
    }
    return Dataset.mixture(datasets, {"web": 3, "code": 1}, stop="first", turns_per_task=128)


def filled(turns):
    """Yield what *turns* of one task give: good samples, each in the next turn of its dataset."""
    good = [x for x in turns if x % 10 != 7 or x >= 10_000]
    left = {is_web: iter([x for x in good if (x < 10_000) == is_web]) for is_web in (True, False)}
    for x in turns:
        yield from [each for each in [next(left[x < 10_000], None)] if each is not None]


@pytest.mark.parametrize("where", ["in this process", "on workers"])
def test_the_turn_of_a_bad_sample_goes_to_the_next_one_of_its_dataset(cluster, tmp_path, where):
    turns = plain(with_bad_samples(tmp_path / "none", web=int))
    wanted = [x for at in range(0, len(turns), 128) for x in filled(turns[at : at + 128])]

    dataset = with_bad_samples(tmp_path / "letters")
    if where == "on workers":
        dataset = read(dataset, cluster.target)
    assert plain(dataset) == wanted

    files = (tmp_path / "letters").iterdir()
    letters = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert {each["message"] for each in letters} == {
        f"ValueError: not {x}" for x in turns if x < 10_000 and x % 10 == 7
    }
    assert {each["source"] for each in letters} == {"map(picky)"}


def with_image(sample):
    key = sample["__key__"]
    return {"tokens": np.full(1 + int(key[1:]) % 5, ord(key[0])), "key": key, "img": sample["img"]}


def test_references_go_through_shuffles_mixture_and_packs_and_are_read_last(cluster, tmp_path):
    def samples(name):
        images = [(f"{name}{i}.img", f"image {name}{i}".encode()) for i in range(40)]
        write(tmp_path / f"{name}.tar", images)
        return Dataset.webdataset(tmp_path / f"{name}.tar", lazy=True).global_shuffle(1)

    datasets = {name: samples(name).map(with_image) for name in "ab"}
    packs = Dataset.mixture(datasets, {"a": 2, "b": 1}, stop="drop", turns_per_task=32).pack(12)

    def shown(dataset):
        return [
            (pack["tokens"].tolist(), pack["key"].tolist(), pack["img"].tolist())
            for pack in dataset
        ]

    wanted = shown(packs.resolve())
    keys = [key for _, found, _ in wanted for key in found]
    assert sorted(keys) == sorted(f"{name}{i}" for name in "ab" for i in range(40))
    assert all(images == [f"image {key}".encode() for key in found] for _, found, images in wanted)
    far = read(packs, cluster.target)
    assert Counter(key for _, found, _ in shown(far.resolve()) for key in found) == Counter(keys)

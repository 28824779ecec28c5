"""Packs and balanced rounds, with real processes: each document once, and one order."""

import json
import time
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from penstock.analysis.ordering import LEAST_UNITS_TO_PACK
from penstock.dataset.dataset import Dataset
from penstock.explanation.ask import explain
from penstock_cluster.cli.status import fetch
from tests.mesh.drivers import each

DYNAMIC = "distributed_epoch"
DOCUMENTS, CAPACITY = 2000, 64


def length(i):
    return 1 + int(i) * 7919 % 40


def document(i):
    """Tokens that say which document and which place in it they are of."""
    return {"tokens": 100 * int(i) + np.arange(length(i))}


def slow(i):
    time.sleep(0.0002)
    return document(i)


ALL = Counter(100 * i + j for i in range(DOCUMENTS) for j in range(length(i)))


def tokens(packs):
    return Counter(int(token) for pack in packs for token in pack["tokens"])


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("method", "capacity"),
    [
        ("best_fit", CAPACITY),
        ("best_fit", CAPACITY // 4),
        ("first_fit_decreasing", CAPACITY),
        ("first_fit_decreasing", CAPACITY // 4),
        ("concat", CAPACITY),
    ],
)
def test_a_document_is_packed_once_though_a_worker_is_killed(another, method, capacity):
    """With a quarter of the capacity, documents are cut to pieces."""
    with another(workers=2) as mesh:
        packs = Dataset.range(DOCUMENTS).map(slow).pack(capacity, method=method, buffer=50)
        seen = []
        for pack in packs.distribute(DYNAMIC, mesh.target):
            seen.append(pack)
            if len(seen) == 100:
                mesh.workers[0].kill()

    assert tokens(seen) == ALL
    assert all(len(pack["tokens"]) <= capacity for pack in seen)


@pytest.mark.quick(1)
@pytest.mark.parametrize("split_long", ["cut", "error"])
def test_packs_behind_distribute_have_each_document_once_through_saves_and_a_killed_worker(
    another, split_long
):
    with another(workers=2) as mesh:
        dataset = Dataset.range(DOCUMENTS).map(slow).distribute(DYNAMIC, mesh.target)
        dataset, seen, state = dataset.pack(CAPACITY, buffer=50, split_long=split_long), [], None
        for life in range(4):
            with dataset.iterator(state) as it:
                if life < 3:
                    seen += islice(it, 150)
                    state = it.state()
                else:
                    seen += it
            if life == 1:
                mesh.workers[0].kill()

    assert tokens(seen) == ALL


def in_one_order(documents, **how):
    """The packs of *documents* documents, split by split, as a mesh makes them in one order."""
    return [
        pack["tokens"].tolist()
        for start in range(0, documents, LEAST_UNITS_TO_PACK)
        for pack in Dataset.range(start, min(start + LEAST_UNITS_TO_PACK, documents))
        .map(document)
        .pack(**how)
    ]


def test_two_consumers_are_saved_and_three_continue_the_same_order_of_packs(another):
    how = {"capacity": CAPACITY, "buffer": 100}
    wanted, documents = in_one_order(3000, **how), Dataset.range(3000).map(document)

    def readers(mesh, count):
        more = {"ordered": True, "num_consumers": count, "job_name": "packs"}
        return [
            documents.pack(**how).distribute(DYNAMIC, mesh.target, consumer_index=k, **more)
            for k in range(count)
        ]

    def begin(dataset):
        with iter(dataset) as packs:
            return [next(packs)["tokens"].tolist() for _ in range(200)], packs.state()

    with another(workers=2) as mesh:
        begun = each(begin, readers(mesh, 2))
    with another(workers=1) as mesh:
        rest = each(
            lambda one: [pack["tokens"].tolist() for pack in one.iterator(begun[0][1])],
            readers(mesh, 3),
        )

    assert [got for got, _ in begun] == [wanted[:400][k::2] for k in range(2)]
    mine = [range(k, len(wanted), 3) for k in range(3)]
    assert rest == [[wanted[i] for i in numbers if i >= 400] for numbers in mine]


def test_consumers_get_sequences_of_nearly_one_length_in_each_round(cluster, request):
    sequences = Dataset.range(2000).map(document).balance(2, window=400)

    def read(k):
        how = {"consumer_index": k, "num_consumers": 2, "job_name": request.node.name}
        return [x["tokens"].tolist() for x in sequences.distribute(DYNAMIC, cluster.target, **how)]

    first, second = each(read, range(2))

    longest = sum(max(len(a), len(b)) for a, b in zip(first, second, strict=True))
    mean = sum(len(a) + len(b) for a, b in zip(first, second, strict=True)) / 2
    assert longest / mean < 1.05
    assert sorted(x[0] // 100 for x in first + second) == list(range(2000))


def made(target, job):
    """What status says that the operators of a job made, by their names."""
    (known,) = (it for it in json.loads(fetch(target))["iterations"] if it["job"] == job)
    return {each["operator"]: each for each in known["figures"]}


def test_status_shows_the_tokens_and_the_padding_of_the_packs_that_workers_made(cluster, request):
    packs = Dataset.range(DOCUMENTS).map(document).pack(CAPACITY, pad=0)
    job = request.node.name
    with iter(packs.distribute(DYNAMIC, cluster.target, job_name=job)) as elements:
        used = [int((pack["segment_ids"] > 0).sum()) for pack in elements]

    pack = made(cluster.target, job)["pack"]
    assert (pack["unit"], pack["made"]) == ("tokens", sum(used)) == ("tokens", sum(ALL.values()))
    assert pack["padding_share"] == pytest.approx(1 - sum(used) / (CAPACITY * len(used)))


def test_status_and_explain_show_what_is_made_while_it_is_made(cluster, request):
    sequences = Dataset.range(1 << 30).map(slow).balance(2, window=64).map(lambda x: x)
    packs = sequences.pack(CAPACITY, buffer=64, pad=0)
    job = request.node.name
    with iter(packs.distribute(DYNAMIC, cluster.target, job_name=job)) as elements:
        told = {}
        for _ in elements:
            told = made(cluster.target, job)
            if told and told["pack"]["per_second"]:
                break
        figures = explain(elements).figures

    assert 1 <= told["balance"]["imbalance"] < 1.2
    assert 0 <= told["pack"]["padding_share"] < 0.5
    assert any(line.startswith("on workers: pack: ") and "padding" in line for line in figures)


def test_packs_that_are_made_again_leave_the_padding_share_as_it_is(another):
    with another(workers=2) as mesh:
        packs = Dataset.range(DOCUMENTS).map(slow).pack(CAPACITY, buffer=50, pad=0)
        used = []
        for pack in packs.distribute(DYNAMIC, mesh.target, job_name="packs"):
            used.append(int((pack["segment_ids"] > 0).sum()))
            if len(used) == 100:
                mesh.workers[0].kill()
        pack = made(mesh.target, "packs")["pack"]

    assert pack["made"] > 0.3 * sum(used)
    assert pack["padding_share"] == pytest.approx(1 - sum(used) / (CAPACITY * len(used)), abs=0.05)

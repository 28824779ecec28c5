"""Advice is followed on real clusters, and the wait falls: for each kind of advice."""

import json
import math
import time
from dataclasses import dataclass, field

import pytest

from penstock import Dataset, explain
from penstock.explanation.verdict import Bottleneck
from penstock_cluster.cli.explain import explanations_json
from penstock_worker import WorkerConfig

pytestmark = pytest.mark.slow

SECONDS = 60


def ask(x):
    """Take five milliseconds, as a request over a network does."""
    time.sleep(0.005)
    return x


def heard(x):
    ask(x)
    return True


def heard_late(x):
    time.sleep(0.02)
    return True


@dataclass(frozen=True)
class Mesh:
    """Workers with slots, and how a job reads."""

    workers: int = 2
    slots: int = 1
    how: dict = field(default_factory=dict)


IN_ROUNDS = {"job_name": "rounds", "consumer_index": 0, "num_consumers": 1}
IN_ORDER = {"job_name": "ordered", "ordered": True}


def loop(another, mesh, build, step=0.004, behind=lambda dataset: dataset, settled=None):
    """Return what is explained of a loop once its wait is steady, and what the command says."""
    worker = WorkerConfig(slots=mesh.slots)
    with another(workers=mesh.workers, worker=worker) as cluster:
        far = build(Dataset.range(10**9)).distribute(
            "distributed_epoch", cluster.target, **mesh.how
        )
        with iter(behind(far)) as elements:
            asked = []
            deadline = time.monotonic() + SECONDS
            while not (settled or steady)(asked):
                assert time.monotonic() < deadline, asked
                until = time.monotonic() + 1.5
                while time.monotonic() < until:
                    next(elements)
                    time.sleep(step)
                asked.append(explain(elements))
            (told,) = json.loads(explanations_json(cluster.target))["passes"]
    return asked[-1], told


def steady(asked):
    waits = [one.wait for one in asked[-3:]]
    return len(asked) >= 4 and max(waits) - min(waits) < 0.1


def falls(before, after):
    return before.wait > 0.25 and after.wait < 0.6 * before.wait


def test_calls_at_a_time_for_a_map_that_waits(another):
    before, told = loop(another, Mesh(), lambda data: data.map(ask).batch(4))
    calls = before.parallel_calls
    after, _ = loop(another, Mesh(), lambda data: data.map(ask, num_parallel_calls=calls).batch(4))

    assert before.operator == told["operator"] == "map(ask)"
    assert falls(before, after), (before.sentence, after.sentence)


def test_slots_for_what_takes_no_calls(another):
    before, _ = loop(another, Mesh(), lambda data: data.filter(heard).batch(4))
    slots = 1 + math.ceil(before.more_slots / 2)
    after, _ = loop(another, Mesh(slots=slots), lambda data: data.filter(heard).batch(4))

    assert before.parallel_calls == 0
    assert falls(before, after), (before.sentence, after.sentence)


def test_workers_for_coordinated_reads_and_slots_would_not_have_helped(another):
    mesh = Mesh(how=IN_ROUNDS)
    before, told = loop(another, mesh, lambda data: data.filter(heard).batch(3))
    more = Mesh(2 + before.more_workers, how=IN_ROUNDS)
    after, _ = loop(another, more, lambda data: data.filter(heard).batch(3))

    assert (before.more_slots, before.parallel_calls) == (0, 0)
    assert told["more_workers"] > 0
    assert falls(before, after), (before.sentence, after.sentence)


def test_calls_at_a_time_in_coordinated_reads(another):
    mesh = Mesh(how=IN_ROUNDS)
    before, _ = loop(another, mesh, lambda data: data.map(ask).batch(4))
    calls = before.parallel_calls
    after, _ = loop(another, mesh, lambda data: data.map(ask, num_parallel_calls=calls).batch(4))

    assert falls(before, after), (before.sentence, after.sentence)


def test_slots_for_a_job_in_one_order_once_its_first_long_tasks_are_over(another):
    def begun(asked):
        return len(asked) > 8 and steady(asked)

    def run(mesh):
        build = lambda data: data.filter(heard_late)  # noqa: E731
        return loop(another, mesh, build, 0.001, settled=begun)[0]

    before = run(Mesh(how=IN_ORDER))
    after = run(Mesh(slots=1 + math.ceil(before.more_slots / 2), how=IN_ORDER))

    assert (before.limit, before.operator) == (Bottleneck.WORKERS, "filter(heard_late)")
    assert falls(before, after), (before.sentence, after.sentence)


def test_calls_at_a_time_for_a_map_behind_distribute(another):
    before, told = loop(
        another, Mesh(), lambda data: data, behind=lambda far: far.map(ask).batch(4)
    )
    calls = before.parallel_calls
    after, _ = loop(
        another,
        Mesh(),
        lambda data: data,
        behind=lambda far: far.map(ask, num_parallel_calls=calls).batch(4),
    )

    assert before.limit is Bottleneck.HERE
    assert (told["limit"], told["operator"]) == ("here", "map(ask)")
    assert falls(before, after), (before.sentence, after.sentence)


def test_before_distribute_for_a_map_behind_it(another):
    before, _ = loop(
        another, Mesh(), lambda data: data, behind=lambda far: far.filter(heard).batch(1)
    )
    after, _ = loop(another, Mesh(), lambda data: data.filter(heard).batch(1))

    assert "put it before distribute" in before.sentence
    assert falls(before, after), (before.sentence, after.sentence)


def test_calls_at_a_time_without_workers():
    def run(**how):
        with iter(Dataset.range(10**9).map(ask, **how).batch(4)) as elements:
            until = time.monotonic() + 6.0
            while time.monotonic() < until:
                next(elements)
                time.sleep(0.004)
            return explain(elements)

    before = run()
    after = run(num_parallel_calls=before.parallel_calls)

    assert (before.limit, before.operator) == (Bottleneck.HERE, "map(ask)")
    assert falls(before, after), (before.sentence, after.sentence)


def test_one_number_for_a_steady_job(another):
    worker = WorkerConfig(slots=1)
    with another(workers=2, worker=worker) as cluster:
        far = Dataset.range(10**9).map(ask).batch(4)
        far = far.distribute("distributed_epoch", cluster.target)
        found = []
        with iter(far) as elements:
            for _ in range(8):
                until = time.monotonic() + 2.5
                while time.monotonic() < until:
                    next(elements)
                    time.sleep(0.004)
                found.append(explain(elements))

    numbers = [(one.more_slots, one.parallel_calls) for one in found[1:]]
    assert len(set(numbers)) <= 2, numbers
    assert max(slots for slots, _ in numbers) <= 1.5 * min(slots for slots, _ in numbers)

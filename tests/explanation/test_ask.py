"""`explain` on real loops: it is right, for what it asks for helps."""

import threading
import time

import pytest

from penstock import Dataset, explain
from penstock.errors import Closed
from penstock.explanation.verdict import Bottleneck


def slow(x):
    time.sleep(0.004)
    return x


def train(elements, seconds, step=0.0025):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        next(elements)
        time.sleep(step)


def test_a_loop_without_workers_names_its_slowest_operator():
    with iter(Dataset.range(1000).map(slow).batch(4)) as batches:
        for _ in range(10):
            next(batches)
        found = explain(batches)

    assert (found.limit, found.operator) == (Bottleneck.HERE, "map(slow)")


def test_a_loop_that_does_not_wait_is_told_so():
    with iter(Dataset.range(100_000)) as numbers:
        for _ in range(100):  # on a busy machine it may wait for a core now and then
            train(numbers, 0.2, step=0.005)
            if explain(numbers).limit is Bottleneck.NOTHING:
                break
        else:
            pytest.fail(str(explain(numbers)))


def test_an_iterator_that_is_closed_has_nothing_to_say():
    numbers = iter(Dataset.range(3))
    numbers.close()

    with pytest.raises(Closed):
        explain(numbers)


@pytest.mark.slow
def test_the_figures_of_workers_and_of_links_are_values(cluster):
    dataset = Dataset.range(100_000).map(slow)
    with iter(dataset.distribute("distributed_epoch", cluster.target)) as numbers:
        deadline = time.monotonic() + 60
        operators, links = (), ()
        while not (operators and links) and time.monotonic() < deadline:
            train(numbers, 0.2)
            stats = numbers.stats()
            (job,) = stats.jobs
            operators, links = [one.operators for one in job.tasks], job.links
        own = numbers.stats(jobs=False)

    assert "map(slow)" in {one.label for some in operators for one in some}
    assert {link.transport for _, link in links} == {link.transport for link in own.links}
    assert all(link.nbytes > 0 and link.room > 0 for link in own.links)
    assert all(link.compression for link in own.links)
    assert own.jobs == ()


@pytest.mark.slow
def test_the_slots_that_it_asks_for_hide_the_wait(another):
    with another(workers=1) as mesh:
        dataset = Dataset.range(100_000).map(slow)
        with iter(dataset.distribute("distributed_epoch", mesh.target, job_name="slow")) as numbers:
            train(numbers, 4)
            before = explain(numbers)
            starting = [threading.Thread(target=mesh.add_worker) for _ in range(before.more_slots)]
            for thread in starting:
                thread.start()
            deadline = time.monotonic() + 60
            after = before
            while after.wait >= 0.1 and time.monotonic() < deadline:
                train(numbers, 2)
                after = explain(numbers)
            for thread in starting:
                thread.join()

    assert (before.limit, before.operator) == (Bottleneck.WORKERS, "map(slow)")
    assert before.wait > 0.2
    assert 1 <= before.more_slots <= 4
    assert after.wait < 0.1

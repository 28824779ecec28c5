"""Coordinated reads when processes die: rounds stay whole, and who is waited for is named."""

import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ConsumerLost, WaitedTooLong
from penstock_dispatcher.config import DispatcherConfig

CONSUMERS = 4
SOON = DispatcherConfig(consumer_timeout=1.0, heartbeat_interval=0.2)


class Steps:
    """Consumers that step together: a thread each, and a barrier behind every round."""

    def __init__(self, cluster, dataset, mode="distributed_epoch", consumers=CONSUMERS, **given):
        self.rounds, self.waits, self.failures = [], [], []
        self._got = [None] * consumers
        self._began = time.monotonic()
        self._barrier = threading.Barrier(consumers, self._step)
        self.reached = threading.Condition()
        self._threads = [
            threading.Thread(
                target=self._read,
                args=(
                    index,
                    dataset.distribute(mode, cluster.target, "steps", index, consumers, **given),
                ),
            )
            for index in range(consumers)
        ]
        for thread in self._threads:
            thread.start()

    def _step(self):
        now = time.monotonic()
        with self.reached:
            self.rounds.append(tuple(self._got))
            self.waits.append(now - self._began)
            self.reached.notify_all()
        self._began = now

    def _read(self, index, dataset):
        try:
            with iter(dataset) as elements:
                for self._got[index] in elements:
                    self._barrier.wait()
        except Exception as exc:  # noqa: BLE001
            self.failures.append(exc)
            self._barrier.abort()

    def wait_for(self, rounds):
        with self.reached:
            assert self.reached.wait_for(lambda: len(self.rounds) >= rounds, 60), self.failures

    def end(self):
        for thread in self._threads:
            thread.join(60)
        assert not self.failures
        assert not any(thread.is_alive() for thread in self._threads)


def numbered(i):
    time.sleep(0.002)
    return np.int64(i)


@pytest.mark.slow
def test_rounds_are_whole_when_workers_are_killed_and_join(clusters):
    elements = 2400
    with clusters.own(workers=3) as cluster:
        steps = Steps(cluster, Dataset.range(elements).map(numbered))
        steps.wait_for(30)
        before = len(steps.rounds)
        cluster.workers[0].kill()
        steps.wait_for(before + 60)
        after_kill = max(steps.waits[before:])
        before = len(steps.rounds)
        cluster.add_worker()
        cluster.workers[0].restart()
        steps.wait_for(before + 60)
        steps.end()

    taken = [int(x) for round_ in steps.rounds for x in round_]
    assert len(set(taken)) == len(taken)
    assert len(taken) >= elements - 5 * (CONSUMERS - 1)
    # What another worker has goes on: nobody waits for the lease of the dead one.
    assert after_kill < 3.0


@pytest.mark.slow
def test_a_dispatcher_that_is_killed_comes_back_with_all_that_was_released(clusters):
    elements = 1200
    with clusters.own(workers=2) as cluster:
        steps = Steps(cluster, Dataset.range(elements).map(numbered))
        steps.wait_for(30)
        cluster.dispatcher.kill()
        cluster.dispatcher.restart()
        steps.end()

    taken = [int(x) for round_ in steps.rounds for x in round_]
    assert len(set(taken)) == len(taken)
    assert len(taken) >= elements - 2 * (CONSUMERS - 1)


def test_a_pass_that_ends_while_the_dispatcher_is_away_is_over_when_it_is_back(clusters):
    with clusters.own(workers=1) as cluster:

        def read(**more):
            job = ("distributed_epoch", cluster.target, "over", 0, 1)
            return iter(Dataset.range(40).distribute(*job, **more))

        with read() as elements:
            taken = [int(next(elements)) for _ in range(39)]
            cluster.dispatcher.kill()
            rest = []
            reading = threading.Thread(target=lambda: rest.extend(map(int, elements)))
            reading.start()
            cluster.dispatcher.restart()
            reading.join(60)

        assert sorted(taken + rest) == list(range(40))
        with read(on_finished="ignore") as elements:
            assert list(elements) == []


@pytest.mark.slow
def test_a_consumer_waits_for_an_absent_one_no_longer_than_its_timeout(clusters):
    config = DispatcherConfig(consumer_timeout=600.0)
    with clusters.own(workers=1, dispatcher=config) as cluster:
        job = ("distributed_epoch", cluster.target, "bounded", 0, 2)
        with iter(Dataset.range(4000).distribute(*job, timeout=1.0)) as elements:
            began = time.monotonic()
            with pytest.raises(WaitedTooLong, match=r"waits for consumer 1.*timeout=1"):
                next(elements)

        assert time.monotonic() - began < 60


CONSUMER = """
    import sys
    from penstock import Dataset

    target, index, start = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    dataset = Dataset.range(4000).distribute(
        "distributed_epoch", target, "killed", index, 2,
        start_round=int(start) if start else None,
    )
    with iter(dataset) as elements:
        for element in elements:
            print(elements.round - 1, int(element), flush=True)
            sys.stdin.readline()
"""


def consumer_process(target, index, start=""):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CONSUMER), target, str(index), str(start)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_consumer_that_is_killed_is_named_and_another_process_goes_on_in_its_place(clusters):
    with clusters.own(workers=2, dispatcher=SOON) as cluster:
        mine = Dataset.range(4000).distribute("distributed_epoch", cluster.target, "killed", 0, 2)
        with iter(mine) as elements, consumer_process(cluster.target, 1) as other:
            for _ in range(10):
                other.stdout.readline()  # first: it takes its time to start
                next(elements)
                other.stdin.write("\n")
                other.stdin.flush()
            other.kill()
            with pytest.raises(ConsumerLost, match=rf"consumer 1 \(.*pid {other.pid}\)"):
                while True:
                    next(elements)
            at = elements.round
            with pytest.raises(ConsumerLost, match="consumer 1"):
                next(elements)
            assert elements.round == at

            with consumer_process(cluster.target, 1, at) as again:
                number, theirs = map(int, again.stdout.readline().split())
                ours = int(next(elements))
                assert number == at
                assert abs(ours - theirs) == 1
                again.kill()


@pytest.mark.slow
def test_an_index_that_nobody_reads_is_named(clusters):
    with clusters.own(workers=1, dispatcher=SOON) as cluster:
        alone = Dataset.range(100).distribute("distributed_epoch", cluster.target, "alone", 0, 2)
        with iter(alone) as elements:
            with pytest.raises(ConsumerLost, match="consumer 1, which never came"):
                next(elements)

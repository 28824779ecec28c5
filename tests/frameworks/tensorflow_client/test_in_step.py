"""Consumers of coordinated reads that are TensorFlow clients stay in step, whatever is killed."""

import os
import signal
import threading
import time
from collections import Counter

import pytest
import tensorflow as tf

from penstock import Dataset
from penstock.service import register_dataset
from penstock_cluster import LocalCluster
from penstock_dispatcher import DispatcherConfig

service = tf.data.experimental.service

EACH = 400
LIMIT = 120


def slow(x):
    time.sleep(0.004)
    return x


@pytest.fixture
def own(clusters, tmp_path):
    """A cluster that a test may kill."""
    clusters.close()
    config = DispatcherConfig(worker_timeout=2.0, client_timeout=3.0)
    with LocalCluster(2, work_dir=tmp_path, dispatcher=config) as cluster:
        # Each worker makes all of it: whichever gives a round, its elements are neighbours.
        register_dataset(cluster.target, Dataset.range(10**6).map(slow), dataset_id="pairs")
        yield cluster


class Consumer(threading.Thread):
    """Reads `EACH` elements as one of two."""

    def __init__(self, target, index, meanwhile=lambda at: None):
        super().__init__(daemon=True)
        self.got, self.failed, self.meanwhile = [], None, meanwhile
        self.dataset = service.from_dataset_id(
            "parallel_epochs",
            target,
            "pairs",
            element_spec=tf.TensorSpec((), tf.int64),
            job_name="in step",
            consumer_index=index,
            num_consumers=2,
        ).take(EACH)
        self.start()

    def run(self):
        try:
            for x in self.dataset:
                self.got.append(int(x))
                self.meanwhile(len(self.got))
        except tf.errors.OpError as exc:
            self.failed = exc


def check(*consumers):
    """Both got neighbours, each once of each worker's, without a gap."""
    for consumer in consumers:
        consumer.join(LIMIT)
    assert [consumer.failed for consumer in consumers] == [None, None]
    first, second = (consumer.got for consumer in consumers)
    assert [len(first), len(second)] == [EACH, EACH]
    assert [x + 1 for x in first] == second
    counts = Counter(first)
    how_often = [counts[x] for x in range(0, max(first) + 1, 2)]
    assert sum(how_often) == EACH
    assert set(how_often) <= {1, 2}
    assert how_often == sorted(how_often, reverse=True)


def test_each_worker_is_killed_once(own):
    def kill(at):
        if at in (100, 250):
            worker = own.workers[at == 250]
            os.kill(worker.pid, signal.SIGKILL)
            worker.restart()

    check(Consumer(own.target, 0, kill), Consumer(own.target, 1))


def test_a_worker_that_is_killed_stays_away(own):
    def kill(at):
        if at == 100:
            os.kill(own.workers[0].pid, signal.SIGKILL)

    check(Consumer(own.target, 0, kill), Consumer(own.target, 1))


def test_the_other_worker_is_killed_and_stays_away(own):
    def kill(at):
        if at == 100:
            os.kill(own.workers[1].pid, signal.SIGKILL)

    check(Consumer(own.target, 0, kill), Consumer(own.target, 1))


def test_the_dispatcher_is_killed_while_a_worker_is_gone(own):
    def kill(at):
        if at == 100:
            for worker in own.workers:
                os.kill(worker.pid, signal.SIGKILL)
            own.dispatcher.kill()
            own.dispatcher.restart()
            for worker in own.workers:
                worker.restart()

    check(Consumer(own.target, 0, kill), Consumer(own.target, 1))


def test_a_worker_that_was_only_stopped_comes_back(own):
    def stop(at):
        if at == 100:
            for worker in own.workers:
                os.kill(worker.pid, signal.SIGSTOP)
            for worker in own.workers:
                threading.Timer(4.0, os.kill, (worker.pid, signal.SIGCONT)).start()

    check(Consumer(own.target, 0, stop), Consumer(own.target, 1))

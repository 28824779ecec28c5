"""A job is saved and goes on from there, with real processes."""

import json
import logging
import os
import platform
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock import errors
from penstock.dataset.dataset import Dataset
from penstock.service import save_job
from penstock_cluster.cli.status import look
from tests.mesh.drivers import each, in_turn, side_by_side


def saved(iterator, name):
    """Save a job; return its state, or the error."""
    try:
        return save_job(iterator, name, timeout=20)
    except errors.PenstockError as exc:
        return exc


def text(state):
    return json.loads(json.dumps(state))


def flat(batches):
    return [int(x) for batch in batches for x in batch]


PIPELINES = {
    "directly": lambda ds: ds,
    "behind batch": lambda ds: ds.batch(7),
    "behind shuffle, batch and prefetch": lambda ds: ds.shuffle(100).batch(8).prefetch(3),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("mode", ["distributed_epoch", "parallel_epochs"])
def test_before_and_after_a_state_are_the_whole_together(cluster, mode, name):
    def build():
        source = Dataset.range(600).map(lambda x: x).shuffle(20).batch(3).unbatch()
        return PIPELINES[name](source.distribute(mode, cluster.target))

    numbers = (lambda it: [int(x) for x in it]) if name == "directly" else flat
    whole = Counter(numbers(build()))
    with iter(build()) as it:
        seen = numbers(next(it) for _ in range(12))
        state = text(it.state())

    after = numbers(build().iterator(state))

    assert Counter(seen) + Counter(after) == whole


def test_a_state_is_taken_before_the_first_element_and_after_the_last(cluster):
    build = lambda: Dataset.range(50).distribute("distributed_epoch", cluster.target).batch(4)
    it = iter(build())
    before = text(it.state())
    flat(it)
    after = text(it.state())

    assert sorted(flat(build().iterator(before))) == list(range(50))
    assert flat(build().iterator(after)) == []


def test_reading_goes_on_behind_a_state(cluster):
    it = iter(Dataset.range(200).distribute("distributed_epoch", cluster.target).batch(4))
    seen = []
    states = []
    for batch in it:
        seen += batch.tolist()
        states.append(it.state())

    assert sorted(seen) == list(range(200))
    assert len({json.dumps(state) for state in states}) > 1


def test_restore_goes_back_on_the_same_iterator(cluster):
    it = iter(Dataset.range(100).distribute("distributed_epoch", cluster.target).batch(4))
    first = flat(next(it) for _ in range(5))
    state = text(it.state())
    flat(next(it) for _ in range(5))

    it.restore(state)

    assert sorted(first + flat(it)) == list(range(100))


def of_the_job(state):
    """Return what of a reader's *state* is the job's: its operators are its own."""
    return {**state, "operators": None}


def test_readers_of_one_job_have_the_same_state_but_for_their_operators(cluster):
    build = lambda: (
        Dataset.range(400)
        .distribute("distributed_epoch", cluster.target, job_name="same")
        .shuffle(30)
        .batch(4)
    )
    left, right = iter(build()), iter(build())
    seen = flat([next(left), next(right), next(left)])

    one, two = side_by_side(lambda: saved(left, "step 2"), lambda: saved(right, "step 2"))
    left.close()
    right.close()
    assert of_the_job(one) == of_the_job(two)

    readers = [build().iterator(text(one)) for _ in range(3)]
    seen += sum(each(flat, readers), [])
    assert sorted(seen) == list(range(400))


@pytest.mark.slow
def test_a_save_that_one_reader_does_not_come_to_fails_and_reading_goes_on(cluster):
    build = lambda: Dataset.range(200).distribute(
        "distributed_epoch", cluster.target, job_name="alone"
    )
    left, right = iter(build().batch(4)), iter(build().batch(4))
    seen = flat([next(left), next(right)])

    with pytest.raises(errors.SaveFailed, match="did not come to it"):
        left.state(timeout=0.5)

    right.close()
    assert sorted(seen + flat(left)) == list(range(200))


PEER = """
import sys
from penstock import Dataset
far = Dataset.range(400).distribute("distributed_epoch", sys.argv[1], job_name="preempted")
it = iter(far)
print(*[int(next(it)) for _ in range(5)], flush=True)
sys.stdin.read()
"""


def held_by(cluster, job):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        passes = look(cluster.target).stats.iterations
        if words := "".join(it.held_by for it in passes if it.job == job):
            return words
    raise AssertionError("nobody is said to hold anything")


@pytest.mark.slow
def test_a_save_goes_without_a_killed_peer_long_before_its_lease_is_over(cluster, caplog):
    build = lambda: Dataset.range(400).distribute(
        "distributed_epoch", cluster.target, job_name="preempted"
    )
    environment = {**os.environ, "RANK": "3"}
    command = [sys.executable, "-c", PEER, cluster.target]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as peer:
        try:
            it = iter(build())
            seen = [int(next(it)) for _ in range(5)]
            lost = [int(number) for number in peer.stdout.readline().split()]
        finally:
            peer.kill()
    name = f"host {platform.node()}, pid {peer.pid}, rank 3"

    with pytest.raises(errors.SaveFailed, match=rf"{re.escape(name)}; .*did not come to it"):
        it.state(timeout=0.2)
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, "penstock.reader"):
        state = text(it.state(timeout=20, without_missing=True))
    took = time.monotonic() - began

    assert took < 10, "the lease is 30 s"
    (line,) = (said for said in caplog.messages if said.startswith("state() went without reader"))
    assert name in line
    assert name in held_by(cluster, "preempted")
    counts = Counter(seen + lost + [int(x) for x in build().iterator(state)])
    assert sorted(counts) == list(range(400))
    assert {number for number, count in counts.items() if count > 1} <= set(lost)


def test_readers_that_save_different_things_are_told_so(cluster):
    build = lambda: Dataset.range(200).distribute(
        "distributed_epoch", cluster.target, job_name="different"
    )
    left, right = iter(build().batch(4)), iter(build().batch(4))
    next(left), next(right)

    outcomes = side_by_side(lambda: saved(left, "step 1"), lambda: saved(right, "step 2"))
    left.close()
    right.close()

    assert [type(outcome) for outcome in outcomes] == [errors.SaveFailed] * 2


def test_a_closed_iterator_ends_a_state_that_waits(cluster):
    build = lambda: Dataset.range(200).distribute(
        "distributed_epoch", cluster.target, job_name="closing"
    )
    left, right = iter(build().batch(4)), iter(build().batch(4))
    next(left), next(right)
    with ThreadPoolExecutor(1) as another_thread:
        saving = another_thread.submit(left.state, timeout=60)
        left.close()
        with pytest.raises(errors.Closed):
            saving.result(20)
    right.close()


@pytest.mark.slow
def test_passes_are_counted_on_from_a_state(cluster):
    build = lambda: Dataset.range(40).distribute(
        "distributed_epoch", cluster.target, job_name="epochs on"
    )
    ds = build().batch(4)
    flat(ds)
    it = iter(ds)
    seen = flat([next(it)])
    state = text(it.state())
    it.close()

    ds = build().batch(4)
    rest = flat(ds.iterator(state))
    [[entry]] = text(iter(ds).state())["jobs"].values()

    assert sorted(seen + rest) == list(range(40))
    assert entry["state"]["repetition"] == 3


def test_another_dataset_does_not_go_on_from_a_state(cluster):
    state = text(
        iter(Dataset.range(40).distribute("distributed_epoch", cluster.target).batch(4)).state()
    )

    with pytest.raises(errors.StateError, match="another dataset"):
        Dataset.range(41).distribute("distributed_epoch", cluster.target).batch(4).iterator(state)
    with pytest.raises(errors.StateError, match="processing_mode"):
        Dataset.range(40).distribute("parallel_epochs", cluster.target).batch(4).iterator(state)


def test_repeat_goes_on_in_its_pass(cluster):
    build = lambda: (
        Dataset.range(60).distribute("distributed_epoch", cluster.target).repeat(3).batch(5)
    )
    it = iter(build())
    seen = flat(next(it) for _ in range(17))
    state = text(it.state())
    it.close()

    assert Counter(seen + flat(build().iterator(state))) == dict.fromkeys(range(60), 3)


@pytest.mark.slow
def test_lockstep_loops_behind_operators_finish(cluster):
    build = lambda: (
        Dataset.range(300)
        .distribute("distributed_epoch", cluster.target, job_name="lockstep local")
        .shuffle(40)
        .batch(4)
        .prefetch(2)
    )
    one, two = in_turn([iter(build()), iter(build())])

    assert sorted(flat(one + two)) == list(range(300))


def test_a_state_taken_on_one_cluster_goes_on_on_another(cluster, another):
    build = lambda target: Dataset.range(300).distribute("distributed_epoch", target).batch(4)
    it = iter(build(cluster.target))
    seen = flat(next(it) for _ in range(9))
    state = text(it.state())
    it.close()
    with another(workers=3) as new:
        assert sorted(seen + flat(build(new.target).iterator(state))) == list(range(300))


@pytest.mark.quick(1)
@pytest.mark.parametrize("job", [None, "restored from nonsense"])
@pytest.mark.parametrize("name", PIPELINES)
def test_a_state_that_the_dispatcher_refuses_leaves_the_iterator_where_it_is(cluster, name, job):
    source = Dataset.range(600).distribute("distributed_epoch", cluster.target, job and job + name)
    it = iter(PIPELINES[name](source))
    numbers = (lambda it: [int(x) for x in it]) if name == "directly" else flat
    got = numbers([next(it), next(it)])
    state = text(it.state())
    (entry,) = next(iter(state["jobs"].values()))
    entry["state"]["sources"] = entry["state"]["tasks"] = "nonsense"

    with pytest.raises(errors.PenstockError):
        it.restore(state)

    assert sorted(got + numbers(it)) == list(range(600))


@pytest.mark.slow
def test_the_same_state_may_be_restored_again_and_again(cluster):
    name = "restored again and again"
    it = iter(Dataset.range(300).distribute("distributed_epoch", cluster.target, name))
    before = [int(next(it)) for _ in range(10)]
    state = it.state()

    for _ in range(3):
        it.restore(state)
        for _ in range(20):
            next(it)

    it.restore(state)
    assert sorted(before + [int(x) for x in it]) == list(range(300))


def test_a_state_over_files_goes_on_where_the_files_are_the_same(one_worker, another, tmp_path):
    for i in range(60):
        (tmp_path / f"part-{i:02}").touch()
    build = lambda target: (
        Dataset.list_files(f"{tmp_path}/part-*").repeat(2).distribute("distributed_epoch", target)
    )
    it = iter(build(one_worker.target))
    seen = [next(it) for _ in range(75)]
    state = text(it.state())
    it.close()

    with another(workers=2) as other:
        seen += list(build(other.target).iterator(state))
        (tmp_path / "part-60").touch()
        with pytest.raises(errors.StateError, match="60 files then, 61 now: from .*part-60"):
            list(build(other.target).iterator(state))

    assert Counter(seen) == {str(tmp_path / f"part-{i:02}"): 2 for i in range(60)}

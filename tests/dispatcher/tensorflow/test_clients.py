"""What TensorFlow's clients know by numbers."""

from dataclasses import replace

import pytest

from penstock.errors import JobMismatch, Unavailable, UnknownIteration
from penstock.protocol.tensorflow import LANES, JobRequest, ProcessingMode
from penstock_dispatcher.tensorflow.clients import (
    COLOCATED,
    WORKERS,
    TensorFlowClients,
)
from penstock_dispatcher.tensorflow.in_step import CountedRound

FIRST, LEASE = 1000, 30.0
WORKER, OTHER = ("w:1", 11), ("w:2", 22)
ASKED = JobRequest("train", ProcessingMode(1), "job", None, cached=False, target_workers=1)


class Known:
    """Clients, what was kept of them, and which passes are over."""

    def __init__(self, facts=()):
        self.kept, self.over = list(facts), set()
        self.clients = TensorFlowClients(facts, FIRST, self.kept.append, LEASE)

    def heartbeat(self, client, *workers, now=0.0):
        def finished(job, repetition):
            return (job.name, repetition) in self.over

        return self.clients.tasks(client, workers or (WORKER, OTHER), finished, now)

    def enter(self, asked=ASKED, repetition=1, now=0.0):
        return self.clients.enter(self.clients.job(asked, "alone"), repetition, now)


def read(reply):
    return [task for task in reply.tasks if COLOCATED not in task.worker_tags]


def test_a_job_is_found_by_its_name_and_one_without_is_made_anew():
    known = Known()

    first, again = (known.clients.job(ASKED, "x") for _ in "12")
    anonymous = [known.clients.job(replace(ASKED, job_name=None), name) for name in "ab"]

    assert first == again
    assert len({first, *anonymous}) == 3


def test_the_name_that_from_dataset_id_makes_is_taken_apart():
    known = Known()
    prefixed = replace(ASKED, job_name="dataset_id=/train/job")

    assert known.clients.job(prefixed, "x") == known.clients.job(ASKED, "x")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"processing_mode": ProcessingMode(0)}, "its sharding_policy is 1, and 0 was asked for"),
        ({"num_consumers": 2}, "its num_consumers is 0, and 2 was asked for"),
        ({"cached": True}, "its cached is False"),
    ],
)
def test_a_job_that_is_read_in_another_way_is_refused(change, said):
    known = Known()
    known.clients.job(ASKED, "x")

    with pytest.raises(JobMismatch, match=said):
        known.clients.job(replace(ASKED, **change), "x")


def test_each_worker_is_a_task_of_its_own_and_all_clients_of_a_pass_share_them():
    known = Known()
    one, two, later = known.enter(), known.enter(), known.enter(repetition=2)

    first, second, third = (read(known.heartbeat(client)) for client in (one, two, later))

    assert [task.worker_address for task in first] == ["w:1", "w:2"]
    assert [task.transfer_servers[0].protocol for task in first] == ["grpc", "grpc"]
    assert first == second
    assert not {task.task_id for task in first} & {task.task_id for task in third}


def test_a_worker_that_is_back_has_its_task_again_and_a_new_one_gets_another():
    known = Known()
    client = known.enter()
    before = read(known.heartbeat(client, WORKER))

    assert read(known.heartbeat(client, OTHER))[0].task_id != before[0].task_id
    again = read(known.heartbeat(client, WORKER))
    assert again == before


def test_of_one_worker_a_client_reads_two_tasks_and_of_several_one_each():
    known = Known()
    client = known.enter()

    first, second = read(known.heartbeat(client, WORKER))
    among, _ = read(known.heartbeat(client, WORKER, OTHER))

    assert first.worker_address == second.worker_address
    assert (first.task_id % LANES, second.task_id) == (0, first.task_id + 1)
    assert among == first


def test_a_task_that_nobody_reads_lets_clients_end_at_once():
    known = Known()
    (task, other, decoy) = known.heartbeat(known.enter()).tasks

    assert decoy.worker_tags == (COLOCATED,)
    assert decoy.task_id % WORKERS == WORKERS - 1
    assert {task.task_id, other.task_id}.isdisjoint({decoy.task_id})


@pytest.mark.parametrize("change", [{"target_workers": 2}, {"num_consumers": 2}])
def test_clients_that_would_read_it_do_not_get_it(change):
    known = Known()

    tasks = known.heartbeat(known.enter(replace(ASKED, **change))).tasks

    assert all(task.worker_tags == () for task in tasks)


def test_consumers_read_from_one_worker_and_keep_its_task_when_it_is_gone():
    known = Known()
    client = known.enter(replace(ASKED, num_consumers=2))

    chosen = read(known.heartbeat(client, OTHER))
    later = read(known.heartbeat(client, WORKER, OTHER))
    (without,) = read(known.heartbeat(client, WORKER))

    assert [task.worker_address for task in chosen] == ["w:2"]
    assert later == chosen
    assert (without.task_id, without.worker_address) == (chosen[0].task_id, "w:2")


class Consumers(Known):
    """Two consumers that read a pass in rounds, from w:2 at first."""

    def __init__(self, facts=()):
        super().__init__(facts)
        if not facts:
            self.client = self.enter(replace(ASKED, num_consumers=2))
            self.task = self.listed(OTHER)

    def listed(self, *workers):
        (task,) = self.heartbeat(self.client, *workers).tasks
        return task

    def count(self, consumer, asked, is_round):
        self.clients.count(self.task.task_id, CountedRound(consumer, asked, is_round))

    def start(self, task, consumer, asked):
        return self.clients.found(task.task_id, consumer, asked).start_round

    def remove(self, consumer, asked, *live):
        return self.clients.remove(self.task.task_id, consumer, asked, live)


def test_a_task_whose_worker_lives_is_not_given_up():
    known = Consumers()

    assert not known.remove(0, 0, "w:2", "w:1")


def test_a_new_task_is_there_when_all_consumers_have_given_the_old_one_up():
    known = Consumers()
    known.count(0, 0, 0)
    known.count(1, 0, 0)

    assert known.remove(0, 41, "w:1")
    half_way = known.listed(WORKER)
    assert known.remove(1, 40, "w:1")
    after = known.listed(WORKER)

    assert half_way.task_id == known.task.task_id
    assert after.task_id != known.task.task_id
    assert after.worker_address == "w:1"
    # Whatever they count there, each goes on with the round that it asked for in vain.
    assert known.start(after, 0, 57) == 41
    assert known.start(after, 1, 43) == 40


def test_once_one_consumer_gave_a_task_up_all_do_though_its_worker_be_back():
    known = Consumers()
    assert known.remove(0, 3, "w:1")

    with pytest.raises(Unavailable, match="runs on another worker"):
        known.start(known.task, 1, 3)
    assert not known.clients.found(known.task.task_id).wanted
    assert known.remove(1, 3, "w:1", "w:2")
    assert known.remove(0, 3, "w:1", "w:2")


def test_a_consumer_is_told_its_round_by_how_its_client_counted_in_each_task():
    known = Consumers()
    known.count(0, 0, 5)
    known.count(1, 0, 5)
    assert known.start(known.task, 0, 7) == 12
    known.remove(0, 7)
    known.remove(1, 8)

    known.task = known.listed(WORKER, OTHER)
    known.count(0, 30, 12)
    assert known.start(known.task, 0, 33) == 15
    # The other one was told nothing by this task yet, and is lost with it again.
    known.remove(0, 33)
    known.remove(1, 99)
    known.task = known.listed(WORKER)

    assert [known.start(known.task, who, 200) for who in (0, 1)] == [15, 13]


def test_another_client_in_the_place_of_a_consumer_begins_where_the_others_are():
    known = Consumers()
    assert known.start(known.task, 0, 0) is None
    known.count(0, 9, 9)

    assert known.start(known.task, 0, 0) is None


def test_what_consumers_count_is_known_after_a_restart():
    before = Consumers()
    before.count(0, 0, 0)
    before.remove(0, 6)
    before.remove(1, 6)
    before.task = before.listed(WORKER)
    before.count(0, 8, 6)
    before.remove(0, 9)

    for facts in (before.kept, before.clients.facts()):
        after = Consumers(facts)
        after.client = before.client
        assert after.listed(WORKER) == before.listed(WORKER)
        after.task = after.listed(WORKER)
        assert after.remove(1, 20, "w:1")
        after.task = after.listed(WORKER)
        assert after.start(after.task, 0, 50) == 7
        assert after.start(after.task, 1, 50) is None


def test_a_pass_ends_when_all_of_it_was_read_and_stays_over():
    known = Known()
    client = known.enter()
    assert not known.heartbeat(client).finished

    known.over.add(("job", 1))
    assert known.heartbeat(client).finished
    known.over.clear()
    assert known.heartbeat(client).finished


def test_a_worker_is_told_what_its_task_reads_and_whether_somebody_does():
    known = Known()
    client = known.enter(repetition=3)
    (task, *_) = known.heartbeat(client).tasks

    found = known.clients.found(task.task_id)
    assert (found.dataset_id, found.job_name, found.repetition) == ("train", "job", 3)
    assert (found.sharding_policy, found.num_consumers, found.wanted) == (1, 0, True)

    known.clients.release(client)
    assert not known.clients.found(task.task_id).wanted


def test_numbers_that_nobody_gave_are_refused():
    known = Known()

    for ask in (
        lambda: known.clients.enter(5, 1, 0.0),
        lambda: known.heartbeat(5),
        lambda: known.clients.found(5),
        lambda: known.clients.remove(5, 0, 0, []),
        lambda: known.clients.count(5, CountedRound(0, 0, 0)),
    ):
        with pytest.raises(UnknownIteration, match="not known here"):
            ask()
    known.clients.release(5)


def test_a_client_that_is_silent_for_its_lease_is_gone():
    known = Known()
    silent, alive = known.enter(), known.enter()
    for now in range(0, int(LEASE) + 1, 10):
        known.heartbeat(alive, now=now)
        known.clients.forget_silent(now)
        assert read(known.heartbeat(silent, now=0.0))

    known.clients.forget_silent(LEASE + 1)

    with pytest.raises(UnknownIteration):
        known.heartbeat(silent)
    assert read(known.heartbeat(alive))


def test_time_in_which_nobody_looked_takes_half_a_lease_at_most():
    known = Known()
    client = known.enter()
    known.clients.forget_silent(0.0)

    known.clients.forget_silent(10 * LEASE)  # the dispatcher stood still, and heartbeats with it
    assert known.clients.found(read(known.heartbeat(client, now=10 * LEASE))[0].task_id).wanted
    known.clients.forget_silent(10.4 * LEASE)
    known.clients.forget_silent(10.8 * LEASE)
    known.clients.forget_silent(11.2 * LEASE)

    with pytest.raises(UnknownIteration):
        known.heartbeat(client)


def test_a_restart_goes_on_with_the_same_numbers_and_uses_none_twice():
    before = Known()
    client = before.enter()
    tasks = before.heartbeat(client).tasks

    after = Known(before.kept)

    assert after.heartbeat(client).tasks == tasks
    assert after.clients.found(tasks[0].task_id).job_name == "job"
    assert after.enter() > client


def test_what_nobody_reads_any_more_is_not_kept():
    before = Known()
    gone, there = before.enter(), before.enter(repetition=2)
    before.heartbeat(there)
    before.clients.release(gone)

    facts = before.clients.facts()
    after = Known(facts)

    assert len(facts) < len(before.kept)
    assert read(after.heartbeat(there)) == read(before.heartbeat(there))
    with pytest.raises(UnknownIteration):
        after.heartbeat(gone)


def test_a_client_known_from_before_a_restart_is_given_time():
    before = Known()
    client = before.enter()
    after = Known(before.kept)

    after.clients.forget_silent(10 * LEASE)
    assert read(after.heartbeat(client, now=10 * LEASE))

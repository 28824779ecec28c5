"""What TensorFlow's clients know by numbers."""

from dataclasses import replace

import pytest

from penstock.errors import JobMismatch, UnknownIteration
from penstock.protocol.tensorflow import JobRequest, ProcessingMode
from penstock_dispatcher.tensorflow.clients import (
    COLOCATED,
    SILENT,
    WORKERS,
    TensorFlowClients,
)

FIRST = 1000
WORKER, OTHER = ("w:1", 11), ("w:2", 22)
ASKED = JobRequest("train", ProcessingMode(1), "job", None, cached=False, target_workers=1)


class Known:
    """Clients, what was kept of them, and which passes are over."""

    def __init__(self, facts=()):
        self.kept, self.over = list(facts), set()
        self.clients = TensorFlowClients(facts, FIRST, self.kept.append)

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


def test_consumers_read_from_one_worker_that_stays():
    known = Known()
    client = known.enter(replace(ASKED, num_consumers=2))

    chosen = read(known.heartbeat(client, OTHER))
    later = read(known.heartbeat(client, WORKER, OTHER))

    assert [task.worker_address for task in chosen] == ["w:2"]
    assert later == chosen
    assert known.heartbeat(client, WORKER).tasks == ()


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
    ):
        with pytest.raises(UnknownIteration, match="not known here"):
            ask()
    known.clients.release(5)


def test_a_client_that_says_nothing_for_long_is_gone():
    known = Known()
    silent, alive = known.enter(), known.enter()
    known.heartbeat(alive, now=SILENT)

    known.clients.forget_silent(SILENT + 1)

    with pytest.raises(UnknownIteration):
        known.heartbeat(silent)
    assert read(known.heartbeat(alive))


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

    after.clients.forget_silent(10 * SILENT)
    assert read(after.heartbeat(client, now=10 * SILENT))

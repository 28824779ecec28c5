"""What a session reads, of which tasks and in which order, and what it says was acked."""

import os
import platform
import threading
from collections import Counter
from itertools import chain

import numpy as np
import pytest

from penstock import errors
from penstock.analysis.registered import Registered
from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import Codec
from penstock.runtime.event_loop import LoopThread
from penstock.runtime.versions import versions
from tests.reader.session.opened_sessions import far, numbers, session_of, wait_until


@pytest.mark.parametrize(("rank", "known"), [("3", 3), ("", None), ("first", None)])
def test_a_reader_tells_its_host_its_process_and_its_rank(fake, monkeypatch, rank, known):
    monkeypatch.setenv("RANK", rank)
    with fake.FakeMesh(fake.frames(1, 1)) as mesh:
        list(far(mesh))

    (process,) = {heartbeat.process for heartbeat in mesh.dispatcher.heartbeats}
    here = versions()
    assert process == ReaderProcess(platform.node(), os.getpid(), known, here.penstock, here.python)


def test_the_thread_that_brings_elements_takes_what_is_here_and_does_not_wait(fake):
    async def at_hand():
        return list(iter(lambda: elements.at_hand(None), None))

    async def pulled():
        return session_of(elements).pull()

    upstream = fake.frames(20, 5)
    with fake.FakeMesh(upstream) as mesh, iter(far(mesh)) as elements, LoopThread.shared() as loop:
        got = [next(elements)]
        wait_until(lambda: session_of(elements).ready)
        assert not session_of(elements).ready_here, "this is another thread"
        while len(got) < 100:
            got += loop.run(at_hand(), 5)
        assert loop.run(at_hand(), 5) == []
        with pytest.raises(errors.Reentered, match="brings itself"):
            loop.run(pulled(), 5)

        assert numbers(got) == list(range(100))
        assert list(elements) == []


def test_one_task_is_read_in_order(fake):
    with fake.FakeMesh(fake.frames(20, 50)) as mesh:
        got = list(far(mesh))

        assert numbers(got) == list(range(1000))
        assert {type(x) for x in got} == {np.int64}


def test_every_task_is_read_whole_and_in_its_order(fake):
    with fake.FakeMesh(fake.frames(7, 30), fake.frames(5, 10, 1000), []) as mesh:
        got = numbers(far(mesh))

    assert [x for x in got if x < 1000] == list(range(210))
    assert [x for x in got if x >= 1000] == list(range(1000, 1050))


def test_a_dataset_is_registered_once_and_each_pass_is_the_next_repetition(fake):
    with fake.FakeMesh(fake.frames(1, 3)) as mesh:
        dataset = far(mesh, job_name="job")
        for _ in range(3):
            list(dataset)

        assert len(mesh.dispatcher.registered) == 1
        assert [request.repetition for request in mesh.dispatcher.opened] == [1, 2, 3]
        assert {request.job_name for request in mesh.dispatcher.opened} == {"job"}


def test_repeat_behind_distribute_opens_the_next_repetition_each_turn(fake):
    with fake.FakeMesh(fake.frames(2, 3), fresh=True) as mesh:
        got = numbers(far(mesh, job_name="job").repeat(3))

        assert got == list(range(6)) * 3
        assert [request.repetition for request in mesh.dispatcher.opened] == [1, 2, 3]


def test_an_empty_pass_of_a_shared_job_does_not_end_an_endless_repeat(fake):
    with fake.FakeMesh(fake.frames(1, 3)) as mesh:
        acked_by_others = far(mesh, job_name="job")
        assert len(list(acked_by_others)) == 3

        it, ends = iter(acked_by_others.repeat()), []

        def read():
            try:
                ends.append(next(it, "the end"))
            except errors.Closed:
                ends.append("closed")

        reading = threading.Thread(target=read)
        reading.start()
        wait_until(lambda: len(mesh.dispatcher.opened) >= 4)
        it.close()
        reading.join(5)

        assert ends == ["closed"]


def test_a_dispatcher_that_forgot_the_dataset_is_told_it_again(fake):
    with fake.FakeMesh(fake.frames(1, 3), fresh=True) as mesh:
        dataset = far(mesh)
        list(dataset)
        mesh.refuse_next_open(errors.UnknownDataset("who?"))

        assert numbers(dataset) == [0, 1, 2]
        assert len(mesh.dispatcher.registered) == 2


def test_a_dataset_that_is_read_by_an_id_registers_nothing(fake):
    definition = encode(Dataset.range(3).node)
    with fake.FakeMesh(fake.frames(1, 3), fresh=True) as mesh:
        node = Registered("three", definition.without_code, None)
        dataset = Dataset(node).distribute("distributed_epoch", mesh.target)
        assert numbers(dataset) == [0, 1, 2]
        mesh.refuse_next_open(errors.UnknownDataset("who?"))

        with pytest.raises(errors.UnknownDataset, match="who"):
            iter(dataset)
        assert numbers(dataset) == [0, 1, 2]

        opened = [(one.parameters, one.repetition) for one in mesh.dispatcher.opened]
        asked = [(it.dataset_id, it.dataset, number) for it, number in opened]
        assert asked == [("three", definition.fingerprint, number) for number in (1, 2)]
        assert not mesh.dispatcher.registered


def test_a_refusal_at_open_reaches_the_caller_and_the_pass_does_not_count(fake):
    with fake.FakeMesh(fake.frames(1, 3)) as mesh:
        dataset = far(mesh, job_name="job")
        mesh.refuse_next_open(errors.JobMismatch("job is another one"))

        with pytest.raises(errors.JobMismatch, match="another one"):
            iter(dataset)
        list(dataset)

        assert [request.repetition for request in mesh.dispatcher.opened] == [1]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("writable", [False, True])
def test_arrays_are_writable_when_asked_for_however_they_were_stored(fake, codec, writable):
    arrays = [np.full((4, 256), i, np.float32) for i in range(6)]
    with fake.FakeMesh([arrays[:3], arrays[3:]], codec=codec) as mesh:
        got = list(far(mesh, writable=writable))

    assert all((a == b).all() for a, b in zip(got, arrays, strict=True))
    assert {a.flags.writeable for a in got} == {writable}


@pytest.mark.parametrize("size", [1, 3, 7])
def test_operators_behind_distribute_go_on_here(fake, size):
    with fake.FakeMesh(fake.frames(4, 25)) as mesh:
        got = list(far(mesh).map(lambda x: x * 2).batch(size))

    assert np.concatenate(got).tolist() == [2 * i for i in range(100)]


def test_a_shuffle_behind_distribute_gives_everything(fake):
    with fake.FakeMesh(fake.frames(10, 25)) as mesh:
        got = numbers(far(mesh).shuffle(40).prefetch(3).take(300))

    assert sorted(got) == list(range(250))
    assert got != sorted(got)


async def test_async_for_reads_too(fake):
    with fake.FakeMesh(fake.frames(4, 25)) as mesh:
        got = [int(x) async for x in iter(far(mesh))]

    assert got == list(range(100))


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_limit_in_frames_is_kept(fake, limit):
    with fake.FakeMesh(fake.frames(30, 2), fake.frames(30, 2, 1000)) as mesh:
        it = iter(far(mesh, max_outstanding_requests=limit))
        next(it)
        core = session_of(it).core
        most = 0
        got = 1
        for _ in it:
            got += 1
            most = max(most, sum(len(share.slices) for share in core.tasks.values()))

        assert got == 120
        assert most <= limit


# --- what is acked ---


def test_what_the_loop_was_given_is_acknowledged_and_nothing_else(fake):
    with fake.FakeMesh(fake.frames(1, 100)) as mesh:
        with iter(far(mesh)) as it:
            for expected in (1, 2, 7):
                while session_of(it).core.tasks.get(1) is None or (
                    session_of(it).core.heartbeat(0.0).reports[1].acked.floor < expected
                ):
                    next(it)
                wait_until(lambda: mesh.worker.sources[1].acked == RangeSet.of((0, expected)))
            mesh.do(mesh.dispatcher.heartbeats.clear)
        wait_until(lambda: any(heartbeat.leaving for heartbeat in mesh.dispatcher.heartbeats))

        last = mesh.dispatcher.heartbeats[-1]
        assert last.reports[1].acked == AckedSet(7)


def test_what_an_operator_behind_asked_for_is_acked(fake):
    with fake.FakeMesh(fake.frames(1, 100)) as mesh:
        with iter(far(mesh).batch(5)) as it:
            next(it)
            wait_until(lambda: mesh.worker.sources[1].acked == RangeSet.of((0, 5)))


@pytest.mark.parametrize("count", [2, 3, 10])
def test_two_loops_in_one_thread_share_a_frame_that_holds_the_whole_dataset(fake, count):
    with fake.FakeMesh(fake.frames(1, count)) as mesh:
        its = [iter(far(mesh, job_name="job")) for _ in range(2)]
        got = [[], []]
        over = [False, False]
        while not all(over):
            for i, it in enumerate(its):
                element = None if over[i] else next(it, None)
                over[i] = element is None
                if element is not None:
                    got[i].append(int(element))

    assert sorted(chain(*got)) == list(range(count))


def test_two_loops_in_lockstep_share_a_long_tail(fake):
    with fake.FakeMesh(fake.frames(10, 40)) as mesh:
        its = [iter(far(mesh, job_name="job").batch(1)) for _ in range(2)]
        got = []
        while its:
            for it in list(its):
                batch = next(it, None)
                if batch is None:
                    its.remove(it)
                else:
                    got.append(int(batch[0]))

    assert sorted(got) == list(range(400))


def test_many_loops_in_threads_take_each_element_once(fake):
    with fake.FakeMesh(fake.frames(60, 20), fake.frames(60, 20, 5000)) as mesh:
        dataset = [far(mesh, job_name="job") for _ in range(4)]
        got = []
        threads = [threading.Thread(target=lambda d=d: got.extend(numbers(d))) for d in dataset]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    assert Counter(got) == Counter([*range(1200), *range(5000, 6200)])


# --- frames that are not what their header says ---


@pytest.mark.parametrize("behind", ["nothing", "take"])
def test_a_header_that_counts_more_than_its_payload_holds_is_an_error_and_no_end(
    fake, monkeypatch, behind
):
    def short(self, elements):
        return packed(self, elements[:5])

    packed = fake.Worker._packed
    monkeypatch.setattr(fake.Worker, "_packed", short)
    with fake.FakeMesh(fake.frames(20, 50)) as mesh:
        dataset = far(mesh) if behind == "nothing" else far(mesh).take(1000)
        with dataset.iterator() as it:
            for _ in range(2):  # and again, whenever it is asked
                with pytest.raises(errors.VersionMismatch, match="holds 5 elements"):
                    next(it)

"""What an attempt has cost."""

from penstock_worker.core.counters import AttemptCounters, WorkerCounters


def test_frames_are_counted_with_their_elements_and_bytes():
    counters = WorkerCounters()
    counters.add_made(3, 100)
    counters.add_made(2, 50)
    counters.add_sent(2, 50)

    assert (counters.frames_made, counters.elements_made, counters.bytes_made) == (2, 5, 150)
    assert (counters.frames_sent, counters.elements_sent, counters.bytes_sent) == (1, 2, 50)


def test_what_was_there_before_counts_as_replayed():
    counters = AttemptCounters(10)

    counters.advance(15, head=12)
    counters.advance(14, head=12)  # no news

    work = counters.counts()
    assert (counters.produced, counters.replayed, counters.head) == (5, 2, 15)
    assert work.produced == 5


def test_a_runner_that_did_not_begin_replayed_nothing():
    counters = AttemptCounters(0)
    counters.on_started(5, replays=3)
    counters.on_started(5, replays=4)
    counters.on_not_started()

    assert counters.to_replay == 3


def test_a_runner_that_began_and_had_no_room_to_go_on_did_replay():
    counters = AttemptCounters(0)
    counters.on_started(5, replays=3)
    counters.advance(6, head=8)
    counters.on_not_started()

    assert counters.to_replay == 3


def test_replays_of_a_deterministic_pipeline_are_not_counted():
    exact, nondeterministic = AttemptCounters(0), AttemptCounters(0, exact=False)
    for counters in (exact, nondeterministic):
        counters.on_started(0, replays=3)

    assert (exact.counts().nondeterministic, nondeterministic.counts().nondeterministic) == (0, 3)

"""What an attempt has cost."""

from penstock_worker.core.counters import AttemptCounters, WorkerCounters


def test_frames_are_counted_with_their_elements_and_bytes():
    counters = WorkerCounters()
    counters.made(3, 100)
    counters.made(2, 50)
    counters.sent(2, 50)

    assert (counters.frames_made, counters.elements_made, counters.bytes_made) == (2, 5, 150)
    assert (counters.frames_sent, counters.elements_sent, counters.bytes_sent) == (1, 2, 50)


def test_what_was_there_before_counts_as_made_again():
    counters = AttemptCounters(10)

    counters.reach(15, head=12)
    counters.reach(14, head=12)  # no news

    work = counters.work()
    assert (counters.made, counters.remade, counters.at) == (5, 2, 15)
    assert work.made == 5


def test_a_runner_that_did_not_begin_made_nothing_again():
    counters = AttemptCounters(0)
    counters.begin(5, again=3)
    counters.begin(5, again=4)
    counters.not_begun()

    assert counters.again == 3


def test_what_is_made_again_of_an_exact_pipeline_is_not_in_question():
    exact, inexact = AttemptCounters(0), AttemptCounters(0, exact=False)
    for counters in (exact, inexact):
        counters.begin(0, again=3)

    assert (exact.work().inexact, inexact.work().inexact) == (0, 3)

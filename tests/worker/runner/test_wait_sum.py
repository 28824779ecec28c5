"""How long a run has waited, up to now."""

from penstock_worker.runner.wait_sum import WaitSum


def test_a_wait_that_goes_on_counts_up_to_now():
    now = [100.0]
    waits = WaitSum(lambda: now[0])

    assert waits.seconds == 0.0
    waits.begin()
    now[0] += 3
    assert waits.seconds == 3.0
    waits.end()
    now[0] += 10
    assert waits.seconds == 3.0
    waits.begin()
    now[0] += 1
    assert waits.seconds == 4.0

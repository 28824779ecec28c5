import itertools
import time

from penstock.runtime import clock


def test_the_clock_never_goes_back_and_counts_seconds():
    times = [clock.now() for _ in range(100)]
    assert all(a <= b for a, b in itertools.pairwise(times))

    here, began = clock.now(), time.monotonic()  # in this order: the loop lasts longer than both
    while time.monotonic() < began + 0.02:
        pass
    assert 0.02 <= clock.now() - here < 10

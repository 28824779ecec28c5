from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.window import FIRST, LEAST, MOST, RequestWindow


def test_no_more_run_at_once_than_the_limit():
    window = RequestWindow()

    assert [window.start() for _ in range(int(FIRST) + 1)] == [True] * int(FIRST) + [False]
    window.end()
    assert window.start()


def test_as_many_successes_as_run_at_once_allow_about_one_more():
    window = RequestWindow()

    for _ in range(int(FIRST)):
        window.succeeded()

    assert FIRST + 0.9 < window.limit <= FIRST + 1


def test_refusals_of_one_burst_halve_the_limit_once():
    window = RequestWindow()

    for _ in range(5):
        window.slow_down(sent=1.0, now=2.0)
    assert window.limit == FIRST / 2

    window.slow_down(sent=2.5, now=3.0)
    assert window.limit == FIRST / 4


@given(st.lists(st.sampled_from(["start", "end", "success", "slow"]), max_size=500))
def test_the_limit_stays_in_its_bounds_and_at_least_one_request_can_run(events):
    window, now = RequestWindow(), 0.0
    for event in events:
        now += 1.0
        match event:
            case "start":
                before = window.running
                assert window.start() == (before < int(window.limit))
            case "end" if window.running:
                window.end()
            case "success":
                window.succeeded()
            case "slow":
                window.slow_down(now - 0.5, now)
        assert LEAST <= window.limit <= MOST
    while window.running:
        window.end()
    assert window.start()

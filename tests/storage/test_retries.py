from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.retries import DEADLINE, PATIENCE, RETRIES, GivenUp, ReadTrouble, RetryBudget

AGAIN = [ReadTrouble.SLOW_DOWN, ReadTrouble.BROKEN, ReadTrouble.MISSING]


def test_waits_double_and_are_spread_by_chance():
    budget = RetryBudget()

    waits = [budget.wait(0, ReadTrouble.BROKEN, 0.0, 1.0) for _ in range(4)]

    assert waits == [0.1, 0.2, 0.4, 0.8]
    assert RetryBudget().wait(0, ReadTrouble.BROKEN, 0.0, 0.0) == 0.05


def test_a_failure_that_would_be_the_same_the_next_time_is_final():
    for trouble in (
        ReadTrouble.DENIED,
        ReadTrouble.CHANGED,
        ReadTrouble.UNRANGED,
        ReadTrouble.REFUSED,
    ):
        assert RetryBudget().wait(0, trouble, 0.0, 0.5) == GivenUp()


def test_a_file_that_was_listed_may_appear_late_and_another_may_not():
    assert RetryBudget(listed=True).wait(0, ReadTrouble.MISSING, 0.0, 1.0) == 0.1
    assert RetryBudget(listed=False).wait(0, ReadTrouble.MISSING, 0.0, 0.5) == GivenUp()


def test_a_range_that_was_read_begins_anew():
    budget = RetryBudget()
    budget.wait(0, ReadTrouble.BROKEN, 0.0, 1.0)
    budget.succeeded(0)

    assert budget.wait(0, ReadTrouble.BROKEN, 1000.0, 1.0) == 0.1


def test_a_failure_that_is_final_names_the_bound_that_it_reached():
    used, slow = RetryBudget(left=0), RetryBudget(patience=5.0)
    slow.wait(0, ReadTrouble.BROKEN, 0.0, 1.0)

    assert used.wait(0, ReadTrouble.BROKEN, 0.0, 1.0) == GivenUp(
        "all retries of this part are used"
    )
    assert slow.wait(0, ReadTrouble.BROKEN, 5.0, 1.0) == GivenUp("this range has failed for 5 s")


def test_slow_failures_of_many_ranges_reach_the_deadline_of_their_part():
    budget, tries = RetryBudget(deadline=100.0), 0
    while not isinstance(
        end := budget.wait(tries, ReadTrouble.BROKEN, 30.0 * tries, 1.0, spent=30.0), GivenUp
    ):
        tries += 1

    assert tries == 3
    assert end == GivenUp("failed requests of this part have taken 100 s")


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(AGAIN),
            st.floats(0, 30),
            st.floats(0, 1),
            st.floats(0, 90),
        ),
        max_size=200,
    )
)
def test_ranges_of_a_part_share_a_budget_and_none_is_tried_for_longer_than_the_patience(failures):
    budget, now, retries, lost, first = RetryBudget(), 0.0, 0, 0.0, {}
    for start, trouble, passed, chance, spent in failures:
        now += passed
        lost += spent
        since = first.setdefault(start, now)
        wait = budget.wait(start, trouble, now, chance, spent)
        if not isinstance(wait, GivenUp):
            retries += 1
            lost += wait
            assert 0 < wait <= 10
            assert now + wait - since <= PATIENCE
            assert lost <= DEADLINE + 1e-6
    assert retries <= RETRIES

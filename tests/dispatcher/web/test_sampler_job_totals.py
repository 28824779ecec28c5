"""Counts by job: they never fall, and there are never too many jobs."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock_dispatcher.web import sampler
from penstock_dispatcher.web.sampler import OTHERS, UNNAMED, JobTotals


def acked(totals):
    return {label: counts["acked"] for label, counts in totals.by_job().items()}


def test_what_a_forgotten_pass_had_is_kept():
    totals = JobTotals()
    totals.note(1, "a", Counter(acked=5))
    totals.note(2, "a", Counter(acked=2))
    totals.keep([2])
    totals.note(2, "a", Counter(acked=3))

    assert acked(totals) == {"a": 8}


def test_jobs_beyond_the_first_are_counted_together(monkeypatch):
    monkeypatch.setattr(sampler, "MOST_JOBS", 2)
    totals = JobTotals()
    labels = [totals.label(job, private=False) for job in ("a", "b", "c", "a", "d")]

    assert labels == ["a", "b", OTHERS, "a", OTHERS]
    assert totals.label("random", private=True) == UNNAMED


STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.booleans()), max_size=40)


@given(STEPS)
def test_no_count_ever_falls(steps):
    totals, live, before = JobTotals(), set(), {}
    for iteration, count, forget in steps:
        if forget:
            live.discard(iteration)
            totals.keep(live)
        else:
            live.add(iteration)
            totals.note(iteration, f"job {iteration % 2}", Counter(acked=count))
        now = acked(totals)
        assert all(now[label] >= count for label, count in before.items())
        before = now

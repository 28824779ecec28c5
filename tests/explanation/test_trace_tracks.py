"""Tracks of a trace: nothing on one of them overlaps."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.explanation.trace import Tracks, lanes

MOMENTS = st.integers(0, 20)
INTERVAL = st.tuples(MOMENTS, MOMENTS).map(lambda both: (min(both), max(both)))
INTERVALS = st.lists(INTERVAL, max_size=8)


@given(INTERVALS)
def test_intervals_of_one_lane_do_not_overlap(intervals):
    found = lanes(dict(enumerate(intervals)))

    for lane in set(found.values()):
        mine = sorted(intervals[key] for key in found if found[key] == lane)
        assert all(before[1] <= after[0] for before, after in pairwise(mine))


@given(INTERVALS)
def test_there_are_no_more_lanes_than_there_are_intervals_at_one_time(intervals):
    most = max((sum(a <= at <= b for a, b in intervals) for at, _ in intervals), default=0)

    assert len(set(lanes(dict(enumerate(intervals))).values())) <= most


def test_a_track_keeps_its_numbers():
    tracks = Tracks()
    one, other = tracks.of("worker w:1", "runner 1"), tracks.of("worker w:1", "worker")
    far = tracks.of("reader 3", "loop")

    assert tracks.of("worker w:1", "runner 1") is one
    assert one.pid == other.pid != far.pid
    assert len({one.tid, other.tid, far.tid}) == 3
    assert tracks.named[far] == ("reader 3", "loop")

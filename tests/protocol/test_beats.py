from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.beats import next_beat

times = st.floats(0.0, 1e7)
intervals = st.floats(0.05, 60.0)


@given(st.text(st.characters(codec="utf-8")), times, intervals)
def test_the_next_heartbeat_is_at_most_one_interval_and_a_little_away(name, now, interval):
    away = (next_beat(name, now, interval) - now) / interval

    assert 1 / 32 - 1e-6 <= away <= 33 / 32 + 1e-6


@given(st.text(st.characters(codec="utf-8")), times, intervals, st.floats(-0.03, 0.5))
def test_a_peer_whose_timer_is_early_or_late_keeps_its_phase(name, now, interval, jitter):
    due = next_beat(name, now, interval)

    after = next_beat(name, due + jitter * interval, interval)

    assert abs(after - due - interval) <= 1e-6 * interval


def test_peers_that_reconnect_together_are_spread_evenly_over_16_phases():
    due = [next_beat(f"10.0.{n // 250}.{n % 250}:7000", 1234.5, 1.0) for n in range(1000)]

    in_each = Counter(round(at % 1.0, 6) for at in due)

    assert len(in_each) == 16
    assert max(in_each.values()) <= 2 * 1000 / 16

"""When a peer sends its next regular heartbeat: at its own phase of the interval.

If each peer waited an interval after each heartbeat, all peers that reconnect after a restart of
the dispatcher would send their heartbeats together from then on, and the last of them would wait
for the answers to all others. A peer's phase follows from its name, so a peer keeps it through
reconnections, and the phases of many peers are spread over the interval.

There are 16 phases and not one for each peer: waking up for one heartbeat costs the dispatcher
about as much as the heartbeat, so peers on one clock send theirs in 16 small groups. Peers on
hosts with different clocks are spread further.
"""

from __future__ import annotations

import math
from zlib import crc32

_PHASES = 16
"""How many phases there are. With 1,000 workers and 500 readers, about 94 peers have the same."""

_JUST_SENT = 1 / 32
"""Share of an interval within which a second heartbeat tells nothing new; timers that fire early
are within it, too."""


def next_beat(name: str, now: float, interval: float) -> float:
    """Return when the peer *name*, which sends a heartbeat at *now*, sends the next regular one.

    That is the first moment at the peer's phase that is more than a thirty-second of *interval*
    away, so it is at most 33/32 of it away.

    >>> first = next_beat("host:7000", 100.0, 1.0)
    >>> round(next_beat("host:7000", first, 1.0) - first, 6)
    1.0
    """
    phase = crc32(name.encode()) * _PHASES // 2**32 / _PHASES
    return (math.floor(now / interval - phase + _JUST_SENT) + 1 + phase) * interval

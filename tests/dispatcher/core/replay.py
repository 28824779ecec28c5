"""Laws of facts for each kind of job: they can be written, and replayed from any point."""

import msgspec

from penstock_dispatcher.core.state import DispatcherState


def assert_replay_is_equal(world):
    """Half of the facts, written as a state and read again, and then the others: the same state."""
    half = len(world.facts) // 2
    written = DispatcherState()
    for fact in world.facts[:half]:
        written.apply(fact)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(written), type=DispatcherState)
    for fact in world.facts[half:]:
        again.apply(fact)
    assert again == world.core.state


def written_and_read(worlds):
    """Write and read all facts of *worlds*; return the names of their classes."""
    seen = set()
    for world in worlds:
        for fact in world.facts:
            assert msgspec.msgpack.decode(msgspec.msgpack.encode(fact), type=type(fact)) == fact
            seen.add(type(fact).__name__)
    return seen

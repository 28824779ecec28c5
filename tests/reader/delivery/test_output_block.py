"""Elements that went to others while operators here had them are not handed out here."""

import random
import sys
import threading
import time
import weakref
from collections import Counter

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.unacked import unacked_from
from penstock.graph.run import END
from penstock.protocol.ranges import NO_RANGES, RangeSet
from penstock.reader.delivery.output_block import AGAIN, OutputBlock, within_lease
from penstock.runtime import clock

HERE = "127.0.0.1:5000"
OPERATORS = {
    "map": lambda ds, rng: ds.map(flat),
    "parallel map": lambda ds, rng: ds.map(flat, 3),
    "overtaking map": lambda ds, rng: ds.map(flat, 3, deterministic=False),
    "batch": lambda ds, rng: (
        ds.map(flat).padded_batch(rng.randint(1, 4), (None,), padding_values=5000).map(flat)
    ),
    "shuffle": lambda ds, rng: ds.shuffle(rng.randint(1, 30)),
    "prefetch": lambda ds, rng: ds.prefetch(rng.randint(1, 8)),
    "enumerate": lambda ds, rng: ds.enumerate(5000).map(lambda i, x: flat(i, x)),
    "concatenate": lambda ds, rng: Dataset.range(5000, 5003).concatenate(ds),
}


def flat(*parts):
    return np.concatenate([np.ravel(part) for part in parts])


def far():
    return Dataset.range(1).distribute("distributed_epoch", HERE)


def numbers_in(element):
    return [int(x) for x in np.atleast_1d(element) if x < 1000]


def pipeline(rng):
    names = [rng.choice(list(OPERATORS)) for _ in range(rng.randint(0, 4))]
    if names.count("overtaking map") > 1:  # each looks at all that waits in the others
        names = ["overtaking map"]
    ds = far()
    for name in names:
        ds = OPERATORS[name](ds, rng)
    return names, ds


@pytest.mark.quick(13)
@pytest.mark.parametrize("seed", range(60))
def test_what_is_recalled_between_two_elements_is_not_handed_out(sessions, fake_session, seed):
    rng = random.Random(seed)
    sessions.make = lambda number, restore: fake_session(
        range(80), lambda limit: rng.randint(1, limit)
    )
    names, ds = pipeline(rng)
    consumed, elsewhere = Counter(), Counter()

    with iter(ds) as it:
        for element in it:
            consumed.update(numbers_in(element))
            if rng.random() < 0.2:
                part = rng.random()
                elsewhere.update(map(int, sessions[0].recall(lambda _: rng.random() < part)))

    assert consumed + elsewhere == Counter(range(80)), names
    assert Counter(map(int, sessions[0].acked)) == consumed, names


@pytest.mark.quick(5)
@pytest.mark.parametrize("seed", range(20))
def test_what_is_recalled_at_any_moment_is_handed_out_once(sessions, fake_session, seed):
    rng = random.Random(seed)
    sessions.make = lambda number, restore: fake_session(
        range(400), lambda limit: rng.randint(1, limit)
    )
    names, ds = pipeline(rng)
    consumed, elsewhere, done = Counter(), Counter(), threading.Event()
    other = random.Random(-seed)

    def recall():
        for _ in range(50):  # each holds the loop up
            elsewhere.update(map(int, sessions[0].recall(lambda _: other.random() < 0.1)))
            if done.wait(0.02):
                break

    with iter(ds) as it:
        thread = threading.Thread(target=recall)
        thread.start()
        try:
            for element in it:
                consumed.update(numbers_in(element))
        finally:
            done.set()
            thread.join()

    assert consumed + elsewhere == Counter(range(400)), names


@pytest.mark.quick(9)
@pytest.mark.parametrize("seed", range(30))
def test_what_is_recalled_of_any_pass_is_not_handed_out(sessions, fake_session, seed):
    rng = random.Random(seed)
    sessions.make = lambda number, restore: fake_session(
        range(40 * number - 40, 40 * number), lambda limit: rng.randint(1, limit)
    )
    within = rng.sample(["map", "shuffle", "overtaking map", "prefetch"], rng.randint(0, 1))
    behind = rng.sample(["batch", "shuffle", "prefetch", "parallel map"], rng.randint(1, 3))
    ds = far()
    for name in within:
        ds = OPERATORS[name](ds, rng)
    ds = ds.repeat(3)
    for name in behind:
        ds = OPERATORS[name](ds, rng)
    consumed, elsewhere = Counter(), Counter()

    with iter(ds) as it:
        for element in it:
            consumed.update(numbers_in(element))
            for session in sessions if rng.random() < 0.4 else ():
                part = rng.random()
                elsewhere.update(map(int, session.recall(lambda _, part=part: rng.random() < part)))

    assert consumed + elsewhere == Counter(range(120)), (within, behind)
    acked = Counter(int(x) for session in sessions for x in session.acked)
    assert acked == consumed, (within, behind)


@pytest.fixture
def during_second_pass(sessions, fake_session):
    """Passes of twenty elements; these functions are called in turn as the second one is read."""
    calls = []

    def make(number, restore):
        session = fake_session(range(20 * number - 20, 20 * number), lambda limit: 1)
        if number == 2:
            session.on_pull = lambda _: calls and calls.pop(0)()
        return session

    sessions.make = make
    return calls


def test_an_element_of_two_passes_is_dropped_with_what_was_recalled_of_one(
    sessions, during_second_pass
):
    back = []
    during_second_pass.append(lambda: back.extend(sessions[0].recall()))

    consumed = [x for batch in far().repeat(2).batch(15) for x in batch.tolist()]

    assert back == [15, 16, 17, 18, 19]
    assert sorted(consumed + back) == list(range(40))


def test_what_comes_back_from_others_while_a_later_pass_is_read_is_unacked_and_handed_out(
    sessions, during_second_pass
):
    unacked = []
    during_second_pass[:] = [
        lambda: sessions[0].waiting.extend(map(np.int64, (70, 71, 72))),
        lambda: unacked.extend(sessions[0].pulled[tag] for tag in sessions[0].unacked),
    ]

    consumed = [x for batch in far().repeat(2).batch(18) for x in batch.tolist()]

    assert unacked == [18, 19, 70, 71, 72]
    assert sorted(consumed) == [*range(40), 70, 71, 72]


def test_the_rest_of_an_element_that_is_dropped_comes_again(sessions, fake_session):
    it = iter(far().shuffle(20).batch(4))
    seen = next(it).tolist()
    one = next(iter(sessions[0].unacked))

    [gone] = sessions[0].recall(lambda tag: tag == one)
    seen += [x for batch in it for x in batch.tolist()]

    assert sorted([*seen, int(gone)]) == list(range(20))
    assert len(sessions[0].gone) > 1


def test_elements_that_wait_in_a_block_are_recalled_too(sessions, fake_session):
    it = iter(far().map(lambda x: x))
    while len(sessions[0].pulled) < 12:
        last = next(it)

    back = sessions[0].recall()

    assert back == list(range(last + 1, len(sessions[0].pulled)))
    assert [int(x) for x in it] == list(range(int(last) + 1 + len(back), 20))


def test_nothing_is_handed_out_without_permission(sessions, fake_session):
    it = iter(far().map(lambda x: x))
    while len(sessions[0].pulled) < 4:
        last = next(it)
    waits = []

    def await_lease():
        waits.append(sessions[0].recall())
        sessions[0].lease_until = float("inf")

    sessions[0].await_lease = await_lease
    sessions[0].lease_until = -1.0

    following = next(it)

    assert waits == [list(range(int(last) + 1, int(following)))]


def test_an_interrupted_element_comes_again(sessions, fake_session):
    interrupts = [KeyboardInterrupt]

    def interrupted(x):
        if x == 5 and interrupts:
            raise interrupts.pop()
        return x

    it = iter(far().map(interrupted).batch(2).enumerate())
    seen = [next(it), next(it)]
    with pytest.raises(KeyboardInterrupt):
        next(it)
    seen += list(it)

    assert sorted(x for _, batch in seen for x in batch.tolist()) == list(range(20))
    assert [int(i) for i, _ in seen] == list(range(10))


def test_what_an_interrupt_lost_on_its_way_to_operators_comes_again(sessions, fake_session):
    def interrupt(session):
        if len(session.pulled) == 9:
            session.on_pulled = lambda _: None
            raise KeyboardInterrupt

    def make(number, restore):
        session = fake_session(range(20), lambda limit: 1)
        session.on_pulled = interrupt
        return session

    sessions.make = make
    it = iter(far().batch(4))
    seen = []
    with pytest.raises(KeyboardInterrupt):
        for batch in it:
            seen += batch.tolist()
    seen += [x for batch in it for x in batch.tolist()]

    assert sorted(seen) == list(range(20))
    assert sorted(sessions[0].acked) == list(range(20))


def test_what_comes_back_from_others_at_the_end_is_handed_out(sessions, fake_session):
    def make(number, restore):
        session = fake_session(range(10))
        session.late = [np.int64(77), np.int64(78)]
        return session

    sessions.make = make

    batches = [batch.tolist() for batch in far().batch(4)]

    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [77, 78]]
    assert sessions[0].closed


def test_what_a_take_leaves_is_left_to_others(sessions, fake_session):
    it = iter(far().take(3))

    assert [int(x) for x in it] == [0, 1, 2]

    assert sessions[0].closed
    assert [int(x) for x in sessions[0].acked] == [0, 1, 2]


def test_passes_that_are_handed_out_are_left_one_by_one(sessions, fake_session):
    it = iter(far().repeat(3).shuffle(30).prefetch(2))
    seen = Counter()
    for _ in range(55):
        seen[int(next(it))] += 1

    assert len(sessions) == 3
    assert [session.closed for session in sessions][-1:] == [False]
    seen.update(int(x) for x in it)
    assert seen == Counter(list(range(20)) * 3)
    assert all(session.closed for session in sessions)


def test_several_readers_behind_one_loop_have_each_what_they_owe(sessions, fake_session):
    it = iter(Dataset.zip((far(), far().shuffle(4))).batch(3))

    left, right = next(it)

    assert [int(x) for x in sessions[0].acked] == left.tolist() == [0, 1, 2]
    assert {int(x) for x in sessions[1].acked} == set(right.tolist())
    it.close()


def test_a_failed_element_is_acked(sessions, fake_session):
    def picky(x):
        if x == 3:
            raise ValueError("no")
        return x

    it = iter(far().map(picky).shuffle(5))
    seen = []
    while True:
        try:
            seen.append(int(next(it)))
        except StopIteration:
            break
        except RuntimeError:
            seen.append("failed")

    assert sorted(x for x in seen if x != "failed") == [x for x in range(20) if x != 3]
    assert seen.count("failed") == 1
    assert len(sessions[0].acked) == 20


# --- the block itself ---


class Lease:
    def __init__(self, seconds=60.0):
        self.lease_until = clock.now() + seconds


def block_of(count, *, straight=True):
    """A block of numbers, each of which is one delivery tag of session 0."""
    output = OutputBlock(straight=straight)
    output.put(list(range(count)), lambda back: unacked_from(0, count - back))
    return output


def got(output, count):
    """How many of *count* the loop has."""
    return count - len(output.unacked()[0].missing(count))


def revoke(output, start, stop):
    return output.revoke(0, lambda unacked: unacked()[0].missing(stop) & RangeSet.of((start, stop)))


def test_a_block_knows_what_the_loop_has_and_gives_nothing_that_was_withdrawn():
    output = block_of(4)
    first, rest, size = output.next()
    assert (first, size, got(output, 4)) == (0, 4, 1)
    assert next(rest) == 1
    assert got(output, 4) == 2

    assert revoke(output, 0, 4) == RangeSet.of((2, 4))

    assert list(rest) == []
    assert output.next() is END


@pytest.mark.parametrize("straight", [False, True])
def test_withdrawing_nothing_stops_the_loop_between_two_elements(straight):
    output = block_of(4, straight=straight)
    _, rest, _ = output.next()

    assert revoke(output, 4, 4) == NO_RANGES

    assert list(rest) == []
    assert got(output, 4) == 1
    element, rest, size = output.next()
    assert (element, size, list(rest)) == (1, 3, [2, 3])


def test_of_a_block_in_part_withdrawn_the_rest_is_given():
    output = block_of(6)
    output.next()
    revoke(output, 2, 4)
    given = []
    while (one := output.next()) is not END:
        if isinstance(one, tuple):
            given += [one.element, *one.rest]
        else:
            output.drop(one)

    assert given == [1, 4, 5]


def test_what_comes_behind_a_withdrawn_block_is_given_as_one():
    output = block_of(4)
    output.next()
    revoke(output, 0, 4)

    output.put([4, 5, 6], lambda back: unacked_from(0, 7 - back))

    assert output.next().size == 3


def test_nothing_is_given_while_a_lease_is_over():
    output, lease = block_of(4), Lease(-1.0)

    assert output.next([Lease(), lease]) is AGAIN
    lease.lease_until = clock.now() + 60.0
    assert output.next([Lease(), lease]).element == 0


def test_nothing_of_a_block_is_given_after_the_lease():
    output, lease = block_of(10), Lease()
    rest = within_lease(output.next().rest, lease)
    before = [next(rest), next(rest)]

    lease.lease_until = clock.now()

    assert list(rest) == []
    assert before == [1, 2]
    assert got(output, 10) == 3


def test_each_element_is_given_or_withdrawn_and_never_both():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for turn in range(150):
            output, given, began = block_of(3000), [0], threading.Event()
            block = output.next().rest

            def read(block=block, given=given, began=began):
                rest = within_lease(block, Lease())
                began.set()
                given.extend(rest)

            reading = threading.Thread(target=read)
            reading.start()
            began.wait()
            time.sleep(turn * 1e-6)
            seen = got(output, 3000)
            kept = output.revoke(0, lambda unacked: unacked()[0].missing(3000))
            reading.join()

            assert [*given, *kept] == list(range(3000))
            assert seen <= len(given)
    finally:
        sys.setswitchinterval(before)


def test_the_last_element_of_a_block_is_the_loops_alone():
    class Large:
        pass

    block = OutputBlock()
    block.put([Large()], lambda _back: None)
    given = block.next()
    left = weakref.ref(given.element)
    rest = given.rest
    del given

    assert left() is None
    assert (list(rest), block.left) == ([], 0)

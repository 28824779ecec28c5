"""What readers look at is written again when nobody looks at it and nobody needs it."""

import random
from collections import Counter

from penstock_worker.core.loans import Loan, Loans


def test_a_place_that_is_given_back_before_it_is_freed_is_as_any_other():
    loans = Loans(100, 1000, 500)

    assert loans.lend(1, "a", 0, 10) == Loan(1, False)
    assert loans.give_back(1, [1]) == {}
    assert loans.free("a", [0]) == ((0,), ())


def test_a_place_that_is_freed_is_kept_until_the_last_reader_gave_it_back():
    loans = Loans(100, 1000, 500)
    loans.lend(1, "a", 0, 10), loans.lend(2, "a", 0, 10)

    assert loans.free("a", [0, 64]) == ((64,), (0,))
    assert loans.kept == 10
    assert loans.give_back(1, [1]) == {}
    assert loans.give_back(2, [2]) == {"a": (0,)}
    assert (loans.kept, loans.lent("a")) == (0, {})


def test_what_nobody_has_cannot_be_given_back():
    loans = Loans(100, 1000, 500)
    loans.lend(1, "a", 0, 10)
    loans.free("a", [0])

    assert loans.give_back(2, [1]) == loans.give_back(1, [7]) == {}
    assert loans.give_back(1, [1, 1]) == {"a": (0,)}
    assert loans.give_back(1, [1]) == {}


def test_a_reader_that_is_gone_looks_at_nothing():
    loans = Loans(100, 1000, 500)
    loans.lend(1, "a", 0, 10), loans.lend(1, "b", 0, 10), loans.lend(2, "b", 64, 10)
    assert loans.end_run("a") == (0,)
    assert loans.end_run("b") == (0, 64)

    assert loans.hang_up(1) == {"a": (0,), "b": (0,)}
    assert loans.hang_up(1) == {}
    assert loans.kept == 10


def test_a_run_that_ends_keeps_what_is_looked_at_once():
    loans = Loans(100, 1000, 500)
    loans.lend(1, "a", 0, 10)

    assert loans.end_run("a") == (0,)
    assert loans.end_run("a") == ()
    assert loans.kept == 10


def test_beyond_what_may_be_kept_frames_are_copied_out():
    loans = Loans(15, 1000, 500)
    for place in (0, 64):
        assert not loans.lend(1, "a", place, 10).out
    loans.free("a", [0, 64])

    assert loans.lend(1, "b", 0, 10).out
    loans.give_back(1, [1])
    assert not loans.lend(1, "b", 64, 10).out
    assert (loans.lent_frames, loans.copied_frames) == (3, 1)


def test_what_is_larger_than_the_buffer_or_too_much_of_an_arena_is_copied_out():
    loans = Loans(1000, 100, 50)

    assert loans.lend(1, "a", 0, 51).out
    assert not loans.lend(1, "b", 0, 50).out
    assert not loans.lend(1, "b", 64, 50).out
    assert loans.lend(1, "b", 128, 50).out


def test_no_place_is_free_while_it_is_looked_at_and_each_is_free_once():
    for seed in range(50):
        chance = random.Random(seed)
        loans, out, live, freed = Loans(300, 600, 200), {}, {}, set()
        views, returns = Counter(), Counter()

        def came_free(places):
            for arena, offsets in places.items():
                for offset in offsets:
                    assert views[arena, offset] == 0
                    assert (arena, offset) in freed
                    freed.discard((arena, offset))
                    returns[arena, offset] += 1

        for step in range(300):
            match chance.choice(["lend", "lend", "free", "back", "back", "gone", "end"]):
                case "lend":
                    arena = chance.choice("ab")
                    old = [place for place in live if place[0] == arena and chance.random() < 0.3]
                    place = old[0] if old else (arena, step * 64)
                    live[place] = live.get(place, chance.randrange(1, 250))
                    loan = loans.lend(reader := chance.randrange(3), *place, live[place])
                    out[loan.number] = reader, place
                    views[place] += 1
                case "free" if live:
                    place = chance.choice(list(live))
                    del live[place]
                    free, kept = loans.free(place[0], [place[1]])
                    assert bool(kept) == bool(views[place])
                    assert free + kept == (place[1],)
                    if kept:
                        freed.add(place)
                case "end":
                    arena = chance.choice("ab")
                    kept = loans.end_run(arena)
                    mine = {place for place in live if place[0] == arena}
                    assert {(arena, offset) for offset in kept} == {p for p in mine if views[p]}
                    freed |= {(arena, offset) for offset in kept}
                    live = {place: n for place, n in live.items() if place not in mine}
                case "back" if out:
                    number = chance.choice(list(out))
                    reader, place = out.pop(number)
                    views[place] -= 1
                    came_free(loans.give_back(reader, [number]))
                case "gone":
                    reader = chance.randrange(3)
                    for number in [n for n, (who, _) in out.items() if who == reader]:
                        views[out.pop(number)[1]] -= 1
                    came_free(loans.hang_up(reader))
                case _:
                    pass
        for reader in range(3):
            for number in [n for n, (who, _) in out.items() if who == reader]:
                views[out.pop(number)[1]] -= 1
            came_free(loans.hang_up(reader))
        assert not freed
        assert loans.kept == 0

"""The turns of a mixture, in closed form, are those of a walk from the first turn on."""

from dataclasses import replace
from fractions import Fraction
from itertools import cycle, islice

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.mixture import WeightStage
from penstock.protocol.turn_pattern import pattern_of
from penstock.protocol.turns import Turns

NAMES = ("web", "code", "wiki")
FAR = 400
"""How many turns tests look at."""


def parts(count):
    return st.tuples(*[st.integers(0, 7)] * count).filter(any)


@st.composite
def mixtures(draw):
    count = draw(st.integers(1, 4))
    begins = sorted(draw(st.sets(st.integers(1, 60), max_size=3)))
    stages = tuple(WeightStage(begin, draw(parts(count))) for begin in [0, *begins])
    sizes = tuple(draw(st.none() | st.integers(1, 30)) for _ in range(count))
    stop = draw(st.sampled_from(["repeat", "first", "all", "drop"]))
    epochs = None
    if stop == "repeat":
        epochs = tuple(draw(st.none() | st.integers(1, 3)) for _ in range(count))
    return stages, sizes, stop, epochs, draw(st.integers(0, 2))


def walked(stages, sizes, stop, epochs, seed):
    """Yield the source of each turn, one turn after another, with nothing in closed form."""
    count = len(sizes)
    most = [1] * count if stop == "drop" else epochs or [None] * count
    limits = [None if None in pair else pair[0] * pair[1] for pair in zip(sizes, most, strict=True)]
    given, turn, pattern, now = [0] * count, 0, None, None
    used = {s for s in range(count) if any(stage.parts[s] for stage in stages)}
    while True:
        stage = [each for each in stages if each.begin <= turn][-1]
        live = tuple(
            part if limit is None or taken < limit else 0
            for part, limit, taken in zip(stage.parts, limits, given, strict=True)
        )
        if not any(live):
            return
        if now != (stage, live):
            now, pattern = (stage, live), cycle(pattern_of(live, seed).sources)
        source = next(pattern)
        if stop == "first" and given[source] == sizes[source]:
            return
        given[source] += 1
        turn += 1
        yield source
        last = stage is stages[-1]
        if stop == "all" and all(
            sizes[s] is not None and (given[s] >= sizes[s] or (last and not stage.parts[s]))
            for s in used
        ):
            return


@given(mixtures())
def test_sources_counts_and_the_length_are_those_of_a_walk(mixture):
    turns, expected = Turns(*mixture), list(islice(walked(*mixture), FAR))
    if mixture[2] == "all" and len(turns.sources(0, FAR)) != len(expected):
        # The walk ends when the last stage begins, if a source that is left out then is the last.
        assert expected[: turns.length] == list(turns.sources(0, FAR))
        return

    assert list(turns.sources(0, FAR)) == expected
    assert len(expected) == FAR or turns.length == len(expected)
    for turn in range(0, FAR, 23):
        seen = expected[:turn]
        assert turns.counts(turn) == tuple(seen.count(s) for s in range(len(mixture[1])))


@given(mixtures(), st.integers(0, 200), st.integers(0, 200))
def test_any_slice_gives_the_same_sources(mixture, start, length):
    turns = Turns(*mixture)

    assert (
        list(turns.sources(start, start + length)) == list(turns.sources(0, FAR))[start:][:length]
    )
    differences = [
        b - a for a, b in zip(turns.counts(start), turns.counts(start + length), strict=True)
    ]
    seen = list(turns.sources(start, start + length))
    assert differences == [seen.count(s) for s in range(len(differences))]


@given(mixtures(), st.integers(0, 3))
def test_turns_go_on_from_a_stage_that_says_how_many_came_before(mixture, number):
    stages, *rules = mixture
    number %= len(stages)
    whole, begin = Turns(*mixture), stages[number].begin
    first = replace(stages[number], before=whole.counts(begin))
    rest = Turns((first, *stages[number + 1 :]), *rules)

    seen = list(whole.sources(begin, FAR))
    assert list(rest.sources(begin, FAR))[: len(seen)] == seen
    if rules[1] != "all" and (whole.length is None or whole.length > begin):
        assert rest.length == whole.length
    for turn in range(begin, begin + len(seen), 7):
        assert rest.counts(turn) == whole.counts(turn)


@given(mixtures())
def test_the_turn_of_an_element_is_the_one_that_takes_it(mixture):
    turns = Turns(*mixture)
    seen = list(turns.sources(0, FAR))

    for source in range(len(mixture[1])):
        at = [turn for turn, each in enumerate(seen) if each == source]
        assert [turns.turn_of(source, element) for element in range(len(at))] == at
        if turns.length is not None and turns.length <= FAR:
            assert turns.turn_of(source, len(at)) is None


@given(mixtures())
def test_each_stage_keeps_the_shares_of_each_prefix(mixture):
    stages, sizes, *_, seed = mixture
    turns = Turns(stages, [None] * len(sizes), seed=seed)

    for stage, end in zip(stages, [*(each.begin for each in stages[1:]), FAR], strict=True):
        before = turns.counts(stage.begin)
        for turn in range(stage.begin, end + 1, 3):
            for part, one, other in zip(stage.parts, before, turns.counts(turn), strict=True):
                share = Fraction(part, sum(stage.parts))
                assert abs(other - one - (turn - stage.begin) * share) < 1


def test_a_source_repeats_at_the_turn_that_takes_its_first_element_again():
    turns = Turns([WeightStage(0, (1, 3))], (4, 100))

    first = turns.next_repeat(0)

    assert turns.counts(first)[0] == 4
    assert turns.sources(first, first + 1)[0] == 0
    assert turns.next_repeat(0, first) == first
    assert turns.counts(turns.next_repeat(0, first + 1))[0] == 8


def test_a_mixture_without_its_endless_source_ends_at_one_turn_in_all_views():
    stages = (
        WeightStage(0, (0, 1, 2)),
        WeightStage(16, (2, 0, 3), (0, 5, 11)),
        WeightStage(23, (0, 0, 1), (3, 5, 15)),
    )

    lengths = [Turns(stages[i:], (None, 2, 17), "all").length for i in range(3)]

    assert lengths == [25, 25, 25]

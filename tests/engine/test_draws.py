import numpy as np

from penstock.engine import draws


def test_any_part_of_a_sequence_can_be_drawn_alone():
    whole = draws.draw(123, 0, 1000)

    assert draws.draw(123, 400, 410).tolist() == whole[400:410].tolist()
    assert len(set(whole.tolist())) == 1000


def test_negative_and_large_seeds_are_seeds():
    drawn = {tuple(draws.draw(seed, 0, 3).tolist()) for seed in (-1, 0, 2**63, 2**64 - 2)}

    assert len(drawn) == 4


def test_numbers_below_a_size_are_even():
    counts = np.bincount(draws.below(draws.draw(5, 0, 70_000), 7), minlength=7)

    assert counts.size == 7
    assert abs(counts - 10_000).max() < 500


def test_the_generator_of_an_element_does_not_depend_on_those_before():
    rng = draws.ElementRng(9)
    forward = [rng.at(k).random(3).tolist() for k in range(5)]
    rng.at(3).integers(10, dtype=np.int32)  # leaves half a word behind

    assert [rng.at(k).random(3).tolist() for k in reversed(range(5))] == forward[::-1]
    assert len({tuple(numbers) for numbers in forward}) == 5

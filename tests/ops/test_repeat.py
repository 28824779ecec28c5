import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE, UNKNOWN


@pytest.mark.parametrize("count", [None, -1])
def test_repeat_without_a_count_never_ends(check_states, count):
    check_states(lambda: Dataset.range(3).repeat(count), [0, 1, 2] * 8, limit=24)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dataset.range(0).repeat(),
        lambda: Dataset.range(9).filter(lambda x: x > 10).repeat(),
        lambda: Dataset.range(9).take(0).repeat(),
        lambda: Dataset.range(9).repeat(0).repeat(),
    ],
)
def test_an_endless_repeat_ends_with_an_empty_pass(check_states, make):
    check_states(make, [])


def test_each_pass_has_seeds_of_its_own_also_in_nested_repeats(check_states):
    make = lambda: Dataset.range(2).map(lambda x, *, rng: rng.integers(1 << 40)).repeat(2).repeat(3)

    numbers = check_states(make)

    assert len(set(numbers)) == 12


def test_errors_come_again_in_each_pass(check_states):
    def picky(x):
        if x == 1:
            raise ValueError("one")
        return x

    whole = check_states(lambda: Dataset.range(3).map(picky).repeat(2))

    assert len(whole) == 6


def test_the_cardinality():
    three = Dataset.range(3)

    assert [three.repeat(n).cardinality() for n in (0, 2, None, -1)] == [0, 6, INFINITE, INFINITE]
    assert Dataset.range(0).repeat().cardinality() == 0
    assert three.filter(bool).repeat(2).cardinality() == UNKNOWN
    assert three.repeat().repeat(2).cardinality() == INFINITE


@pytest.mark.parametrize("count", [-2, 1.5, "a", True])
def test_a_bad_count_is_named(count):
    with pytest.raises(DatasetError, match="repeat: count must be an integer of at least -1, not "):
        Dataset.range(3).repeat(count)


def test_a_pass_that_is_left_is_closed():
    closed = []

    def generate():
        try:
            yield from range(9)
        finally:
            closed.append(True)

    it = iter(Dataset.from_generator(generate).take(2).repeat(3))

    assert [next(it) for _ in range(5)] == [0, 1, 0, 1, 0]
    assert closed == [True, True]
    it.close()
    assert closed == [True, True, True]


def test_files_of_a_pass_that_is_left_are_closed(tmp_path):
    (tmp_path / "f").write_text("x\ny\n")

    # A file that is dropped and not closed would warn.
    assert list(Dataset.text_lines(tmp_path / "f").take(1).repeat(3)) == ["x"] * 3


@pytest.mark.parametrize("nothing", [lambda d: d.repeat(0), lambda d: d.take(0)])
def test_nothing_repeated_without_end_ends_where_passes_are_drawn_from_splits(
    check_states, nothing
):
    def make():
        return nothing(Dataset.range(12)).repeat().take(16)

    check_states(make, limit=40, logs=[[(0, 1), None] * 200], streams={".0.0.0": 0})

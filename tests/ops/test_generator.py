import logging

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, StateError, TransformError
from penstock.graph.node import UNKNOWN


def test_arguments_are_passed_on():
    assert list(Dataset.from_generator(range, (2, 5))) == [2, 3, 4]
    assert list(Dataset.from_generator(range, args=[3])) == [0, 1, 2]
    assert list(Dataset.from_generator(lambda: [4], args=None)) == [4]


def test_a_restore_runs_the_generator_again_but_nothing_behind_it(counted):
    fn = counted(lambda x: x)
    runs = []

    def generate():
        for i in range(20):
            runs.append(i)
            yield i

    it = iter(Dataset.from_generator(generate).map(fn))
    for _ in range(12):
        next(it)
    state = it.state()
    it.close()
    fn.calls.clear()
    runs.clear()

    with Dataset.from_generator(generate).map(fn).iterator(state) as it:
        assert next(it) == 12

    assert runs == list(range(13))
    assert fn.calls == [12]


def test_nothing_runs_before_an_element_is_wanted():
    runs = []

    def generate():
        runs.append(1)
        yield 1

    it = iter(Dataset.from_generator(generate))
    it.state()

    assert runs == []
    assert list(it) == [1]


def test_a_generator_that_waits_for_its_consumer_is_not_run_ahead():
    given = []

    def generate():
        for i in range(50):
            assert len(given) == i
            yield i

    for x in Dataset.from_generator(generate):
        given.append(x)

    assert len(given) == 50


def test_an_error_ends_a_generator(check_states):
    def generate():
        yield 1
        raise ValueError("broken")

    check_states(
        lambda: Dataset.from_generator(generate),
        [1, TransformError("from_generator(generate)", 1, "ValueError: broken")],
    )


def test_an_iterator_may_go_on_after_an_error(check_states):
    class Odd:
        def __init__(self):
            self.i = -1

        def __iter__(self):
            return self

        def __next__(self):
            self.i += 1
            if self.i == 6:
                raise StopIteration
            if self.i % 3 == 1:
                raise KeyError(self.i)
            return self.i if self.i != 5 else None

    def failed(i, detail):
        return TransformError("from_generator(Odd)", i, detail)

    whole = check_states(lambda: Dataset.from_generator(Odd))

    assert [x for x in whole if isinstance(x, tuple)] == [("int64", str(i)) for i in (0, 2, 3)]
    assert len(whole) == 6


def test_a_generator_that_cannot_begin_is_an_error():
    def begin():
        raise RuntimeError("no")

    it = iter(Dataset.from_generator(begin))

    with pytest.raises(TransformError, match=r"from_generator\(begin\) failed at element 0"):
        next(it)
    assert list(it) == []


def test_what_is_not_iterable_is_an_error():
    with pytest.raises(TransformError, match="'int' object is not iterable"):
        next(iter(Dataset.from_generator(lambda: 3)))


def test_a_generator_that_has_become_shorter_is_a_clear_error():
    it = iter(Dataset.from_generator(lambda: iter(range(9))))
    for _ in range(5):
        next(it)
    shorter = Dataset.from_generator(lambda: iter(range(3))).iterator(it.state())

    with pytest.raises(
        StateError, match="gave 3 elements this time; the saved state stands behind 5"
    ):
        next(shorter)


def test_closing_closes_the_generator():
    closed = []

    def generate():
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    with iter(Dataset.from_generator(generate)) as it:
        next(it)

    assert closed == [True]


def test_a_generator_that_fails_in_its_clean_up_is_logged(caplog):
    def generate():
        try:
            yield 1
        finally:
            raise ValueError("clean-up")

    with caplog.at_level(logging.WARNING), iter(Dataset.from_generator(generate)) as it:
        next(it)

    assert "from_generator(generate) raised when it was closed" in caplog.text


def test_the_cardinality_is_unknown():
    assert Dataset.from_generator(lambda: [1]).cardinality() == UNKNOWN


@pytest.mark.parametrize("value", [[1, 2], iter([1]), None])
def test_what_cannot_be_called_is_named(value):
    with pytest.raises(DatasetError, match="from_generator: generator must be a callable"):
        Dataset.from_generator(value)


def test_arguments_that_are_no_tuple_are_named():
    with pytest.raises(DatasetError, match="from_generator: args must be a tuple, not 3"):
        Dataset.from_generator(range, 3)

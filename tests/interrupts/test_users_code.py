"""Ctrl-C in any code of a user's that a local pipeline runs: it strikes there, and not later."""

import signal

import numpy as np
import pytest

from penstock import Dataset


class Struck(BaseException):
    pass


def raising(*_):
    raise Struck


@pytest.fixture(autouse=True)
def _ctrl_c():
    before = signal.signal(signal.SIGINT, raising)
    yield
    signal.signal(signal.SIGINT, before)


class Place:
    """Code of a user's that is interrupted at its first call, and notes if it went on."""

    def __init__(self):
        self.begun = self.went_on = False

    def __call__(self, value):
        if not self.begun:
            self.begun = True
            signal.raise_signal(signal.SIGINT)
            self.went_on = True
        return value


class Lazy:
    """An array that is computed when it is asked for, as those of Dask are."""

    def __init__(self, place):
        self._place = place

    def __array__(self, *_, **__):
        return self._place(np.zeros(3))


class Answer(Lazy):
    """One bool of that kind."""

    def __array__(self, *_, **__):
        return np.asarray(self._place(True))

    def __bool__(self):
        return True


SOURCE = Dataset.range(4)

PIPELINES = {
    "map": lambda p: SOURCE.map(p),
    "map, what it returns": lambda p: SOURCE.map(lambda _: Lazy(p)),
    "batch, map": lambda p: SOURCE.batch(2).map(p),
    "filter": lambda p: SOURCE.filter(lambda _: p(True)),
    "filter, what it returns": lambda p: SOURCE.filter(lambda _: Answer(p)),
    "take_while": lambda p: SOURCE.take_while(lambda _: p(True)),
    "take_while, what it returns": lambda p: SOURCE.take_while(lambda _: Answer(p)),
    "scan": lambda p: SOURCE.scan(0, lambda s, x: (s, p(x))),
    "scan, what it returns": lambda p: SOURCE.scan(0, lambda s, _: (s, Lazy(p))),
    "flat_map": lambda p: SOURCE.flat_map(lambda x: Dataset.range(p(x))),
    "from_generator": lambda p: Dataset.from_generator(lambda: map(p, range(4))),
    "from_generator, its function": lambda p: Dataset.from_generator(lambda: p([1])),
    "from_generator, what it gives": lambda p: Dataset.from_generator(lambda: iter([Lazy(p)])),
    "balance": lambda p: SOURCE.balance(2, p),
    "group_by_window": lambda p: SOURCE.group_by_window(p, lambda _, w: w.batch(2), 2),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_ctrl_c_strikes_at_once_where_users_code_runs(name):
    place = Place()
    elements = iter(PIPELINES[name](place))

    with pytest.raises(Struck):
        list(elements)

    assert place.begun
    assert not place.went_on

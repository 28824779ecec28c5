"""An operator is resized when its meter says so."""

import pytest

from penstock.engine.iterator import OpIterator
from penstock.errors import ElementError
from penstock.ops.map import TunedIterator


class Run(OpIterator):
    def __init__(self):
        self.closed = False

    def block(self, n):
        if n == 7:
            raise ElementError("no")
        return list(range(n))

    def mark(self):
        return lambda back: ["at", back]

    def close(self):
        self.closed = True


class Meter:
    """Wants a thread more after each block of elements."""

    threads = 1

    def __init__(self):
        self.said = []

    def enter(self):
        self.said.append("enter")

    def leave(self, elements):
        self.said.append(elements)
        self.threads += bool(elements)
        return bool(elements)

    def close(self):
        self.said.append("close")


def test_the_operator_gets_the_threads_that_the_meter_wants():
    run, meter, sizes = Run(), Meter(), []
    tuned = TunedIterator(run, sizes.append, meter)

    assert tuned.block(3) == [0, 1, 2]
    assert tuned.block(0) == []
    assert sizes == [2]
    assert meter.said == ["enter", 3, "enter", 0]
    assert tuned.mark()(1) == ["at", 1]

    tuned.close()
    assert run.closed
    assert meter.said[-1] == "close"


def test_a_block_that_fails_ends_its_measurement():
    meter = Meter()

    with pytest.raises(ElementError):
        TunedIterator(Run(), lambda _: None, meter).block(7)

    assert meter.said == ["enter", 0]

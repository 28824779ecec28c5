"""What every running operator does, whatever it is."""

import pytest

from penstock.engine.iterator import OpIterator
from penstock.errors import ElementError, SaveFailed


class Listed(OpIterator):
    """Gives what is listed; raises the errors among it."""

    def __init__(self, *things):
        self.things = list(things)

    def block(self, n):
        if self.things and isinstance(self.things[0], Exception):
            raise self.things.pop(0)
        out = []
        while self.things and len(out) < n and not isinstance(self.things[0], Exception):
            out.append(self.things.pop(0))
        return out

    def mark(self):
        return lambda back: back


def test_a_skip_counts_elements_and_passes_over_failed_ones_in_silence():
    it = Listed(1, ElementError("no"), 2, 3, 4)

    assert it.skip(3) == 3
    assert it.block(10) == [4]


def test_a_skip_over_the_end_says_how_many_there_were():
    assert Listed(1, 2).skip(5) == 2
    assert Listed().skip(5) == 0


def test_an_error_of_the_run_itself_is_not_passed_over():
    with pytest.raises(SaveFailed):
        Listed(1, SaveFailed("no")).skip(3)

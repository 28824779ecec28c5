"""The operator that places elements: in order, ahead, and with the state of what was handed out."""

import threading

import pytest

from penstock.dataset.dataset import Dataset
from penstock.dataset.iterator import DatasetIterator
from penstock.errors import DatasetError, ElementError
from penstock.loading.placed import Placed
from penstock.reference import Reference


class Mine:
    """What no pipeline would take for an element."""

    def __init__(self, value):
        self.value = int(value)


def read(dataset, ahead, state=None, place=Mine):
    return DatasetIterator(Placed(dataset.node, place, ahead), state)


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_a_state_counts_what_was_handed_out_and_not_what_is_placed(ahead):
    dataset = Dataset.range(40).shuffle(7, seed=3)
    whole = [each.value for each in read(dataset, ahead)]
    for taken in range(0, 40, 3):
        elements = read(dataset, ahead)
        first = [next(elements).value for _ in range(taken)]

        rest = [each.value for each in read(dataset, 2 - ahead % 2, elements.state())]

        assert first + rest == whole
        elements.close()


def test_elements_are_placed_before_they_are_asked_for():
    placed, third = [], threading.Event()

    def place(element):
        placed.append(int(element))
        if len(placed) == 3:
            third.set()
        return element

    elements = read(Dataset.range(10), 3, place=place)
    next(elements)

    assert third.wait(30)
    elements.close()


@pytest.mark.parametrize("ahead", [0, 2])
def test_an_element_that_cannot_be_placed_is_an_error_in_its_place_and_others_go_on(ahead):
    def place(element):
        if int(element) % 5 == 2:
            raise ElementError(f"not {int(element)}")
        return int(element)

    elements = read(Dataset.range(12), ahead, place=place)
    seen = []
    while True:
        try:
            seen.append(next(elements))
        except StopIteration:
            break
        except ElementError as error:
            seen.append(str(error))
            state = elements.state()

    assert seen == [0, 1, "not 2", 3, 4, 5, 6, "not 7", 8, 9, 10, 11]
    assert list(read(Dataset.range(12), ahead, state, place)) == [8, 9, 10, 11]


@pytest.mark.parametrize("ahead", [-1, 1.5, None])
def test_how_far_ahead_is_checked(ahead):
    with pytest.raises(DatasetError, match="Loader: prefetch must be an integer of at least 0"):
        Placed(Dataset.range(3).node, Mine, ahead)


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_reference_is_refused_with_what_to_do_and_elements_after_it_go_on(ahead):
    def element(number):
        return {"a": number, "b": Reference("x.tar", number, 1) if number == 1 else number}

    numbers = Dataset.range(3).map(element)
    placed = read(numbers, ahead, place=lambda element: element["a"])

    assert next(placed) == 0
    with pytest.raises(ElementError, match=r"a Reference to x\.tar: .*dataset\.resolve"):
        next(placed)
    assert next(placed) == 2


def test_a_batch_of_references_is_refused():
    batches = Dataset.range(3).map(lambda number: Reference("x.tar", number, 1)).batch(3)

    with pytest.raises(ElementError, match="no tensors of a Reference: read its bytes before"):
        next(read(batches, 0, place=list))

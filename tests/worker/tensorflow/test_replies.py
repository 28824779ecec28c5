"""Replies made of a reader's elements, each when it is asked for."""

import numpy as np

from penstock import Dataset
from penstock_worker.tensorflow.replies import Replies


def text(element):
    return f"{element}".encode()


def replies(dataset, **more):
    return Replies(iter(dataset), text, **more)


def test_the_first_of_a_block_is_waited_for_and_the_others_are_at_hand():
    source = replies(Dataset.range(1000))
    got, at_hand = [], 0
    while len(got) < 1000:
        if (reply := source.at_hand(None)) is None:
            reply = next(source)
        else:
            at_hand += 1
        got.append(reply)
    source.close()

    assert got == [text(x) for x in range(1000)]
    assert at_hand > 500


def test_one_that_is_large_is_left_to_a_thread_and_keeps_its_place():
    dataset = Dataset.range(200).map(lambda x: np.full(10 if x % 3 else 10_000, x, np.uint8))
    source = Replies(iter(dataset), lambda element: element[0], light=1000)
    got, inline = [], []
    while len(got) < 200:
        if (reply := source.at_hand(None)) is not None:
            inline.append(reply)
        elif (again := source.at_hand(None)) is not None:
            raise AssertionError(f"{again} was not at hand")
        else:
            reply = next(source)
        got.append(reply)
    source.close()

    assert got == list(range(200))
    assert inline
    assert all(x % 3 for x in inline)


def test_where_encoding_takes_long_nothing_is_at_hand():
    source = replies(Dataset.range(50), light=-1)
    got = []
    while len(got) < 50:
        assert source.at_hand(None) is None
        got.append(next(source))
    source.close()

    assert got == [text(x) for x in range(50)]

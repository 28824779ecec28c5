"""An operator whose elements are made of those of its input, one of one: where it stands."""

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.graph.run import open_root


def fails_at(number):
    def fn(x):
        if x == number:
            raise ValueError(x)
        return x

    return fn


def opened(dataset, state=None):
    return open_root(dataset.node, Context.local(0), state)


def test_what_is_skipped_calls_nothing_also_of_a_block_that_failed():
    running = opened(Dataset.range(10).map(fails_at(3)))

    assert running.block(6) == [0, 1, 2]
    assert running.skip(2) == 2  # behind the one that failed, which is passed over
    assert running.block(6)[0] == 6


def test_its_state_stands_before_what_was_not_called_yet():
    dataset = Dataset.range(10).map_batches(lambda x: x)
    running = opened(dataset)
    running.block(4)
    at = running.mark()

    assert [opened(dataset, at(back)).block(1)[0] for back in range(4)] == [4, 3, 2, 1]

"""A user's function that ends its process, as `sys.exit` does, is an error of its element."""

import os
import signal
import sys

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import TransformError

pytestmark = pytest.mark.usefixtures("function_processes_end")

WANTED = [0, 1, 2, 4, 5]


def leave(x, *_):
    if int(x) == 3:
        sys.exit("bad sample")
    return x


def never_at_three(x):
    leave(x)
    return True


def inner(x):
    leave(x)
    return Dataset.from_tensors(x)


class Numbers:
    def __len__(self):
        return 6

    def __getitem__(self, number):
        return leave(number)


def counted():
    for number in range(6):
        yield leave(number)


PIPELINES = {
    "map(leave)": lambda: Dataset.range(6).map(leave),
    "map(leave) in threads": lambda: Dataset.range(6).map(leave, num_parallel_calls=2),
    "map(leave) in processes": lambda: Dataset.range(6).map(
        leave, num_parallel_calls=1, executor="process"
    ),
    "map_batches(leave_all)": lambda: Dataset.range(6).map_batches(leave_all, 3),
    "filter(never_at_three)": lambda: Dataset.range(6).filter(never_at_three),
    "flat_map(inner)": lambda: Dataset.range(6).flat_map(inner),
    "interleave(inner)": lambda: Dataset.range(6).interleave(inner, cycle_length=1),
    "scan(carry)": lambda: Dataset.range(6).scan(0, carry),
    "from_sequence(Numbers)": lambda: Dataset.from_sequence(Numbers()),
}


def leave_all(xs):
    for x in xs:
        leave(x)
    return xs


def carry(carried, x):
    return carried, leave(x)


@pytest.mark.parametrize("name", PIPELINES)
def test_an_exit_names_the_operator_and_the_element_and_can_be_left_out(name):
    made = PIPELINES[name]()

    with pytest.raises(
        TransformError, match=r"failed at element 3.*SystemExit: bad sample"
    ) as told:
        list(made)
    assert told.value.operator == name.partition(" ")[0]
    assert [int(x) for x in made.ignore_errors()] == WANTED


def test_an_exit_of_a_generator_names_it():
    with pytest.raises(TransformError, match=r"from_generator\(counted\) failed at element 3"):
        list(Dataset.from_generator(counted))


def test_an_exit_in_reduce_names_it():
    with pytest.raises(TransformError, match=r"reduce\(carry_on\) failed at element 3"):
        Dataset.range(6).reduce(0, carry_on)


def carry_on(before, x):
    return leave(x)


@pytest.mark.parametrize("skipping", [False, True])
def test_an_interrupt_is_no_error_of_an_element(skipping):
    struck = []

    def interrupted(x):
        if x == 3 and not struck:
            struck.append(x)
            signal.raise_signal(signal.SIGINT)
        return x

    made = Dataset.range(6).map(interrupted)
    elements = iter(made.ignore_errors() if skipping else made)
    seen = []
    with pytest.raises(KeyboardInterrupt):
        seen += map(int, iter(lambda: next(elements), None))

    assert struck == [3]
    assert [int(x) for x in elements][-3:] == [3, 4, 5]


def test_an_exit_of_a_signals_handler_is_no_error_of_an_element():
    def told_to_stop(x):
        if x == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return x

    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(17))
    try:
        with pytest.raises(SystemExit, match="17"):
            list(Dataset.range(6).map(told_to_stop).ignore_errors())
    finally:
        signal.signal(signal.SIGTERM, before)

"""Tracebacks of users' errors."""

import traceback

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import TransformError
from penstock.runtime.tracebacks import LONGEST, told


def parse(line):
    return helper(line)


def helper(line):
    raise KeyError(f"no field in {line}")


def failure(ds):
    with pytest.raises(TransformError) as caught:
        list(ds)
    return caught.value


@pytest.mark.parametrize(
    "ds",
    [
        Dataset.from_tensor_slices(["a", "b"]).map(parse),
        Dataset.from_tensor_slices(["a", "b"]).map(parse, num_parallel_calls=2),
        Dataset.from_tensor_slices(["a", "b"]).map(parse, executor="process"),
        Dataset.from_tensor_slices(["a", "b"]).filter(parse),
        Dataset.from_tensor_slices(["a", "b"]).flat_map(parse),
        Dataset.from_tensor_slices(["a", "b"]).take_while(parse),
    ],
)
def test_an_error_shows_the_input_and_the_frames_of_users_code_alone(ds):
    error = failure(ds)

    assert error.given == "'a'"
    assert "(its input was 'a')" in str(error)
    frames = [line for line in error.remote_traceback.splitlines() if line.startswith("  File")]
    assert [frame.rpartition(" in ")[2] for frame in frames] == ["parse", "helper"]


def test_an_error_in_one_process_has_no_frames_of_ours_either():
    error = failure(Dataset.range(2).map(parse))

    names = [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)]
    assert names == ["parse", "helper"]


def test_what_an_operator_gives_and_may_not_is_named_with_its_input():
    error = failure(Dataset.range(5).map(lambda x: None if x == 3 else x))

    assert (error.number, error.given) == (3, "np.int64(3)")


def test_the_middle_of_a_long_traceback_is_left_out():
    def here(n):
        return there(n)

    def there(n):
        return here(n + 1)

    error = failure(Dataset.range(2).map(here))

    assert len(error.remote_traceback) < LONGEST + 100
    assert "characters ...]" in error.remote_traceback
    assert "RecursionError" in error.remote_traceback.splitlines()[-1]


def test_the_errors_that_an_error_came_from_are_told_as_well():
    try:
        try:
            raise KeyError(1)
        except KeyError as exc:
            raise ValueError(2) from exc
    except ValueError as exc:
        text = told(exc)

    assert "KeyError: 1" in text
    assert "direct cause" in text

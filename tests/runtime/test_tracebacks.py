"""Tracebacks of users' errors."""

import gc
import threading
import traceback

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import Closed, InternalError, PenstockError, TransformError
from penstock.runtime.tracebacks import LONGEST, keep_users_frames, told
from penstock.service import distribute


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


def test_what_a_loop_gets_shows_its_own_line_and_few_of_ours(cluster):
    def unnamed(x):
        raise ValueError(x)

    far = Dataset.range(2).map(unnamed).distribute("distributed_epoch", cluster.target)
    for read in (
        lambda: list(Dataset.range(2).map(unnamed).batch(2).prefetch(2)),
        lambda: list(Dataset.range(2).map(lambda x: None)),
        lambda: list(Dataset.text_lines("/there/is/no/such/file")),
        lambda: list(far.batch(2).prefetch(1)),
        lambda: Dataset.range(3).iterator({"v": 1}),
        lambda: (
            Dataset.range(3)
            .map(lambda x, y=threading.Lock(): x)
            .apply(distribute("distributed_epoch", cluster.target))
        ),
    ):
        with pytest.raises(PenstockError) as caught:
            read()
        shown = "".join(traceback.format_exception(caught.value))
        assert shown.count("client/penstock/") <= 4, shown
        assert __file__ in shown


def test_an_error_of_ours_keeps_its_frames():
    def raises():
        raise InternalError("a fault")

    error = None
    try:
        raises()
    except InternalError as exc:
        keep_users_frames(exc)
        error = exc
    assert len(traceback.extract_tb(error.__traceback__)) == 2


def test_errors_that_came_from_each_other_are_each_gone_through_once():
    one, other = Closed("one"), Closed("other")
    one.__cause__, other.__cause__ = other, one

    keep_users_frames(one)

    assert one.__cause__ is other


def test_what_an_operator_gives_and_may_not_is_named_with_its_input():
    error = failure(Dataset.range(5).map(lambda x: None if x == 3 else x))

    assert (error.number, error.given) == (3, "np.int64(3)")


@pytest.fixture
def nothing_collected():
    """Keep finalisers of other tests' garbage from running where no call fits on the stack."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("nothing_collected")
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

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, TransformError


def scan(dataset, initial, fn):
    return dataset.scan(initial, fn)


def test_anything_an_element_may_be_can_be_carried_on(check_states):
    initial = {
        "text": "", "bytes": b"\xff", "array": np.zeros((2, 2), ">i2"), "empty": np.zeros((0, 3)),
        "texts": np.array(["a", "b"], object), "pair": (1.5, True), "when": np.datetime64(0, "s"),
    }  # fmt: skip

    def grow(carried, x):
        carried["text"] += str(int(x))
        carried["array"] = carried["array"] + x
        return carried, (carried["text"], carried["array"].sum(), carried["texts"])

    whole = check_states(lambda: scan(Dataset.range(12), initial, grow), max_state=2000)

    assert len(whole) == 12


def test_tuples_are_not_unpacked(check_states):
    pairs = Dataset.range(9).map(lambda x: (x, 2 * x))

    check_states(
        lambda: scan(pairs, 0, lambda total, pair: (total + pair[1], (total, pair[0]))),
        [(i * (i - 1), i) for i in range(9)],
    )


def test_an_error_belongs_to_its_element_and_what_is_carried_stays(check_states):
    def picky(total, x):
        if x in (0, 3, 8):
            raise ValueError("no")
        return total + 1, total

    def failed(i):
        return TransformError("scan(picky)", i, "ValueError: no")

    check_states(
        lambda: scan(Dataset.range(9), 0, picky),
        [failed(0), 0, 1, failed(3), 2, 3, 4, 5, failed(8)],
    )


def test_a_restored_scan_calls_the_function_for_no_element_again(counted):
    fn = counted(lambda total, x: (total + x, total))
    it = iter(scan(Dataset.range(1000), 0, fn))
    for _ in range(400):
        next(it)
    state = it.state()
    fn.calls.clear()

    restored = scan(Dataset.range(1000), 0, fn).iterator(state)

    assert next(restored) == 400 * 399 // 2
    assert fn.calls[0] == 400 * 399 // 2


def test_random_numbers_replay(check_states):
    check_states(
        lambda: scan(Dataset.range(20), 0.0, lambda at, x, *, rng: (at + rng.normal(), at))
    )


@pytest.mark.parametrize(
    ("answer", "said"), [(1, "a pair"), ((1, 2, 3), "a pair"), (((1, 2), 3), "structure")]
)
def test_other_answers_are_an_error_that_says_what_is_wrong(answer, said):
    with pytest.raises(TransformError, match=said):
        list(scan(Dataset.range(3), 0, lambda carried, x: answer))


def test_bad_arguments_are_named():
    with pytest.raises(DatasetError, match="scan_func"):
        scan(Dataset.range(3), 0, None)

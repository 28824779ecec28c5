"""NumPy's leaves as tensors: the same numbers, dtypes and shapes, not copied where that is safe."""

import ml_dtypes
import numpy as np
import pytest
import torch

from penstock.element import text_array
from penstock.errors import ElementError
from penstock.torch.tensors import tensor_of, tensors_of


@pytest.mark.parametrize(
    ("numpy", "torch_dtype"),
    [
        (np.bool_, torch.bool), (np.uint8, torch.uint8), (np.int8, torch.int8),
        (np.int16, torch.int16), (np.int32, torch.int32), (np.int64, torch.int64),
        (np.uint16, torch.uint16), (np.uint32, torch.uint32), (np.uint64, torch.uint64),
        (np.float16, torch.float16), (np.float32, torch.float32), (np.float64, torch.float64),
        (np.complex64, torch.complex64), (np.complex128, torch.complex128),
        (ml_dtypes.bfloat16, torch.bfloat16), (ml_dtypes.float8_e4m3fn, torch.float8_e4m3fn),
        (ml_dtypes.float8_e5m2, torch.float8_e5m2),
    ],
)  # fmt: skip
def test_each_dtype_has_its_own(numpy, torch_dtype):
    tensor = tensor_of(np.array([[0, 1], [1, 0]]).astype(numpy))

    assert (tensor.dtype, tuple(tensor.shape)) == (torch_dtype, (2, 2))
    assert tensor.to(torch.complex64).real.tolist() == [[0, 1], [1, 0]]


def test_what_may_be_written_to_is_not_copied():
    array = np.arange(6.0)
    tensor = tensor_of(array)
    tensor += 1

    assert array[0] == 1


@pytest.mark.parametrize("flaw", ["read-only", "backwards"])
def test_what_torch_must_not_have_is_copied(flaw):
    array = np.arange(3.0)
    kept = array if flaw == "read-only" else array[::-1]
    kept.flags.writeable = flaw != "read-only"
    tensor = tensor_of(kept)
    tensor += 1

    assert (tensor - 1).tolist() == kept.tolist()


def test_a_nest_keeps_its_form():
    made = tensors_of({"x": (np.zeros(2), np.float32(3)), "y": np.bool_(True)})

    assert made["x"][1].shape == made["y"].shape == ()
    assert made["y"].dtype == torch.bool


def test_a_scalar_of_bfloat16_keeps_its_value():
    assert float(tensor_of(ml_dtypes.bfloat16(1.5))) == 1.5


def test_text_stays_text_and_an_array_of_it_becomes_a_list():
    words = text_array(["a", "b", "c", "d"]).reshape(2, 2)
    made = tensors_of({"x": np.zeros(2), "key": "a", "raw": b"b", "words": words})

    assert isinstance(made["x"], torch.Tensor)
    assert (made["key"], made["raw"]) == ("a", b"b")
    assert made["words"] == [["a", "b"], ["c", "d"]]


def test_a_number_format_that_torch_has_not_is_refused():
    with pytest.raises(ElementError, match="torch has no int4"):
        tensor_of(np.zeros(2, ml_dtypes.int4))

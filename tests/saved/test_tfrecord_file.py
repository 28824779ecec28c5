import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.saved.layout import SavedLayout
from penstock.saved.tfrecord_file import TFRecordFormat, packed, unpacked

pytest.importorskip("pyarrow")

INT64 = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 300)


def varint(number):
    """Return *number* as protobuf's documentation encodes it."""
    number &= (1 << 64) - 1
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


@given(st.lists(INT64, max_size=20))
def test_packed_numbers_are_those_of_protobuf_and_come_back(numbers):
    data, ends = packed(np.array(numbers, np.int64))
    each = list(map(varint, numbers))

    assert data == b"".join(each)
    assert np.diff(ends).tolist() == list(map(len, each))
    back, before = unpacked(data)
    assert back.tolist() == numbers
    assert before[ends].tolist() == list(range(len(numbers) + 1))


def test_elements_that_are_bytes_are_the_records(tmp_path):
    records = [b"", b"one", b"\0" * 1000]
    Dataset.from_sequence(records).save(tmp_path / "saved", format="tfrecord")

    assert list(Dataset.tfrecords(str(tmp_path / "saved/data/*.tfrecord"))) == records


@pytest.mark.parametrize("value", [np.float64(1), np.zeros(2, np.uint64), np.complex64(1)])
def test_numbers_that_an_example_cannot_hold_are_refused(value):
    with pytest.raises(DatasetError, match=rf"'b', which is .*{value.dtype}: map it to int64"):
        TFRecordFormat().check(SavedLayout.of({"a": "", "b": value}))


def test_names_that_shapes_would_have_are_refused():
    layout = SavedLayout.of({"a": np.zeros((1, 1)).astype(np.float32), "a.shape": np.int64(1)})

    with pytest.raises(DatasetError, match=r"needs the name 'a\.shape' itself"):
        TFRecordFormat().check(layout)

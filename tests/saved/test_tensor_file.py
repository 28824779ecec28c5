"""Chunks that TensorFlow reads: `tests/frameworks/tensorflow` has it read them."""

import numpy as np
import pytest

from penstock.errors import DatasetError
from penstock.saved.chunk_format import ChunkWriter, rows_of
from penstock.saved.layout import SavedLayout
from penstock.saved.tensor_file import TensorFormat
from tests.saved.test_chunk_format import sample

pytest.importorskip("cramjam")


@pytest.mark.parametrize("compression", TensorFormat.compressions, ids=str)
def test_elements_come_back_from_each_compression(compression):
    elements, form = [sample(i) for i in range(30_000)], TensorFormat()
    layout = SavedLayout.of(elements[0])
    writer = ChunkWriter(form, layout, compression)
    writer.add(elements, 1 << 40)
    data, contents = writer.finish()
    back = rows_of(form, layout, contents, data.to_pybytes(), range(29_990, 30_000))

    assert [int(each["x"]) for each in back] == list(range(29_990, 30_000))
    assert back[3]["tokens"].tolist() == elements[29_993]["tokens"].tolist()


def test_texts_that_look_like_the_mark_of_text_stay_bytes():
    odd = np.array([b"\xf8\x3f\x01", b"\xf8\x3f\x01"], object)
    form, layout = TensorFormat(), SavedLayout.of(odd)
    writer = ChunkWriter(form, layout, None)
    writer.add([odd], 1 << 40)
    data, contents = writer.finish()
    (back,) = rows_of(form, layout, contents, data.to_pybytes(), range(1))

    assert back.tolist() == odd.tolist()


def test_a_part_that_tensorflow_cannot_hold_is_named():
    layout = SavedLayout.of({"x": np.int64(1), "when": np.datetime64("2026-01-01", "D")})
    with pytest.raises(DatasetError, match=r"'when' cannot be .* TensorFlow has no dtype datetime"):
        TensorFormat().check(layout)

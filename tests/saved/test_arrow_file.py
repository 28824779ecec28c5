import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.errors import DatasetError, ElementError
from penstock.saved import arrow_file
from penstock.saved.arrow_file import ArrowWriter
from penstock.saved.layout import SavedLayout
from tests.frames.nests import nest_kinds
from tests.ops.conftest import plain

pa = pytest.importorskip("pyarrow")


def written(elements, sizes=(), limit=1 << 40, compression="zstd"):
    """Write *elements*, added in blocks of these *sizes*; return the bytes and what they hold."""
    writer = ArrowWriter(SavedLayout.of(elements[0]), compression)
    left = list(elements)
    for size in [*sizes, len(left)]:
        block, left = left[:size], left[size:]
        while block:
            added = writer.add(block, limit)
            block = block[added:]
    return writer.finish()


@given(nest_kinds.flatmap(lambda kind: st.lists(kind, min_size=1, max_size=7)))
def test_elements_of_every_kind_come_back(elements):
    try:
        layout = SavedLayout.of(elements[0])
        layout.columns(elements)
        data, contents = written(elements)
    except ElementError:  # they are not alike
        assume(False)
    except DatasetError as exc:
        assert "surrogates" in str(exc)  # noqa: PT017
        assume(False)
    found, back = arrow_file.elements(data.to_pybytes(), 0, len(elements))

    assert found.to_text() == layout.to_text()
    assert found.kinds == layout.kinds
    assert list(map(plain, back)) == list(map(plain, elements))
    assert contents.count == len(elements)
    assert contents.nbytes == data.size


def sample(i):
    return {"x": np.int64(i), "text": "a" * (i % 7), "tokens": np.arange(i % 13)}


def test_the_bytes_do_not_depend_on_the_blocks_in_which_elements_come():
    elements = [sample(i) for i in range(40_000)]
    whole = written(elements)
    for sizes in ([1] * 50, [999, 7, 12_345], [20_000]):
        again = written(elements, sizes)

        assert again[0] == whole[0]
        assert again[1] == whole[1]
    assert len(whole[1].groups) == 3


def test_a_chunk_ends_with_the_element_that_fills_it():
    elements = [np.zeros(100, np.uint8)] * 50
    writer = ArrowWriter(SavedLayout.of(elements[0]), None)

    assert writer.add(elements[:3], 1000) == 3
    assert writer.add(elements, 1000) == 7
    assert writer.nbytes == 1080
    assert writer.finish()[1].count == 10


def test_an_element_that_is_not_like_the_others_is_named():
    layout = SavedLayout.of({"x": np.int64(1)})

    with pytest.raises(ElementError, match=r"\{'x': float64\} is not like the elements before it"):
        layout.columns([{"x": np.int64(1)}, {"x": np.float64(1)}])
    with pytest.raises(ElementError, match=r"\{'y': int64\} is not like"):
        layout.columns([{"y": np.int64(1)}])
    with pytest.raises(ElementError, match="without any part"):
        SavedLayout.of(())


def test_columns_are_named_by_keys_and_positions():
    element = {"image": {"pixels": np.zeros((2, 2)), "label": np.int64(1)}, "pair": ("a", "b")}

    assert SavedLayout.of(element).names == ("image.pixels", "image.label", "pair.0", "pair.1")
    assert SavedLayout.of(np.int64(1)).names == ("element",)
    assert SavedLayout.of({"a.b": "", "a": {"b": ""}}).names == ("0", "1")


def test_others_read_numbers_text_and_lists_as_such():
    data, _ = written([sample(i) for i in range(5)])
    table = pa.ipc.open_file(data).read_all()

    assert table.schema.names == ["x", "text", "tokens"]
    assert table.to_pylist()[3] == {"x": 3, "text": "aaa", "tokens": [0, 1, 2]}
    table.validate(full=True)


def test_text_that_is_no_unicode_names_its_column():
    with pytest.raises(DatasetError, match="column 'a' cannot be written in the format 'arrow'"):
        written([{"a": "\ud800"}])


@pytest.mark.parametrize("text", ["", "AAAA", "!", "kqRhYmNk"])
def test_text_that_is_no_layout_is_refused(text):
    with pytest.raises(ValueError, match="this is no layout of elements"):
        SavedLayout.from_text(text)

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.errors import DatasetError, ElementError
from penstock.saved import chunk_format
from penstock.saved.chunk_format import ChunkWriter, rows_of
from penstock.saved.formats import FORMATS
from penstock.saved.layout import SavedLayout
from tests.frames.nests import nest_kinds
from tests.ops.conftest import plain

pytest.importorskip("pyarrow")

EACH = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)


def written(form, elements, sizes=(), limit=1 << 40):
    """Write *elements*, added in blocks of these *sizes*; return the bytes and what they hold."""
    writer = ChunkWriter(form, SavedLayout.of(elements[0]), form.compressions[0])
    left = list(elements)
    for size in [*sizes, len(left)]:
        block, left = left[:size], left[size:]
        while block:
            added = writer.add(block, limit)
            block = block[added:]
    return writer.finish()


@EACH
@given(elements=nest_kinds.flatmap(lambda kind: st.lists(kind, min_size=1, max_size=7)))
def test_elements_of_every_kind_come_back_or_are_refused_by_the_name_of_their_part(form, elements):
    try:
        layout = SavedLayout.of(elements[0])
        layout.columns(elements)
    except ElementError:  # they are not alike
        assume(False)
    try:
        form.check(layout)
        data, contents = written(form, elements)
    except DatasetError as exc:
        assert any(repr(name) in str(exc) for name in layout.names)  # noqa: PT017
        return
    back = rows_of(form, layout, contents, data.to_pybytes(), range(len(elements)))

    assert SavedLayout.from_text(layout.to_text()).kinds == layout.kinds
    assert list(map(plain, back)) == list(map(plain, elements))
    assert contents.count == len(elements)
    assert contents.nbytes == data.size


def sample(i):
    return {"x": np.int64(i), "text": "a" * (i % 7), "tokens": np.arange(i % 13)}


@EACH
def test_the_bytes_do_not_depend_on_the_blocks_in_which_elements_come(form, monkeypatch):
    monkeypatch.setattr(chunk_format, "GROUP_COUNT", 700)
    elements = [sample(i) for i in range(2000)]
    whole = written(form, elements)
    for sizes in ([1] * 50, [699, 7, 834], [1000]):
        again = written(form, elements, sizes)

        assert again[0] == whole[0]
        assert again[1] == whole[1]
    assert len([group for group in whole[1].groups if group.count]) == 3


@EACH
def test_any_rows_of_a_chunk_can_be_read(form, monkeypatch):
    monkeypatch.setattr(chunk_format, "GROUP_COUNT", 700)
    elements = [sample(i) for i in range(2000)]
    data, contents = written(form, elements)
    for rows in (range(5), range(690, 1401), range(1999, 2000)):
        back = rows_of(form, SavedLayout.of(elements[0]), contents, data.to_pybytes(), rows)

        assert list(map(plain, back)) == [plain(elements[row]) for row in rows]


def test_a_chunk_ends_with_the_element_that_fills_it():
    elements = [np.zeros(100, np.uint8)] * 50
    writer = ChunkWriter(FORMATS["arrow"], SavedLayout.of(elements[0]), None)

    assert writer.add(elements[:3], 1000) == 3
    assert [list(sizes) for sizes in writer.sizes] == [[108, 216, 324]]
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


@pytest.mark.parametrize("text", ["", "AAAA", "!", "kqRhYmNk"])
def test_text_that_is_no_layout_is_refused(text):
    with pytest.raises(ValueError, match="this is no layout of elements"):
        SavedLayout.from_text(text)

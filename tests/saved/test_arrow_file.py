import pytest

from penstock.errors import DatasetError
from penstock.saved.arrow_file import ArrowFormat
from tests.saved.test_chunk_format import sample, written

pa = pytest.importorskip("pyarrow")


def test_others_read_numbers_text_and_lists_as_such():
    data, _ = written(ArrowFormat(), [sample(i) for i in range(5)])
    table = pa.ipc.open_file(data).read_all()

    assert table.schema.names == ["x", "text", "tokens"]
    assert table.to_pylist()[3] == {"x": 3, "text": "aaa", "tokens": [0, 1, 2]}
    table.validate(full=True)


def test_text_that_is_no_unicode_names_its_column():
    with pytest.raises(DatasetError, match="column 'a' has a value that cannot be written"):
        written(ArrowFormat(), [{"a": "\ud800"}])

import os
import sys
from random import Random

import pytest
from array_record.python.array_record_module import ArrayRecordWriter

from penstock.dataset.dataset import Dataset
from penstock.errors import MissingExtra, TransformError

RECORDS = [Random(i).randbytes(100) for i in range(3000)]


@pytest.fixture
def file(tmp_path):
    writer = ArrayRecordWriter(str(tmp_path / "f"), "group_size:4")
    for record in RECORDS:
        writer.write(record)
    writer.close()
    return tmp_path / "f"


def test_a_damaged_group_costs_its_records_only(file):
    data = bytearray(file.read_bytes())
    data[70_000] ^= 255
    file.write_bytes(data)

    with pytest.raises(TransformError, match=r"hash mismatch.*\(record 5\d\d of .*/f\)"):
        list(Dataset.array_records(file))
    left = list(Dataset.array_records(file).ignore_errors(log=None))

    assert len(left) == 2996
    assert [each for each in RECORDS if each in set(left)] == left


def test_a_file_of_another_format_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(os.urandom(1000))

    with pytest.raises(TransformError, match=r"array_records\(.*it is no ArrayRecord file"):
        list(Dataset.array_records(tmp_path / "f"))


def test_a_remote_file_is_read_whole_by_its_first_part(file):
    import fsspec

    from tests.ops.internal.test_file_parts import parted, units_of

    remote = fsspec.filesystem("memory")
    remote.pipe("/records", file.read_bytes())
    dataset = parted(Dataset.array_records("memory://records"), 2_000)

    assert len(units_of(dataset)) > 3
    assert list(dataset) == RECORDS
    iterator = dataset.iterator()
    before = [next(iterator) for _ in range(1700)]
    assert before + list(dataset.iterator(iterator.state())) == RECORDS


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "array_record", None)  # as if it were not installed

    with pytest.raises(MissingExtra, match=r'pip install "penstock\[array-record\]"'):
        Dataset.array_records("f")

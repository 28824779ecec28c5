"""Where a TFRecord file is cut, records are found again, and only those that there are."""

from __future__ import annotations

import io
import os
import struct
from dataclasses import replace

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import TransformError
from penstock.ops.internal import record_starts
from penstock.ops.internal.record_starts import find_start


def checksum(data):
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + checksum(length) + data + checksum(data)


def starts_of(records):
    starts, at = [], 0
    for each in records:
        starts.append(at)
        at += len(each)
    return starts


@given(st.lists(st.binary(max_size=60) | st.just(bytes(80)), max_size=12), st.data())
def test_from_any_byte_the_next_record_is_found(datas, data):
    records = [record(each) for each in datas]
    file = b"".join(records)
    start = data.draw(st.integers(0, len(file)))

    found = find_start(io.BytesIO(file), start, len(file), len(file))

    assert found == next((at for at in starts_of(records) if at >= start), None)


def test_records_are_found_across_the_pieces_that_are_read(monkeypatch):
    monkeypatch.setattr(record_starts, "CHUNK", 64)
    records = [record(os.urandom(500)), record(b"x"), record(b"y")]
    file = b"".join(records)

    assert find_start(io.BytesIO(file), 1, len(file), len(file)) == len(records[0])


def parts(path, nbytes):
    return Dataset(replace(Dataset.tfrecords(path).node, part_bytes=nbytes))


def test_one_header_in_the_data_is_taken_for_none(tmp_path):
    decoy = record(b"decoy")[:12] + os.urandom(100)
    datas = [decoy * 3, b"a" * 50, decoy, b"b" * 50] * 5
    (tmp_path / "f").write_bytes(b"".join(map(record, datas)))

    assert list(parts(tmp_path / "f", 50)) == datas


def test_a_record_that_holds_a_long_file_of_records_is_an_error_and_never_an_element(tmp_path):
    inner = b"".join(record(b"%d" % n * 30) for n in range(3000))
    datas = [b"first", inner, b"last"]
    (tmp_path / "f").write_bytes(b"".join(map(record, datas)))

    with pytest.raises(TransformError, match="a record holds what looks like records itself"):
        list(parts(tmp_path / "f", 60_000))
    assert list(Dataset.tfrecords(tmp_path / "f")) == datas


def test_a_damaged_length_costs_the_rest_of_its_part_and_no_record_is_repeated(tmp_path):
    datas = [b"%03d" % n + bytes(97) for n in range(100)]
    data = bytearray(b"".join(map(record, datas)))
    data[50 * 116] ^= 1
    (tmp_path / "f").write_bytes(data)
    rows, got, failed = parts(tmp_path / "f", 2000).iterator(), [], 0

    while True:
        try:
            got.append(next(rows))
        except StopIteration:
            break
        except TransformError as exc:
            assert "the checksum of the record's length is wrong" in str(exc)
            failed += 1

    assert failed == 1
    assert got[:50] == datas[:50]
    assert got == sorted(set(got))


def test_a_compressed_file_is_recognised_and_its_first_part_has_everything(tmp_path):
    import gzip

    datas = [os.urandom(50) for _ in range(100)]
    (tmp_path / "f").write_bytes(gzip.compress(b"".join(map(record, datas))))

    assert list(parts(tmp_path / "f", 1000)) == datas


def test_a_record_as_long_as_the_magic_bytes_of_gzip_say_is_a_record(tmp_path):
    data = bytes(0x088B1F)  # the length begins as a gzip file does
    (tmp_path / "f").write_bytes(record(data))

    assert list(Dataset.tfrecords(tmp_path / "f")) == [data]

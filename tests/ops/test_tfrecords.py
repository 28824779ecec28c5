import gzip
import random
import struct
import tracemalloc
import zlib

import google_crc32c
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, MissingFile, TransformError

PACK = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}


def tfrecords(files, compression=""):
    return Dataset.tfrecords(files, compression)


def mask(data):
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def packed(data):
    length = struct.pack("<Q", len(data))
    return length + mask(length) + data + mask(data)


def write(file, *datas, pack=bytes):
    file.write_bytes(pack(b"".join(map(packed, datas))))
    return file


@pytest.mark.parametrize("compression", PACK)
def test_records_come_file_after_file(check_states, tmp_path, compression):
    pack = PACK[compression]
    files = [
        write(tmp_path / "a", b"one", b"", b"x" * 1000, pack=pack),
        write(tmp_path / "b", pack=pack),
        write(tmp_path / "c", b"last", pack=pack),
    ]

    check_states(lambda: tfrecords(files, compression), [b"one", b"", b"x" * 1000, b"last"])


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.lists(st.binary(max_size=40), max_size=4), min_size=1, max_size=3))
def test_any_bytes_have_exact_states(check_states, tmp_path, parts):
    files = [write(tmp_path / str(i), *datas) for i, datas in enumerate(parts)]

    check_states(lambda: tfrecords(files), [data for datas in parts for data in datas])


def test_a_wrong_checksum_of_data_costs_one_record(check_states, tmp_path):
    file = tmp_path / "a"
    data = bytearray(b"".join(map(packed, [b"first", b"second", b"third"])))
    data[len(packed(b"first")) + 12] ^= 1
    file.write_bytes(data)

    whole = check_states(lambda: tfrecords([file]))

    assert (whole[0], whole[2]) == (b"first", b"third")
    assert "checksum of the record's data" in whole[1].text
    assert f"record 1, at byte {len(packed(b'first'))} of {file}" in whole[1].text


def test_a_wrong_checksum_of_a_length_costs_the_rest_of_the_file(check_states, tmp_path):
    data = bytearray(b"".join(map(packed, [b"first", b"second", b"third"])))
    data[len(packed(b"first"))] ^= 1
    (tmp_path / "a").write_bytes(data)
    files = [tmp_path / "a", write(tmp_path / "b", b"other")]

    whole = check_states(lambda: tfrecords(files))

    assert (whole[0], whole[2]) == (b"first", b"other")
    assert "checksum of the record's length" in whole[1].text


@pytest.mark.parametrize("missing", [1, 4, 8, 10, 20])
def test_a_file_that_is_cut_short_is_named(check_states, tmp_path, missing):
    data = packed(b"first") + packed(b"second")
    (tmp_path / "a").write_bytes(data[:-missing])

    whole = check_states(lambda: tfrecords([tmp_path / "a"]))

    assert whole[0] == b"first"
    assert "cut short" in whole[1].text
    assert "record 1" in whole[1].text


@pytest.mark.quick(1)
@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_compressed_file_that_is_cut_short_is_named_behind_what_could_be_read(
    check_states, tmp_path, compression
):
    noise = [random.Random(i).randbytes(1000) for i in range(300)]
    file = write(tmp_path / "a", *noise, pack=PACK[compression])
    file.write_bytes(file.read_bytes()[:-200_000])
    files = [file, write(tmp_path / "b", b"other", pack=PACK[compression])]

    *records, bad, other = check_states(lambda: tfrecords(files, compression), blocks=(64,))

    assert 0 < len(records) < 150
    assert records == noise[: len(records)]
    assert other == b"other"
    at = sum(len(packed(record)) for record in records)
    assert "EOFError" in bad.text
    assert f"record {len(records)}, at byte {at} of {file}" in bad.text


def test_gzip_whose_own_checksum_is_wrong_is_named_behind_its_records(tmp_path):
    data = bytearray(gzip.compress(packed(b"one") + packed(b"two")))
    data[-6] ^= 1
    (tmp_path / "a").write_bytes(data)
    it = iter(tfrecords([tmp_path / "a"], "GZIP"))

    assert [next(it), next(it)] == [b"one", b"two"]
    with pytest.raises(TransformError, match=f"BadGzipFile.*CRC.*record 2, .*{tmp_path / 'a'}"):
        next(it)
    assert list(it) == []


@pytest.mark.parametrize("compression", PACK)
@pytest.mark.parametrize(
    ("claimed", "said"),
    [(1 << 39, "claims 549755813888 bytes, and 2147483648 is the most"), (1 << 30, "cut short")],
)
def test_a_record_that_claims_more_than_there_is_takes_no_memory_for_it(
    tmp_path, compression, claimed, said
):
    head = struct.pack("<Q", claimed)
    liar = packed(b"one") + head + mask(head) + bytes(1 << 20)
    (tmp_path / "a").write_bytes(PACK[compression](liar))
    it = iter(tfrecords([tmp_path / "a"], compression))

    assert next(it) == b"one"
    tracemalloc.start()
    try:
        with pytest.raises(TransformError, match=said):
            next(it)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.quick(1)
@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_bomb_is_read_a_record_at_a_time(tmp_path, compression):
    (tmp_path / "a").write_bytes(PACK[compression](packed(bytes(1 << 20)) * 64))
    assert (tmp_path / "a").stat().st_size < 1 << 20
    it = iter(tfrecords([tmp_path / "a"], compression))

    tracemalloc.start()
    try:
        for _ in range(3):
            assert len(next(it)) == 1 << 20
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_file_that_is_not_compressed_is_named(tmp_path, compression):
    file = write(tmp_path / "a", b"one")

    with pytest.raises(TransformError, match=f"record 0, at byte 0 of {file}"):
        list(tfrecords([file], compression))


def test_bad_arguments_are_named(tmp_path):
    with pytest.raises(DatasetError, match="compression_type"):
        tfrecords(["a"], "LZ4")
    with pytest.raises(DatasetError, match="filenames"):
        Dataset.tfrecords([])
    with pytest.raises(MissingFile, match="gone"):
        list(tfrecords([tmp_path / "gone"]))


def test_the_files_of_a_pattern_are_read_in_the_order_of_their_names(check_states, tmp_path):
    write(tmp_path / "b.rec", b"3")
    write(tmp_path / "a.rec", b"1", b"2")

    check_states(lambda: tfrecords(tmp_path / "*.rec"), [b"1", b"2", b"3"])

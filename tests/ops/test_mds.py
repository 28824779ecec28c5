import gzip
import hashlib
import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, MissingFile, TransformError
from penstock.frames.compression import zstd_module


def shard(samples):
    """Return a shard as the format says: counts, offsets, a header, the samples."""
    header = json.dumps({"format": "mds"}).encode()
    begin = 4 + 4 * (len(samples) + 1) + len(header)
    ends = np.cumsum([begin, *map(len, samples)]).astype("<u4")
    return struct.pack("<I", len(samples)) + ends.tobytes() + header + b"".join(samples)


def write(folder, columns, rows, shards=1, compress=None, **entry):
    """Write *rows*, the encoded values of each column, with encodings and sizes by *columns*."""
    entries = []
    for i in range(shards):
        sizes = [size for _, size in columns.values()]
        samples = [
            b"".join(struct.pack("<I", len(v)) for size, v in zip(sizes, row) if size is None)
            + b"".join(row)
            for row in rows[i::shards]
        ]
        data = shard(samples)
        raw = {
            "basename": f"shard.{i:05}.mds",
            "bytes": len(data),
            "hashes": {"sha1": hashlib.sha1(data).hexdigest()},
        }
        zipped = None
        if compress is not None:
            (folder / f"shard.{i:05}.mds.zip").write_bytes(compress(data))
            zipped = {"basename": f"shard.{i:05}.mds.zip", "bytes": 0, "hashes": {}}
        else:
            (folder / f"shard.{i:05}.mds").write_bytes(data)
        entries.append(
            {
                "column_names": list(columns),
                "column_encodings": [e for e, _ in columns.values()],
                "column_sizes": [size for _, size in columns.values()],
                "compression": None,
                "format": "mds",
                "hashes": ["sha1"],
                "raw_data": raw,
                "samples": len(samples),
                "size_limit": 1 << 26,
                "version": 2,
                "zip_data": zipped,
                **entry,
            }  # fmt: skip
        )
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": entries}))


NUMBERS = {"n": ("int", 8), "t": ("str", None)}


def rows_of(count):
    return [(struct.pack("<q", n), f"text {n}".encode()) for n in range(count)]


def numbers(dataset):
    return [int(each["n"]) for each in dataset]


@pytest.mark.parametrize(
    "compress", [None, gzip.compress, lambda data: zstd_module().compress(data)]
)
def test_shards_follow_each_other_as_in_the_index(tmp_path, check_states, compress):
    write(tmp_path, NUMBERS, rows_of(10), shards=3, compress=compress)
    dataset = Dataset.mds(tmp_path)

    assert dataset.cardinality() == 10
    check_states(lambda: Dataset.mds(tmp_path), blocks=(1, 3, 64))
    assert numbers(dataset) == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]
    assert [each["t"] for each in dataset][:2] == ["text 0", "text 3"]


def test_values_of_all_encodings_are_decoded(tmp_path):
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    values = {
        "blob": ("bytes", None, b"\0\xff"),
        "count": ("uint16", 2, np.uint16(7).tobytes()),
        "real": ("float32", 4, np.float32(0.5).tobytes()),
        "plain": ("ndarray:int16:2,3", 12, array.tobytes()),
        "typed": ("ndarray:int16", None, bytes([2 << 2, 2, 3]) + array.tobytes()),
        "free": ("ndarray", None, bytes([17, 2 << 2, 2, 3]) + array.tobytes()),
        "wide": ("ndarray", None, struct.pack("<2B2H", 17, 2 << 2 | 1, 2, 3) + array.tobytes()),
        "note": ("json", None, b'{"x": [1, 2]}'),
        "big": ("str_int", None, b"12345"),
        "exact": ("str_decimal", None, b"1.10"),
        "half": ("str_float", None, b"0.5"),
        "photo": ("pil", None, struct.pack("<3I", 4, 2, 3) + b"RGB" + image.tobytes()),
        "file": ("jpeg", None, b"JFIF"),
    }  # fmt: skip
    columns = {name: (encoding, size) for name, (encoding, size, _) in values.items()}
    write(tmp_path, columns, [tuple(data for *_, data in values.values())])

    (got,) = Dataset.mds(tmp_path)

    for name in ("plain", "typed", "free", "wide"):
        assert got[name].dtype == np.int16
        assert got[name].tolist() == array.tolist()
    assert got["photo"].tolist() == image.tolist()
    assert (got["blob"], got["file"], got["exact"]) == (b"\0\xff", b"JFIF", "1.10")
    assert (got["count"], got["real"], got["big"], got["half"]) == (7, 0.5, 12345, 0.5)
    assert got["note"]["x"].tolist() == [1, 2]


def test_a_shard_that_is_not_the_one_of_the_index_is_named(tmp_path):
    write(tmp_path, NUMBERS, rows_of(3))
    file = tmp_path / "shard.00000.mds"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)

    with pytest.raises(TransformError, match=rf"mds\({file}\) failed .* its sha1 is not that"):
        list(Dataset.mds(tmp_path))


def test_a_damaged_sample_can_be_left_out(tmp_path):
    rows = rows_of(3)
    write(
        tmp_path,
        {"n": ("int", 8), "t": ("json", None)},
        [rows[0][:1] + (b"1",), rows[1][:1] + (b"{",), rows[2][:1] + (b"3",)],
    )

    assert numbers(Dataset.mds(tmp_path).ignore_errors()) == [0, 2]


class Loud:
    def __reduce__(self):
        return (Path("ran").touch, ())


def test_pickled_columns_run_nothing_unless_they_are_trusted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"x": ("pkl", None)}, [(pickle.dumps(Loud()),)])

    with pytest.raises(DatasetError, match="column 'x' is pickled, .* give pickled=True"):
        Dataset.mds(tmp_path)

    assert not (tmp_path / "ran").exists()
    write(tmp_path, {"x": ("pkl", None)}, [(pickle.dumps([1, 2]),)])
    (got,) = Dataset.mds(tmp_path, pickled=True)
    assert got["x"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"version": 1}, "is of format 'mds', version 1; only 'mds', version 2, can be read"),
        ({"format": "json"}, "is of format 'json', version 2"),
        ({"column_names": 3}, "index.json is malformed"),
        ({"column_encodings": ["int", "brotli"]}, "a column of encoding 'brotli' cannot be read"),
    ],
)
def test_an_index_that_is_not_understood_is_refused_at_once(tmp_path, entry, words):
    write(tmp_path, NUMBERS, rows_of(1), **entry)

    with pytest.raises(DatasetError, match=words):
        Dataset.mds(tmp_path)


def test_a_folder_without_an_index_is_refused_at_once(tmp_path):
    with pytest.raises(MissingFile, match="there is no .*/index.json: give the folder"):
        Dataset.mds(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(MissingFile, match="there is no .*/file/index.json: give the folder"):
        Dataset.mds(tmp_path / "file")
    with pytest.raises(DatasetError, match=r"folder must be one folder, not \['a', 'b'\]"):
        Dataset.mds(["a", "b"])
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(DatasetError, match="is no index"):
        Dataset.mds(tmp_path)


ARRAYS = [[1, 2], [3, 4], [5, 6], [7, 8], [9], [], [10, 11], [12, 13], [[14], [15]], [[16, 17]]]


def test_samples_read_column_by_column_are_those_read_one_by_one_where_sizes_and_shapes_change(
    tmp_path, check_states
):
    def encoded(values):
        array = np.asarray(values, "<i2")
        return bytes([17, array.ndim << 2, *array.shape]) + array.tobytes()

    columns = {"a": ("ndarray", None), "n": ("int", 8), "x": ("float32", 4)}
    rows = [
        [encoded(values), struct.pack("<q", i), struct.pack("<f", i / 2)]
        for i, values in enumerate(ARRAYS)
    ]
    write(tmp_path, columns, rows)

    found = list(Dataset.mds(tmp_path))
    by_column = list(Dataset.mds(tmp_path).take(4).batch(4))

    assert [one["a"].tolist() for one in found] == ARRAYS
    assert [(one["n"], one["x"]) for one in found] == [(i, i / 2) for i in range(len(ARRAYS))]
    assert {one["a"].dtype for one in found} == {np.dtype("int16")}
    assert {(type(one["n"]), type(one["x"])) for one in found} == {(np.int64, np.float32)}
    assert by_column[0]["a"].tolist() == ARRAYS[:4]
    check_states(lambda: Dataset.mds(tmp_path), blocks=(1, 3, 7))

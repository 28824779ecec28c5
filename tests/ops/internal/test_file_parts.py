"""What all sources promise that read files in parts: one contract, tried on each of them."""

from __future__ import annotations

import csv
import io
import json
import os
import struct
import tarfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

from penstock import files
from penstock.analysis.sharding import split_providers
from penstock.dataset.dataset import Dataset
from penstock.element import leaves
from penstock.errors import DatasetError, FileChanged, MissingFile, StateError
from penstock.file_parts import FilePart
from penstock.ops.array_records import ArrayRecords
from penstock.ops.internal.file_parts import NamedFiles
from penstock.protocol.splits import Split


@dataclass(frozen=True)
class Kind:
    """A source, and how a tool that is not Penstock makes a file of *count* elements for it."""

    make: Callable[..., Dataset]
    write: Callable[[Path, range], None]
    number: Callable[[Any], int]


def write_json(path, numbers):
    path.write_text("".join(json.dumps({"n": n, "text": "x" * (n % 90)}) + "\n" for n in numbers))


def write_tar(path, numbers):
    with tarfile.open(path, "w") as tar:
        for n in numbers:
            for field, data in (("bin", os.urandom(n % 700)), ("n", str(n).encode())):
                info = tarfile.TarInfo(f"{'deep/' * (n % 3) * 12}{n:06}.{field}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def table(numbers):
    return pa.table({"n": list(numbers), "text": [f"{n}" for n in numbers]})


def write_parquet(path, numbers):
    pq.write_table(table(numbers), path, row_group_size=7)


def write_arrow(path, numbers):
    with (
        pa.OSFile(str(path), "wb") as out,
        pa.ipc.new_file(out, table(()).cast(SCHEMA).schema) as file,
    ):
        for batch in table(numbers).cast(SCHEMA).to_batches(max_chunksize=5):
            file.write_batch(batch)


def write_array_record(path, numbers):
    plain = path.with_name("plain.array_record")
    writer = ArrayRecordWriter(str(plain), "group_size:4,pad_to_block_boundary:false")
    for n in numbers:
        writer.write(f"{n}|{'x' * (n % 90)}".encode())
    writer.close()
    plain.rename(path)


def write_mds(path, numbers):
    """Write the folder of *path* as the format says: one shard."""
    samples = [
        struct.pack("<I", len(text := f"{n}".encode())) + struct.pack("<q", n) + text
        for n in numbers
    ]
    header = json.dumps({}).encode()
    begin = 4 + 4 * (len(samples) + 1) + len(header)
    ends = np.cumsum([begin, *map(len, samples)]).astype("<u4")
    data = struct.pack("<I", len(samples)) + ends.tobytes() + header + b"".join(samples)
    path.with_name(f"{path.name}.mds").write_bytes(data)
    raw = {"basename": f"{path.name}.mds", "bytes": len(data), "hashes": {}}
    entry = {
        "column_encodings": ["int", "str"], "column_names": ["n", "text"],
        "column_sizes": [8, None], "compression": None, "format": "mds", "hashes": [],
        "raw_data": raw, "samples": len(samples), "size_limit": 1 << 26, "version": 2,
        "zip_data": None,
    }  # fmt: skip
    (path.parent / "index.json").write_text(json.dumps({"version": 2, "shards": [entry]}))


def write_text(path, numbers):
    path.write_text("".join(f"{n} {'x' * (n % 90)}\n" for n in numbers))


def write_csv(path, numbers):
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["n", "text"])
        rows.writerows([n, f"a, {'x' * (n % 90)}"] for n in numbers)


def checksum(data):
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + checksum(length) + data + checksum(data)


def write_tfrecords(path, numbers):
    path.write_bytes(b"".join(record(struct.pack("<q", n) + bytes(n % 90)) for n in numbers))


def write_fixed(path, numbers):
    path.write_bytes(b"head" + b"".join(struct.pack("<q", n) * 6 for n in numbers) + b"foo")


def fixed(files):
    return Dataset.fixed_length_records(files, 48, 4, 3)


def rows(files):
    return Dataset.csv(files, column_defaults={"n": int, "text": str}, newlines_in_values=False)


def packed_number(data):
    return struct.unpack_from("<q", data)[0]


SCHEMA = pa.schema({"n": pa.int64(), "text": pa.string()})
NAMED = {
    "text_lines": Kind(Dataset.text_lines, write_text, lambda e: int(e.split()[0])),
    "csv": Kind(rows, write_csv, lambda e: int(e["n"])),
    "tfrecords": Kind(Dataset.tfrecords, write_tfrecords, packed_number),
    "fixed_length_records": Kind(fixed, write_fixed, packed_number),
}
"""The sources that take names, and no patterns."""

KINDS = NAMED | {
    "json_lines": Kind(Dataset.json_lines, write_json, lambda e: int(e["n"])),
    "webdataset": Kind(Dataset.webdataset, write_tar, lambda e: int(e["n"])),
    "parquet": Kind(Dataset.parquet, write_parquet, lambda e: int(e["n"])),
    "arrow": Kind(Dataset.arrow, write_arrow, lambda e: int(e["n"])),
    "array_records": Kind(
        Dataset.array_records, write_array_record, lambda e: int(e.partition(b"|")[0])
    ),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=sorted(KINDS.keys() - NAMED.keys()))
def searching_kind(request):
    return KINDS[request.param]


def parted(dataset, nbytes):
    """Return *dataset*, a source, with parts of about *nbytes* of a file of 100 short elements."""
    node = dataset.node
    if isinstance(node, ArrayRecords):
        nbytes *= 50  # padding makes its files so much larger
    if isinstance(node, NamedFiles):
        return Dataset(replace(node, part_bytes=nbytes))
    return Dataset(replace(node, pattern=replace(node.pattern, part_bytes=nbytes)))


def rewrite(kind, path, numbers):
    """Write *path* again, at another time: all writes in one tick of the clock have one time."""
    kind.write(path, numbers)
    os.utime(path, ns=(7, 7))


def units_of(dataset):
    return files.listing("test", dataset.node.units())


@pytest.mark.parametrize("nbytes", [1, 300, 4000, 1 << 30])
def test_parts_of_any_size_have_all_elements_in_the_order_of_the_file(kind, tmp_path, nbytes):
    numbers = range(3 if nbytes == 1 else 100)
    kind.write(tmp_path / "f", numbers)

    dataset = parted(kind.make(tmp_path / "f"), nbytes)

    assert [kind.number(each) for each in dataset] == list(numbers)
    if nbytes == 300:
        assert len(units_of(dataset)) > 5


@pytest.mark.parametrize("nbytes", [200, 1 << 30])
def test_states_are_exact_at_each_element(kind, check_states, tmp_path, nbytes):
    kind.write(tmp_path / "a", range(11))
    kind.write(tmp_path / "b", range(0))
    kind.write(tmp_path / "c", range(11, 15))

    whole = check_states(
        lambda: parted(kind.make([tmp_path / "a", tmp_path / "b", tmp_path / "c"]), nbytes),
        blocks=(1, 3, 64),
    )

    assert len(whole) == 15


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_tasks_that_draw_parts_have_each_element_once(kind, tmp_path, tasks):
    kind.write(tmp_path / "f", range(60))
    dataset = parted(kind.make(tmp_path / "f"), 250)
    (provider,) = split_providers(dataset.node)
    names, rng = units_of(dataset), Random(tasks)

    logs = [[] for _ in range(tasks)]
    for i, name in enumerate(names):
        rng.choice(logs).append(Split(i, i + 1, (name,)))
    made = [run(dataset.node, provider, [*log, Split(len(names), len(names))]) for log in logs]

    assert Counter(kind.number(e) for task in made for e in task) == Counter(range(60))


def run(node, provider, log):
    from penstock.analysis.sharding import assignments
    from penstock.engine.context import Context
    from penstock.engine.splits import SplitReader
    from penstock.graph.run import open_root

    splits = SplitReader(lambda _stream, position: log[position])
    opened = open_root(node, Context(1, splits=splits, providers=assignments([provider])))
    out = []
    while block := opened.block(3):
        out += block
    return out


def test_a_batch_right_behind_is_that_of_the_elements(kind, tmp_path):
    kind.write(tmp_path / "f", range(50))
    dataset = parted(kind.make(tmp_path / "f"), 300).map(lambda e: {"n": kind.number(e)})

    batches = list(dataset.batch(8))

    assert [len(batch["n"]) for batch in batches] == [8] * 6 + [2]
    assert np.concatenate([batch["n"] for batch in batches]).tolist() == list(range(50))


def test_a_file_that_is_replaced_in_mid_run_is_an_error_that_names_it(kind, tmp_path):
    kind.write(tmp_path / "f", range(100))
    iterator = parted(kind.make(tmp_path / "f"), 300).iterator()
    next(iterator)

    rewrite(kind, tmp_path / "f", range(500, 600))

    with pytest.raises(FileChanged, match=rf"{tmp_path}/f was changed since it was listed"):
        list(iterator)


def test_a_file_that_is_written_to_while_it_is_read_is_an_error_at_its_end(kind, tmp_path):
    kind.write(tmp_path / "f", range(100))
    iterator = kind.make(tmp_path / "f").iterator()
    next(iterator)

    os.utime(tmp_path / "f", ns=(1, 1))

    with pytest.raises(FileChanged, match=rf"{tmp_path}/f was changed since it was listed"):
        list(iterator)


def test_a_state_of_another_list_of_files_is_refused(searching_kind, tmp_path):
    kind = searching_kind
    kind.write(tmp_path / "a.x", range(10))
    iterator = kind.make(str(tmp_path / "*.x")).iterator()
    next(iterator)
    state = iterator.state()
    kind.write(tmp_path / "b.x", range(10))

    with pytest.raises(StateError, match=r"have changed since the state was saved"):
        next(kind.make(str(tmp_path / "*.x")).iterator(state))


@pytest.mark.parametrize("name", sorted(KINDS.keys() - {"text_lines", "csv"}))
def test_a_cut_file_is_an_error_that_names_it_and_loses_nothing_before(name, tmp_path):
    kind = KINDS[name]  # half a line of text is a line
    kind.write(tmp_path / "f", range(100))
    data = (tmp_path / "f").read_bytes()
    (tmp_path / "f").write_bytes(data[: len(data) // 2 + 13])

    with pytest.raises(Exception, match=rf"{tmp_path}/f"):
        list(kind.make(tmp_path / "f"))


def test_a_pattern_that_matches_nothing_says_so(searching_kind, tmp_path):
    with pytest.raises(MissingFile, match=r"no file matches"):
        list(searching_kind.make(str(tmp_path / "*.x")))


def test_a_name_of_no_file_says_so(kind, tmp_path):
    with pytest.raises(MissingFile, match=rf"there is no file '{tmp_path}/f'"):
        list(kind.make(tmp_path / "f"))


@pytest.mark.parametrize(
    "name", ["[odd] name*?.x", "ä€😀.x", "a\udcffb.x", "x" * 250, "{1..3}.x", "a,b{c,d}"]
)
def test_a_file_with_an_odd_name_is_read(kind, tmp_path, name):
    path = Path(os.fsdecode(os.fsencode(tmp_path / name)))
    kind.write(tmp_path / "plain", range(5))
    (tmp_path / "plain").rename(path)  # not all of the tools can write such a name

    assert [kind.number(each) for each in kind.make(path)] == list(range(5))


def test_braces_stand_for_files_in_their_order(searching_kind, tmp_path):
    kind = searching_kind
    for n in (8, 9, 10):
        kind.write(tmp_path / f"s-{n:02}.x", range(n, n + 1))

    assert [kind.number(e) for e in kind.make(f"{tmp_path}/s-{{08..10}}.x")] == [8, 9, 10]


def test_elements_are_plain(kind, tmp_path):
    kind.write(tmp_path / "f", range(3))

    for element in kind.make(tmp_path / "f"):
        assert all(isinstance(leaf, (np.generic, str, bytes)) for leaf in leaves(element))


def test_a_state_of_other_files_is_refused(kind, tmp_path):
    kind.write(tmp_path / "f", range(10))
    iterator = kind.make(tmp_path / "f").iterator()
    next(iterator)
    state = iterator.state()
    rewrite(kind, tmp_path / "f", range(12))

    with pytest.raises(StateError, match=r"have changed since the state was saved"):
        next(kind.make(tmp_path / "f").iterator(state))


def test_a_file_given_twice_is_read_twice(kind, tmp_path):
    kind.write(tmp_path / "f", range(10))

    twice = parted(kind.make([tmp_path / "f", tmp_path / "f"]), 100)

    assert [kind.number(e) for e in twice] == [*range(10)] * 2


def test_a_part_names_a_file_its_bytes_and_its_version():
    part = FilePart("a\x1fb", 3, 9, "77.1")

    assert FilePart.of(str(part)) == part
    assert FilePart.of("plain") == FilePart("plain", 0, None, "")


def test_a_file_that_is_removed_while_it_is_read_is_an_error_that_names_it(kind, tmp_path):
    kind.write(tmp_path / "f", range(10))
    iterator = kind.make(tmp_path / "f").iterator()
    next(iterator)

    (tmp_path / "f").unlink()

    with pytest.raises(MissingFile, match=rf"there is no file '{tmp_path}/f'"):
        list(iterator)


def test_a_remote_file_that_cannot_be_looked_up_says_why(kind):
    with pytest.raises(MissingFile, match=r"there is no file 'memory://none'"):
        list(kind.make("memory://none"))
    with pytest.raises(DatasetError, match=r"cannot read 'nosuch://x': Protocol not known"):
        list(kind.make("nosuch://x"))

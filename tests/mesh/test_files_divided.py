"""Each way to divide a dataset, over one large file of each kind; states of undivided files."""

from __future__ import annotations

import struct
from dataclasses import replace

import google_crc32c
import pytest

from penstock.dataset.dataset import Dataset
from penstock.ops.internal.file_parts import NamedFiles
from penstock.service import ShardingPolicy
from penstock_dispatcher.config import DispatcherConfig

COUNT = 1200
HERE = "127.0.0.1"


def text(path):
    path.write_text("".join(f"{n}\n" for n in range(COUNT)))
    return Dataset.text_lines(path), int


def csv(path):
    path.write_text("n\n" + "".join(f"{n}\n" for n in range(COUNT)))
    rows = Dataset.csv(path, column_defaults={"n": int}, newlines_in_values=False)
    return rows, lambda row: int(row["n"])


def tfrecords(path):
    path.write_bytes(b"".join(record(b"%d" % n) for n in range(COUNT)))
    return Dataset.tfrecords(path), int


def fixed(path):
    path.write_bytes(b"".join(b"%05d" % n for n in range(COUNT)))
    return Dataset.fixed_length_records(path, 5), int


def json(path):
    path.write_text("".join(f'{{"n": {n}}}\n' for n in range(COUNT)))
    return Dataset.json_lines(path), lambda row: int(row["n"])


def checksum(data):
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + checksum(length) + data + checksum(data)


def parted(dataset, nbytes):
    node = dataset.node
    if isinstance(node, NamedFiles):
        return Dataset(replace(node, part_bytes=nbytes))
    return Dataset(replace(node, pattern=replace(node.pattern, part_bytes=nbytes)))


SOURCES = [text, csv, tfrecords, fixed, json]


@pytest.mark.slow
def test_each_policy_gives_each_element_of_one_large_file_once(clusters, tmp_path):
    config = DispatcherConfig(worker_addresses=(HERE, f"{HERE}:*"))
    with clusters.own(2, dispatcher=config) as cluster:
        for write in SOURCES:
            source, number = write(tmp_path / write.__name__)
            dataset = parted(source, 1000)
            for policy in (
                ShardingPolicy.FILE,
                ShardingPolicy.DATA,
                ShardingPolicy.FILE_OR_DATA,
                ShardingPolicy.DYNAMIC,
            ):
                far = dataset.distribute(policy, cluster.target)
                assert sorted(map(number, far)) == list(range(COUNT)), (write, policy)


def divide(monkeypatch, nbytes):
    """Let sources that take names have parts of about *nbytes*; 0: files are not divided."""
    units = NamedFiles.units
    monkeypatch.setattr(NamedFiles, "units", lambda node: replace(units(node), part_bytes=nbytes))


@pytest.mark.quick(4)
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("write", SOURCES[:4])
def test_a_state_of_files_that_were_not_divided_continues(
    cluster, tmp_path, monkeypatch, write, ordered
):
    source, number = write(tmp_path / "f")
    divide(monkeypatch, 0)
    far = source.distribute("distributed_epoch", cluster.target, ordered=ordered)
    with far.iterator() as before:
        got = [number(next(before)) for _ in range(500)]
        state = before.state()

    divide(monkeypatch, 1000)
    got += map(number, far.iterator(state))

    assert sorted(got) == list(range(COUNT))
    assert not ordered or got == sorted(got)

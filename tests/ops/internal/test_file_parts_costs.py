"""How many bytes sources of files read, how often they list, and that processes agree."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

from penstock import files
from penstock.analysis.sharding import split_providers
from penstock.dataset.dataset import Dataset
from penstock.ops.internal.file_parts import NamedFiles
from penstock.protocol.splits import Split
from penstock.storage import hedging
from penstock.storage.counts import counted
from penstock.storage.ranged_file import PIECE
from tests.ops.internal.test_file_parts import (
    KINDS,
    SCHEMA,
    record,
    run,
    units_of,
    write_fixed,
)

COUNT, EACH = 20_000, 1200
MANY = 100_000


@pytest.fixture(params=KINDS)
def name(request):
    return request.param


def bodies():
    data = np.random.default_rng(1).integers(0, 256, COUNT * EACH // 2, np.uint8).tobytes().hex()
    return [data[i * EACH : (i + 1) * EACH] for i in range(COUNT)]


def write_large(name, path):
    """Write 24 MB in units of a usual size, such as row groups of 1,000 rows."""
    match name:
        case "json_lines":
            path.write_text("".join(json.dumps({"n": n, "t": t}) + "\n" for n, t in rows()))
        case "text_lines":
            path.write_text("".join(f"{n} {t}\n" for n, t in rows()))
        case "csv":
            with path.open("w", newline="") as file:
                csv.writer(file).writerows([("n", "text"), *rows()])
        case "tfrecords":
            path.write_bytes(b"".join(record(struct.pack("<q", n) + t.encode()) for n, t in rows()))
        case "fixed_length_records":
            write_fixed(path, range(COUNT * EACH // 48))
        case "webdataset":
            write_images(path)
        case "parquet":
            pq.write_table(large_table(), path, row_group_size=1000)
        case "arrow":
            with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, SCHEMA) as file:
                file.write_table(large_table(), max_chunksize=1000)
        case "array_records":
            plain = path.with_name("plain.array_record")
            writer = ArrayRecordWriter(str(plain), "group_size:500")
            for n, text in rows():
                writer.write(f"{n}|{text}{text[::-1]}".encode())  # it compresses text
            writer.close()
            plain.rename(path)


def write_images(path):
    body = os.urandom(100_000)
    with tarfile.open(path, "w") as tar:
        for n in range(250):
            for field, data in (("bin", body), ("n", str(n).encode())):
                info = tarfile.TarInfo(f"{n:06}.{field}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def rows():
    return enumerate(bodies())


def large_table():
    return pa.table({"n": range(COUNT), "text": bodies()}, SCHEMA)


def in_two_parts(dataset, nbytes):
    node = dataset.node
    if isinstance(node, NamedFiles):
        return Dataset(replace(node, part_bytes=nbytes // 2))
    return Dataset(replace(node, pattern=replace(node.pattern, part_bytes=nbytes // 2)))


def read_so_far():
    """Return how many bytes this process has read by system calls, those of libraries included."""
    told = Path("/proc/self/io").read_text().split()
    return int(told[told.index("rchar:") + 1])


@pytest.mark.quick(4)
def test_a_local_file_in_two_parts_is_read_once(name, tmp_path):
    write_large(name, tmp_path / "f")
    size = (tmp_path / "f").stat().st_size
    dataset = in_two_parts(KINDS[name].make(tmp_path / "f"), size)
    assert len(units_of(dataset)) in (1, 2)
    first = next(iter(dataset))  # imports modules
    assert KINDS[name].number(first) == 0

    before = read_so_far()
    numbers = [KINDS[name].number(element) for element in dataset]

    assert read_so_far() - before <= 1.1 * size
    assert numbers == list(range(len(numbers)))


@pytest.mark.quick(4)
def test_a_remote_file_in_two_parts_is_read_once(name, bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(hedging, "FIRST_DELAY", 60.0)
    bucket.tag = lambda _: '"t"'  # an MD5 of all for each request takes long
    write_large(name, tmp_path / "f")
    bucket.objects["data/f"] = data = (tmp_path / "f").read_bytes()
    dataset = in_two_parts(KINDS[name].make("s3://data/f"), len(data))

    before = counted()
    numbers = [KINDS[name].number(element) for element in dataset]

    assert counted().nbytes - before.nbytes <= 1.1 * len(data)
    assert bucket.sent <= 1.1 * len(data)
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("name", ["json_lines", "webdataset", "array_records"])
def test_a_remote_file_that_cannot_be_divided_comes_in_large_pieces(name, bucket, tmp_path):
    write_large(name, tmp_path / "f")
    data = (tmp_path / "f").read_bytes()
    bucket.objects["data/f"] = data = gzip.compress(data, 1) if name == "json_lines" else data
    bucket.tag = lambda _: '"t"'
    node = KINDS[name].make("s3://data/f").node
    dataset = Dataset(replace(node, pattern=replace(node.pattern, part_bytes=9 << 20)))

    assert len(list(dataset)) == (250 if name == "webdataset" else COUNT)

    assert bucket.seen["GET"] <= len(data) / PIECE + 10


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A folder of 10^5 empty files."""
    folder = tmp_path_factory.mktemp("many")
    for n in range(MANY):
        os.close(os.open(f"{folder}/{n:06}.x", os.O_CREAT | os.O_WRONLY))
    yield folder
    for n in range(MANY):
        os.unlink(f"{folder}/{n:06}.x")


@pytest.mark.slow
def test_many_files_are_listed_in_two_seconds(name, many):
    names = [f"{many}/{n:06}.x" for n in range(MANY)]
    dataset = KINDS[name].make(names if name in NAMES_ONLY else f"{many}/*.x")

    def seconds():
        began = time.process_time()
        assert len(units_of(dataset)) == MANY
        return time.process_time() - began

    assert min(seconds() for _ in range(2)) <= 2


NAMES_ONLY = {name for name, kind in KINDS.items() if isinstance(kind.make("f").node, NamedFiles)}


def test_files_of_a_pattern_are_listed_once_for_all_tasks(name, tmp_path, monkeypatch):
    if name in NAMES_ONLY:
        pytest.skip("it takes names, and no patterns")
    kind, listed = KINDS[name], []
    for i in range(3):
        kind.write(tmp_path / f"{i}.x", range(10 * i, 10 * i + 10))
    glob = files._glob
    monkeypatch.setattr(files, "_glob", lambda *args: listed.append(args) or glob(*args))
    dataset = kind.make(str(tmp_path / "*.x"))
    (provider,) = split_providers(dataset.node)

    names = units_of(dataset)
    logs = [[Split(i, i + 1, (names[i],)), Split(3, 3)] for i in range(3)]
    made = [kind.number(e) for log in logs for e in run(dataset.node, provider, log)]

    assert made == list(range(30))
    assert len(listed) == 1


SAY = """
import sys
from pathlib import Path
import numpy as np
from tests.ops.internal.test_file_parts import KINDS

for name, kind in KINDS.items():
    for element in kind.make(Path(sys.argv[1]) / name).batch(7).take(3):
        columns = element.items() if isinstance(element, dict) else [("", element)]
        columns = [(key, np.asarray(each)) for key, each in columns]
        print(name, [(key, each.dtype.str, each.tolist()) for key, each in columns])
"""


def test_processes_with_other_hash_seeds_make_the_same_columns_in_the_same_order(tmp_path):
    for name, kind in KINDS.items():
        kind.write(tmp_path / name, range(20))

    told = [
        subprocess.run(
            [sys.executable, "-c", SAY, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip

    assert told[0] == told[1]
    assert {line.split()[0] for line in told[0].splitlines()} == KINDS.keys()

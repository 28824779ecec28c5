"""Sources, and their models."""

import functools
import gzip
import io
import json
import struct
import tarfile
import zlib
from dataclasses import replace

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.engine import draws
from penstock.engine.draws import Permutation
from pipelines.stage import Pipeline, Stage, flags, folder, sizes

lengths = st.integers(0, 12)


@functools.cache
def files(kind, counts, compression=""):
    """Return the names of files of numbers, so many in each; and the numbers, file after file."""
    pack = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}[compression]
    names, numbers = [], []
    for i, count in enumerate(counts):
        own = range(10 * i, 10 * i + count)
        file = folder() / f"{kind}{compression}-{i}-{count}"
        file.write_bytes(pack(HEADER.get(kind, b"") + b"".join(map(RECORD[kind], own))))
        names.append(str(file))
        numbers += own
    return names, numbers


def masked(data):
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecord(number):
    data = b"x" * (number % 7) + str(number).encode()
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


RECORD = {
    "fixed": lambda number: struct.pack("<i", number),
    "tf": tfrecord,
    "text": lambda number: f"{number}\n".encode(),
    "csv": lambda number: f"{number},row {number}\n".encode(),
}
HEADER = {"csv": b"number,text\n"}

counts = st.lists(st.integers(0, 6), min_size=1, max_size=3).map(tuple)
compressions = st.sampled_from(["", "GZIP", "ZLIB"])


@st.composite
def ranges(draw):
    start, n, step = draw(st.integers(-3, 3)), draw(lengths), draw(st.sampled_from([1, 2, -1]))
    stop = start + n * step
    return Pipeline(
        f"range({start}, {stop}, {step})",
        lambda: Dataset.range(start, stop, step),
        list(range(start, stop, step)),
    )


@st.composite
def slices(draw):
    xs = [0, *range(draw(lengths))]
    return Pipeline(f"slices({len(xs)})", lambda: Dataset.from_tensor_slices(xs), xs)


@st.composite
def sequences(draw):
    xs = list(range(draw(lengths)))
    return Pipeline(f"sequence({len(xs)})", lambda: Dataset.from_sequence(xs), xs)


@st.composite
def generators(draw):
    xs = list(range(draw(lengths)))
    return Pipeline(f"generator({len(xs)})", lambda: Dataset.from_generator(lambda: iter(xs)), xs)


@st.composite
def counters(draw):
    start, step, n = draw(sizes), draw(st.integers(-2, 3)), draw(lengths)
    return Pipeline(
        f"counter({start}, {step}).take({n})",
        lambda: Dataset.counter(start, step).take(n),
        [start + i * step for i in range(n)],
    )


@st.composite
def random_numbers(draw):
    seed, n = draw(st.integers(0, 3)), draw(lengths)
    drawn = [int(bits) >> 32 for bits in draws.draw(seed, 0, n)]
    return Pipeline(
        f"random({seed}).take({n})",
        lambda: (
            Dataset.random(seed, rerandomize_each_iteration=False).take(n).map(lambda x: x % 50)
        ),
        [x % 50 for x in drawn],
    )


@st.composite
def listings(draw):
    (names, _), in_order = files("text", draw(counts)), draw(flags)
    return Pipeline(
        f"list_files({len(names)}, {in_order})",
        lambda: Dataset.list_files(names, shuffle=not in_order).map(lambda name: int(name[-1])),
        [int(name[-1]) for name in sorted(names)] if in_order else None,
    )


@st.composite
def text(draw):
    names, numbers = files("text", draw(counts))
    return Pipeline(f"text_lines({names})", lambda: Dataset.text_lines(names).map(int), numbers)


@st.composite
def fixed_length(draw):
    compression = draw(compressions)
    names, numbers = files("fixed", draw(counts), compression)
    return Pipeline(
        f"fixed_length_records({names})",
        lambda: Dataset.fixed_length_records(names, 4, compression_type=compression).map(
            lambda record: struct.unpack("<i", record)[0]
        ),
        numbers,
    )


@st.composite
def tfrecords(draw):
    compression = draw(compressions)
    names, numbers = files("tf", draw(counts), compression)
    return Pipeline(
        f"tfrecords({names})",
        lambda: Dataset.tfrecords(names, compression).map(lambda record: int(record.strip(b"x"))),
        numbers,
    )


@st.composite
def rows(draw):
    compression = draw(compressions)
    names, numbers = files("csv", draw(counts), compression)
    return Pipeline(
        f"csv({names})",
        lambda: Dataset.csv(
            names, column_defaults={"number": int, "text": str}, compression_type=compression
        ).map(lambda row: row["number"] + row["text"].count("?")),
        numbers,
    )


def write_json(file, own):
    file.write_text("".join(f'{{"n": {n}}}\n' for n in own))


def write_parquet(file, own):
    pq.write_table(pa.table({"n": pa.array(own, pa.int64())}), file, row_group_size=2)


def write_arrow(file, own):
    feather.write_feather(pa.table({"n": pa.array(own, pa.int64())}), str(file), chunksize=2)


def write_tar(file, own):
    with tarfile.open(file, "w") as tar:
        for n in own:
            info = tarfile.TarInfo(f"{n}.n")
            info.size = len(str(n))
            tar.addfile(info, io.BytesIO(str(n).encode()))


WRITE = {
    "json_lines": (write_json, Dataset.json_lines),
    "parquet": (write_parquet, Dataset.parquet),
    "arrow": (write_arrow, Dataset.arrow),
    "webdataset": (write_tar, Dataset.webdataset),
}


@functools.cache
def parted_files(kind, counts):
    """Return files of numbers in the format of *kind*, and the numbers, file after file."""
    names, numbers = [], []
    for i, count in enumerate(counts):
        own = range(10 * i, 10 * i + count)
        file = folder() / f"{kind}-{i}-{count}"
        if not file.exists():  # another list of files may have it: it must stay as it was
            WRITE[kind][0](file, own)
        names.append(str(file))
        numbers += own
    return names, numbers


@st.composite
def in_parts(draw, kind):
    names, numbers = parted_files(kind, draw(counts))
    nbytes = draw(st.sampled_from([20, 700, 1 << 30]))

    def make():
        node = WRITE[kind][1](names).node
        parted = replace(node, pattern=replace(node.pattern, part_bytes=nbytes))
        return Dataset(parted).map(lambda element: int(element["n"]))

    return Pipeline(f"{kind}({names}, {nbytes})", make, numbers)


@functools.cache
def shard_folder(counts):
    """Return a folder of Mosaic's shards, and their numbers."""
    place, entries, numbers = folder() / f"mds-{'-'.join(map(str, counts))}", [], []
    place.mkdir(exist_ok=True)
    for i, count in enumerate(counts):
        own = range(10 * i, 10 * i + count)
        begins = struct.pack(
            f"<{count + 2}I", count, *(8 + 4 * count + 8 * k for k in range(count + 1))
        )
        (place / f"{i}.mds").write_bytes(begins + struct.pack(f"<{count}q", *own))
        raw = {"basename": f"{i}.mds", "hashes": {}}
        columns = {"column_names": ["n"], "column_encodings": ["int"], "column_sizes": [8]}
        about = {"format": "mds", "version": 2, "samples": count, "raw_data": raw, "zip_data": None}
        entries.append({**columns, **about})
        numbers += own
    (place / "index.json").write_text(json.dumps({"version": 2, "shards": entries}))
    return place, numbers


@st.composite
def shards(draw):
    place, numbers = shard_folder(draw(counts))
    return Pipeline(
        f"mds({place})", lambda: Dataset.mds(place).map(lambda sample: int(sample["n"])), numbers
    )


@st.composite
def shuffled_by_index(draw):
    """Behind what has an index: not any stage may come before it."""
    pipeline = draw(st.one_of(ranges(), slices(), sequences()))
    for stage in draw(st.lists(st.one_of(*INDEXED), max_size=2)):
        pipeline = pipeline.then(stage)
    if draw(flags):
        pipeline = pipeline.then(NUMBERED)
    seed = draw(st.sampled_from([None, 3, 4]))
    return pipeline.then(
        Stage(
            f"global_shuffle({seed})",
            lambda d: d.global_shuffle(seed, reshuffle_each_iteration=False),
            lambda xs: None if seed is None else in_random_order(xs, seed),
        )
    )


def in_random_order(xs, seed):
    return [xs[i] for i in Permutation(seed, len(xs)).at(np.arange(len(xs)))]


INDEXED = [
    st.integers(0, 9).map(lambda n: Stage(f"take({n})", lambda d: d.take(n), lambda xs: xs[:n])),
    st.integers(0, 5).map(lambda n: Stage(f"skip({n})", lambda d: d.skip(n), lambda xs: xs[n:])),
    sizes.map(lambda n: Stage(f"shard({n}, 0)", lambda d: d.shard(n, 0), lambda xs: xs[::n])),
    sizes.map(
        lambda n: Stage(
            f"concatenate(range({n}))",
            lambda d: d.concatenate(Dataset.range(n)),
            lambda xs: [*xs, *range(n)],
        )
    ),
]
NUMBERED = Stage(
    "enumerate",
    lambda d: d.enumerate().map(lambda n, x: n + x),
    lambda xs: [n + x for n, x in enumerate(xs)],
)

SOURCES = {
    "range": ranges(),
    "from_tensor_slices": slices(),
    "from_sequence": sequences(),
    "from_generator": generators(),
    "from_tensors": st.just(Pipeline("tensors(7)", lambda: Dataset.from_tensors(7), [7])),
    "counter": counters(),
    "random": random_numbers(),
    "list_files": listings(),
    "text_lines": text(),
    "fixed_length_records": fixed_length(),
    "tfrecords": tfrecords(),
    "csv": rows(),
    **{kind: in_parts(kind) for kind in WRITE},
    "mds": shards(),
    "global_shuffle": shuffled_by_index(),
}

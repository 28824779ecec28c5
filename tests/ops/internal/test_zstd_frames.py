"""Files of several Zstandard frames are divided by them; other compressed files are not."""

from __future__ import annotations

import gzip
import shutil
import struct
import subprocess
from dataclasses import replace

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import StateError
from penstock.file_parts import FilePart, local_version
from penstock.frames.compression import zstd_module
from penstock.ops.internal.file_parts import NamedFiles
from penstock.ops.internal.zstd_frames import first_frame, is_divisible

LINES = [f'{{"n": {n}, "text": "{n * n * 7919 % 1000003:x}"}}' for n in range(6000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


def compressed(data):
    return zstd_module().compress(data)


def seekable(pieces):
    """Return the pieces as frames, and their table, as the seekable format says."""
    frames = [compressed(piece) for piece in pieces]
    table = b"".join(struct.pack("<II", len(f), len(p)) for f, p in zip(frames, pieces))
    footer = struct.pack("<IBI", len(frames), 0, 0x8F92EAB1)
    skippable = struct.pack("<II", 0x184D2A5E, len(table) + len(footer))
    return b"".join(frames) + skippable + table + footer


def by_program(*command):
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, input=TEXT, capture_output=True, check=True, timeout=60).stdout


def concatenated():
    """Return what ``cat a.zst b.zst ...`` makes: frames of any size, without a table."""
    return b"".join(compressed(TEXT[at : at + 9001]) for at in range(0, len(TEXT), 9001))


MAKE = {
    "seekable": lambda: seekable([TEXT[at : at + 7000] for at in range(0, len(TEXT), 7000)]),
    "seekable at line ends": lambda: seekable(
        ["".join(f"{x}\n" for x in LINES[at : at + 500]).encode() for at in range(0, 6000, 500)]
    ),
    "concatenated": concatenated,
    "frames of nothing": lambda: compressed(b"") + concatenated() + compressed(b""),
    "zstd twice": lambda: by_program("zstd", "-c", "-") * 2,
    "pzstd": lambda: by_program("pzstd", "-1", "-p", "4", "-c", "-"),
    "zstd --check": lambda: by_program("zstd", "--check", "-19", "-c") * 3,
    "no content size": lambda: by_program("zstd", "--no-check", "-c", "--fast=5") * 3,
}


@pytest.fixture(params=MAKE)
def data(request):
    return MAKE[request.param]()


def parted(dataset, nbytes):
    node = dataset.node
    if isinstance(node, NamedFiles):
        return Dataset(replace(node, part_bytes=nbytes))
    return Dataset(replace(node, pattern=replace(node.pattern, part_bytes=nbytes)))


def parts_of(path, count):
    size, version = path.stat().st_size, local_version(path.stat())
    bounds = [size * i // count for i in range(count + 1)]
    return [FilePart(str(path), *pair, version) for pair in zip(bounds, bounds[1:])]


@pytest.mark.parametrize("nbytes", [100, 3000, 20_000, 1 << 30])
def test_parts_of_any_size_have_each_line_once(tmp_path, data, nbytes):
    (tmp_path / "f").write_bytes(data)
    count = len(zstd_lines(data))

    lines = list(parted(Dataset.text_lines(tmp_path / "f"), nbytes))

    assert lines == zstd_lines(data)
    assert len(lines) == count


def zstd_lines(data):
    """Return the lines of *data*, unpacked by the program if it is there."""
    if shutil.which("zstd"):
        text = subprocess.run(
            ["zstd", "-dc"], input=data, capture_output=True, check=True, timeout=60
        ).stdout
        return text.decode().splitlines()
    return LINES


def test_several_parts_of_a_file_have_lines(tmp_path):
    (tmp_path / "f").write_bytes(MAKE["seekable"]())

    firsts = [first_frame(part) for part in parts_of(tmp_path / "f", 4)]

    assert None not in firsts
    assert firsts == sorted(set(firsts))


@pytest.mark.parametrize("name", ["seekable", "concatenated"])
def test_states_are_exact_in_each_frame(check_states, tmp_path, name):
    whole = MAKE[name]()
    (tmp_path / "f").write_bytes(whole)
    dataset = parted(Dataset.json_lines(tmp_path / "f"), len(whole) // 5)
    rows = dataset.iterator()
    numbers, states = [], []
    for row in rows:
        numbers.append(int(row["n"]))
        if len(numbers) % 37 == 0:
            states.append((len(numbers), rows.state()))

    assert numbers == list(range(6000))
    for count, state in states:
        rest = parted(Dataset.json_lines(tmp_path / "f"), len(whole) // 5).iterator(state)
        assert [int(next(rest)["n"]) for _ in range(min(5, 6000 - count))] == list(
            range(count, min(count + 5, 6000))
        )


@pytest.mark.parametrize("name", ["seekable", "concatenated"])
def test_a_state_in_the_middle_of_a_whole_file_as_its_first_part_is_refused(tmp_path, name):
    """Early versions read such a file so; the following parts would have the elements again."""
    whole = MAKE[name]()
    (tmp_path / "f").write_bytes(whole)
    dataset = parted(Dataset.json_lines(tmp_path / "f"), len(whole) // 5)
    iterator = dataset.iterator()
    next(iterator)
    state = iterator.state()
    end = 0
    for count, line in enumerate(LINES, 1):
        end += len(line) + 1
        if count % 499 == 0:
            rest = parted(Dataset.json_lines(tmp_path / "f"), len(whole) // 5)
            old = {**state, "at": [0, end, count, state["at"][-1]]}
            try:
                numbers = [int(row["n"]) for row in rest.iterator(old)]
            except StateError as error:
                assert f"{tmp_path}/f was read as one stream" in str(error)
                assert count > 1000
            else:
                assert numbers == list(range(count, 6000))
                assert count < 2000


def test_rows_of_csv_are_divided_where_no_value_has_a_line_break(tmp_path):
    pytest.importorskip("pyarrow")
    text = b"n,text\n" + b"".join(b"%d,%x\n" % (n, n * n) for n in range(5000))
    data = seekable([text[at : at + 5000] for at in range(0, len(text), 5000)])
    (tmp_path / "f").write_bytes(data)
    rows = Dataset.csv(tmp_path / "f", newlines_in_values=False)

    assert [int(row["n"]) for row in parted(rows, 3000)] == list(range(5000))


@pytest.mark.parametrize("pack", [gzip.compress, compressed])
def test_one_stream_has_one_reader_and_says_so_once(tmp_path, caplog, pack):
    (tmp_path / "f").write_bytes(pack(TEXT))
    part_bytes = (tmp_path / "f").stat().st_size // 4

    assert list(parted(Dataset.text_lines(tmp_path / "f"), part_bytes)) == LINES

    (record,) = [each for each in caplog.records if each.name == "penstock.files"]
    assert f"{tmp_path}/f is one compressed stream" in record.getMessage()
    assert "pzstd" in record.getMessage()


def test_a_damaged_table_is_not_believed(tmp_path):
    data = bytearray(MAKE["seekable"]())
    data[-20] ^= 1
    (tmp_path / "f").write_bytes(data)

    assert list(parted(Dataset.text_lines(tmp_path / "f"), 3000)) == LINES


def test_a_cut_file_is_not_divided(tmp_path):
    data = concatenated()
    (tmp_path / "f").write_bytes(data[:-5])

    assert not any(map(is_divisible, parts_of(tmp_path / "f", 3)))

"""Compressed files are read as what is packed in them, by what their first bytes say."""

import bz2
import gzip
import io
import lzma
import os
import threading
import zlib

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import TransformError
from penstock.frames.compression import zstd_module
from penstock.ops.internal.compressed import GUESSED, decompressed
from penstock.stored_file import ForwardFile, open_file

LINES = [f"line {i}" for i in range(3000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
PACKERS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstd_module().compress(data),
    "": bytes,
}


@pytest.mark.parametrize("name", ["x.txt", "x"])
@pytest.mark.parametrize("suffix", PACKERS)
def test_lines_of_a_compressed_file_come_and_a_state_is_exact(tmp_path, suffix, name):
    file = tmp_path / (name + (suffix if name != "x" else ""))
    file.write_bytes(PACKERS[suffix](TEXT))
    lines = Dataset.text_lines(file)

    assert list(lines) == LINES
    with lines.iterator() as first:
        taken = [next(first) for _ in range(1777)]
        state = first.state()
    assert taken + list(lines.iterator(state)) == LINES


def test_a_file_that_only_its_name_calls_compressed_is_read_as_it_is(tmp_path):
    file = tmp_path / "x.txt.gz"
    file.write_bytes(b"a server unpacked it\n")

    assert list(Dataset.text_lines(file)) == ["a server unpacked it"]


def test_a_file_without_a_byte_has_no_line(tmp_path):
    for suffix in PACKERS:
        (tmp_path / f"x{suffix}").touch()

    assert list(Dataset.text_lines(sorted(tmp_path.iterdir()))) == []


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_several_streams_one_after_another_are_one_file(tmp_path, suffix):
    pack = PACKERS[suffix]
    (tmp_path / "x").write_bytes(pack(TEXT[:1000]) + pack(TEXT[1000:]))

    assert list(Dataset.text_lines(tmp_path / "x")) == LINES


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_of_a_file_that_was_cut_off_the_whole_records_come_and_then_an_error(tmp_path, suffix):
    noise = [os.urandom(40).hex() for _ in range(40_000)]
    packed = PACKERS[suffix]("\n".join(noise).encode())
    (tmp_path / "x").write_bytes(packed[: len(packed) // 2])

    found = []
    with pytest.raises(TransformError, match="ended before|EOF"):
        found.extend(Dataset.text_lines(tmp_path / "x"))

    assert found == noise[: len(found)]
    assert len(found) > 6_000


def test_a_pipe_is_read_once_from_its_beginning(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(TEXT))
    writer.start()

    assert list(Dataset.text_lines(pipe)) == LINES
    writer.join()


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_file_whose_bytes_come_one_by_one_is_known_by_its_first_ones(suffix):
    class Trickle(ForwardFile):
        def fill(self, buffer):
            data = self._inner.read(1)
            buffer[: len(data)] = data
            return len(data)

    packed = Trickle(io.BytesIO(PACKERS[suffix](b"a\nb\n")))

    with decompressed(io.BufferedReader(packed), GUESSED) as file:
        assert file.read() == b"a\nb\n"
    assert packed.closed


def test_the_compression_that_is_named_is_used(tmp_path):
    for name, packed in (("GZIP", gzip.compress(b"x")), ("ZLIB", zlib.compress(b"x")), ("", b"x")):
        (tmp_path / "x").write_bytes(packed)
        with decompressed(open_file(str(tmp_path / "x"), 100), name) as file:
            assert file.read() == b"x"
    with decompressed(open_file(str(tmp_path / "x"), 100), GUESSED) as file:
        assert file.read() == b"x"


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_padding_behind_a_stream_is_no_fault_and_a_packed_nothing_has_no_line(tmp_path, suffix):
    (tmp_path / "x").write_bytes(PACKERS[suffix](TEXT) + bytes(64))
    (tmp_path / "y").write_bytes(PACKERS[suffix](b""))

    assert list(Dataset.text_lines([tmp_path / "x", tmp_path / "y"])) == LINES


def test_a_file_of_zstd_may_begin_with_a_frame_that_is_skipped(tmp_path):
    skipped = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"size"
    (tmp_path / "x").write_bytes(skipped + PACKERS[".zst"](TEXT))

    assert list(Dataset.text_lines(tmp_path / "x")) == LINES


@pytest.mark.parametrize("magic", [b"PK\x03\x04", b"\x1f\x9d", b"\x04\x22\x4d\x18"])
def test_a_packed_file_that_is_not_unpacked_is_refused(tmp_path, magic):
    (tmp_path / "x").write_bytes(magic + b"packed")

    with pytest.raises(TransformError, match="the file is"):
        list(Dataset.text_lines(tmp_path / "x"))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_rows_of_a_pipe_are_read_though_it_opens_once(tmp_path, pack):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(pack(b"a,b\n1,2\n3,4\n")))
    writer.start()

    assert [int(row["b"]) for row in Dataset.csv(pipe)] == [2, 4]
    writer.join()


def test_a_state_in_a_pipe_is_restored_by_reading_up_to_there(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    lines, found, saved = Dataset.text_lines(pipe), [], None
    for _ in range(2):
        writer = threading.Thread(target=pipe.write_bytes, args=(b"a\nb\nc\n",))
        writer.start()
        with lines.iterator(saved) as it:
            found.append(next(it))
            saved = it.state()
        writer.join()

    assert found == ["a", "b"]

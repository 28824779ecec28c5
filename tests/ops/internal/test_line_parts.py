import gzip
import lzma
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.file_parts import FilePart
from penstock.ops.internal.file_parts import BadRecordError
from penstock.ops.internal.line_parts import LineReader


class Lines(LineReader):
    def elements(self, lines, out):
        out += lines


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n"])).map(b"".join),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    block=st.sampled_from([1, 2, 50]),
)
def test_each_line_is_in_one_part_wherever_the_parts_are_cut(tmp_path, data, cuts, block):
    (tmp_path / "f").write_bytes(data)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    got = []

    for start, stop in zip(bounds, bounds[1:]):
        if start == stop and data:
            continue  # only an empty file has an empty part
        reader = Lines("test", FilePart(str(tmp_path / "f"), start, stop), (0, 0))
        while lines := reader.rows(block):
            got += lines
        reader.close()

    assert got == data.splitlines(keepends=True)


def test_a_place_is_the_byte_of_a_line(tmp_path):
    (tmp_path / "f").write_bytes(b"ab\nc\ndef\ng\n")
    part = FilePart(str(tmp_path / "f"), 0, 11)
    reader = Lines("test", part, (0, 0))
    reader.rows(3)

    places = [reader.place()(back) for back in range(4)]
    reader.close()

    assert places == [(9, 3), (5, 2), (3, 1), (0, 0)]
    for place, line in zip(places, [b"g\n", b"def\n", b"c\n", b"ab\n"]):
        reader = Lines("test", part, place)
        assert reader.rows(1) == [line]
        reader.close()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("block", [1, 3, 1000])
def test_lines_around_a_bad_one_are_kept_in_blocks_of_any_size(tmp_path, block, packed):
    lines = [b"%d %s\n" % (n, os.urandom(500).hex().encode()) for n in range(900)]
    lines[5] = lines[7] = b"bad\n"
    data = b"".join(lines)
    (tmp_path / "f").write_bytes(lzma.compress(data, preset=0) if packed else data)
    size = (tmp_path / "f").stat().st_size
    got = []

    for start, stop in ((0, 30_000), (30_000, size)):
        reader = Good("test", FilePart(str(tmp_path / "f"), start, stop), (0, 0))
        while True:
            try:
                if not (found := reader.rows(block)):
                    break
                got += found
            except BadRecordError as exc:
                reader.pass_over(exc.nbytes)
        reader.close()

    assert got == [line for line in lines if line != b"bad\n"]


class Good(LineReader):
    def elements(self, lines, out):
        for line in lines:
            if line == b"bad\n":
                raise BadRecordError("bad", len(line))
            out.append(line)


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_lines_before_the_cut_of_a_compressed_file_are_kept(tmp_path, block):
    packed = gzip.compress(b"".join(b"%d\n" % n for n in range(5000)))
    (tmp_path / "f").write_bytes(packed[: len(packed) // 2])
    reader = Lines("test", FilePart(str(tmp_path / "f")), (0, 0))
    got = []

    with pytest.raises(EOFError):
        while lines := reader.rows(block):
            got += lines
    reader.close()

    assert len(got) > 1000
    assert got == [b"%d\n" % n for n in range(len(got))]

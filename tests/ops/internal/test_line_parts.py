from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.file_parts import FilePart
from penstock.ops.internal.line_parts import LineReader


class Lines(LineReader):
    def element(self, line):
        return line


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

import io
import json

import fsspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import stored_file
from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, MissingFile, StateError, TransformError
from penstock.file_parts import PART_BYTES
from penstock.graph.node import UNKNOWN
from penstock.protocol.splits import FilePattern
from penstock.serialization.fingerprint import fingerprint


def lines_of(data):
    return [
        line.removesuffix(b"\n").removesuffix(b"\r" if line.endswith(b"\n") else b"")
        for line in io.BytesIO(data)
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"a",
        b"a\n",
        b"a\nb",
        b"a\r\nb\r\n\r\nc\r",
        b"\r\n",
        b"a\rb\n",
        "ä€😀\nü".encode(),
        b"\xff\xfe\n\xed\xa0\x80\n\xef\xbb\xbfx\0y",
        b"long" * 200_000 + b"\nx\n",
    ],
)
def test_lines_lose_their_ends_and_nothing_else(check_states, tmp_path, data):
    (tmp_path / "f").write_bytes(data)

    check_states(lambda: Dataset.text_lines(tmp_path / "f"), blocks=(1, 3))

    got = [line.encode("utf-8", "surrogateescape") for line in Dataset.text_lines(tmp_path / "f")]
    assert got == lines_of(data)


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    parts=st.lists(
        st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\r", b"\xff", b"\xe2\x82\xac"])),
        min_size=1,
        max_size=3,
    )
)
def test_any_bytes_have_exact_states(check_states, tmp_path, parts):
    contents = [b"".join(part) for part in parts]
    names = []
    for i, data in enumerate(contents):
        (tmp_path / str(i)).write_bytes(data)
        names.append(str(tmp_path / str(i)))

    whole = check_states(lambda: Dataset.text_lines(names), blocks=(1, 2, 64))

    got = [line.encode("utf-8", "surrogateescape") for line in whole]
    assert got == [line for data in contents for line in lines_of(data)]


def test_files_follow_each_other_in_the_order_given(check_states, tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(f"{name}1\n{name}2")
    (tmp_path / "empty").touch()
    names = [tmp_path / name for name in ("c", "empty", "a", "c", "empty")]

    check_states(lambda: Dataset.text_lines(names), ["c1", "c2", "a1", "a2", "c1", "c2"])
    check_states(
        lambda: Dataset.text_lines(names).repeat(2), ["c1", "c2", "a1", "a2", "c1", "c2"] * 2
    )


def test_a_restore_reads_on_at_the_byte(tmp_path, monkeypatch):
    (tmp_path / "f").write_text("".join(f"line {i}\n" for i in range(50_000)))
    it = iter(Dataset.text_lines(tmp_path / "f"))
    for _ in range(40_000):
        next(it)
    state = json.loads(json.dumps(it.state()))
    it.close()
    read = []
    monkeypatch.setattr(stored_file, "open_file", _watched(read))

    with Dataset.text_lines(tmp_path / "f").iterator(state) as restored:
        assert next(restored) == "line 40000"

    assert read == [sum(len(f"line {i}\n") for i in range(40_000))]


def _watched(read):
    original = stored_file.open_file

    def open_file(path, buffer):
        file = original(path, buffer)

        class Watched(io.BufferedReader):
            def seek(self, offset, whence=0):
                read.append(offset)
                return super().seek(offset, whence)

        return Watched(file.detach())

    return open_file


def test_the_files_of_a_pattern_are_read_in_the_order_of_their_names(tmp_path, check_states):
    for name in ("b.txt", "a.txt", "c.bin"):
        (tmp_path / name).write_text(f"{name} 0\n{name} 1\n")

    wanted = ["a.txt 0", "a.txt 1", "b.txt 0", "b.txt 1"]
    check_states(lambda: Dataset.text_lines(tmp_path / "*.txt"), wanted)
    assert list(Dataset.text_lines(tmp_path / "{b,a}.txt")) == [*wanted[2:], *wanted[:2]]


def test_a_pattern_that_matches_nothing_is_a_missing_file(tmp_path):
    with pytest.raises(MissingFile, match=r"text_lines: no file matches '.*/\*\.txt'; check"):
        list(Dataset.text_lines(tmp_path / "*.txt"))


def test_a_folder_is_refused_at_once(tmp_path):
    with pytest.raises(DatasetError, match=r"text_lines: '.*' is a folder: give names or a patt"):
        Dataset.text_lines(tmp_path)


def test_a_missing_file_is_named_when_reading_begins(tmp_path):
    (tmp_path / "here").write_text("x")

    with pytest.raises(MissingFile, match="text_lines: there is no file '.*/gone'") as caught:
        iter(Dataset.text_lines([tmp_path / "here", tmp_path / "gone"]))

    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, DatasetError)


def test_a_file_that_is_gone_at_a_restore_is_an_error(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(name)
    dataset = Dataset.text_lines([tmp_path / "a", tmp_path / "b"])
    it = iter(dataset)
    next(it)
    next(it)
    state = it.state()
    (tmp_path / "a").unlink()

    with pytest.raises(StateError, match="have changed since the state was saved"):
        dataset.iterator(state)


def test_a_remote_file_that_is_missing_is_an_error_and_the_next_one_follows():
    fsspec.filesystem("memory").pipe("/text_lines/a", b"x\n")
    it = iter(Dataset.text_lines(["memory://text_lines/none", "memory://text_lines/a"]))

    with pytest.raises(MissingFile, match="there is no file 'memory://text_lines/none'"):
        next(it)
    assert list(it) == ["x"]


def test_remote_lines_have_exact_states(check_states):
    fsspec.filesystem("memory").pipe("/text_lines/b", b"x\r\nyy\n\nz")

    check_states(lambda: Dataset.text_lines("memory://text_lines/b"), ["x", "yy", "", "z"])


def test_what_cannot_be_read_is_an_error_that_names_the_file(tmp_path):
    (tmp_path / "f").write_text("x")
    dataset = Dataset.text_lines([tmp_path / "folder", tmp_path / "f"])
    (tmp_path / "folder").mkdir()
    it = iter(dataset)

    with pytest.raises(
        TransformError, match=r"text_lines\(.*/folder\) failed at element 0: IsADir"
    ):
        next(it)
    assert list(it) == ["x"]


def test_the_name_of_a_file_is_no_pattern(tmp_path):
    (tmp_path / "a[1]*.txt").write_text("x")
    node = Dataset.text_lines(tmp_path / "a[1]*.txt").node

    assert list(Dataset(node)) == ["x"]
    assert node.units() == FilePattern(
        (str(tmp_path / "a[1]*.txt"),),
        shuffle=False,
        seed=None,
        literal=True,
        part_bytes=PART_BYTES,
    )
    assert node.cardinality == UNKNOWN


def test_closing_closes_the_file(tmp_path):
    (tmp_path / "f").write_text("x\ny\n")

    with iter(Dataset.text_lines(tmp_path / "f")) as it:
        next(it)  # an open file would warn when it is collected


def test_a_state_of_something_else_is_a_clear_error(tmp_path):
    (tmp_path / "f").write_text("x\ny\n")
    dataset = Dataset.text_lines(tmp_path / "f")
    state = iter(dataset).state()

    with pytest.raises(StateError, match="does not fit text_lines"):
        dataset.iterator({**state, "at": [5, 0]})


@pytest.mark.parametrize("value", [[], 3, "", b"a", None])
def test_bad_names_are_named(value):
    with pytest.raises(DatasetError, match="text_lines: files must be a path, or a list of paths"):
        Dataset.text_lines(value)


def test_a_file_that_breaks_off_is_an_error_and_the_next_one_follows(tmp_path, monkeypatch):
    class Broken(io.RawIOBase):
        parts = [b"one\ntwo\nth"]

        def readable(self):
            return True

        def seekable(self):
            return True

        def seek(self, offset, whence=0):
            return 0

        def readinto(self, buffer):
            if not self.parts:
                raise OSError("cable cut")
            part = self.parts.pop()
            buffer[: len(part)] = part
            return len(part)

    original = stored_file.open_file
    monkeypatch.setattr(
        stored_file,
        "open_file",
        lambda name, size: (
            io.BufferedReader(Broken()) if name.endswith("a") else original(name, size)
        ),
    )
    (tmp_path / "a").touch()
    (tmp_path / "b").write_text("x\ny")
    it = iter(Dataset.text_lines([tmp_path / "a", tmp_path / "b"]))

    assert [next(it), next(it)] == ["one", "two"]
    with pytest.raises(
        TransformError, match="text_lines.*/a.* failed at element 0: OSError: cable"
    ):
        next(it)
    behind = it.state()
    assert list(it) == ["x", "y"]
    assert list(Dataset.text_lines([tmp_path / "a", tmp_path / "b"]).iterator(behind)) == ["x", "y"]


LATIN = b"one\nf\xfcnf\r\n\xff\nfour\nz\xe9ro"


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ("surrogateescape", ["one", "f\udcfcnf", "\udcff", "four", "z\udce9ro"]),
        ("replace", ["one", "f\ufffdnf", "\ufffd", "four", "z\ufffdro"]),
        ("ignore", ["one", "fnf", "", "four", "zro"]),
    ],
)
def test_bytes_that_are_no_utf8_become_what_was_said(check_states, tmp_path, errors, expected):
    (tmp_path / "f").write_bytes(LATIN)

    check_states(lambda: Dataset.text_lines(tmp_path / "f", errors=errors), expected)


def test_strictly_a_line_that_is_no_utf8_is_an_error_and_the_next_one_follows(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(LATIN)
    it = iter(Dataset.text_lines(file, errors="strict"))

    assert next(it) == "one"
    with pytest.raises(TransformError) as caught:
        next(it)
    said = str(caught.value)
    assert r"the line is not UTF-8 (invalid start byte at byte 1): b'f\xfcnf\r\n'" in said
    assert f"(line 2, at byte 4 of {file})" in said
    assert 'errors="replace"' in said
    behind = it.state()
    with pytest.raises(TransformError, match="line 3, at byte 10"):
        next(it)
    assert next(it) == "four"
    again = Dataset.text_lines(file, errors="strict").iterator(behind)
    with pytest.raises(TransformError, match="line 3, at byte 10"):
        next(again)
    assert next(again) == "four"


def test_lines_that_are_no_utf8_can_be_left_out(check_states, tmp_path):
    (tmp_path / "f").write_bytes(LATIN * 3)
    (tmp_path / "g").write_bytes(b"five\n")

    def make():
        files = [tmp_path / "f", tmp_path / "g"]
        return Dataset.text_lines(files, errors="strict").ignore_errors()

    check_states(make, ["one", "four", "four", "four", "five"], blocks=(1, 3, 64))


def test_pipelines_that_say_nothing_of_errors_are_the_same_as_ever():
    plain, strict = Dataset.text_lines("/a"), Dataset.text_lines("/a", errors="strict")

    assert fingerprint(plain.node) == "a4899a164e14a350e92031c24d7d49df"
    assert fingerprint(Dataset.text_lines("/a", errors="surrogateescape").node) == fingerprint(
        plain.node
    )
    assert fingerprint(strict.node) != fingerprint(plain.node)


@pytest.mark.parametrize("value", [None, "lenient", 3, ["strict"]])
def test_what_errors_may_be_is_named(value):
    with pytest.raises(DatasetError, match="errors must be one of 'surrogateescape', 'strict', "):
        Dataset.text_lines("/a", errors=value)

import gzip
import zlib

import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.errors import DatasetError, MissingFile, TransformError
from penstock.graph.node import UNKNOWN
from penstock.graph.run import open_root

PACK = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}


def records(files, nbytes, header=0, footer=0, compression=""):
    return Dataset.fixed_length_records(files, nbytes, header, footer, compression)


def content(count, nbytes, header, footer):
    body = b"".join(bytes([i]) * nbytes for i in range(count))
    return b"h" * header + body + b"f" * footer


@pytest.mark.parametrize("compression", PACK)
@pytest.mark.parametrize(("header", "footer"), [(0, 0), (3, 0), (0, 5), (2, 7)])
def test_records_lie_between_header_and_footer(check_states, tmp_path, compression, header, footer):
    counts = (3, 0, 4)
    for i, count in enumerate(counts):
        data = content(count, 2, header, footer)
        (tmp_path / f"{i}").write_bytes(PACK[compression](data))
    files = sorted(tmp_path.iterdir())

    check_states(
        lambda: records(files, 2, header, footer, compression),
        [bytes([i]) * 2 for count in counts for i in range(count)],
    )


def test_files_are_split_among_tasks(check_states, tmp_path):
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode() * 4)
    names = [str(tmp_path / name) for name in "abc"]

    check_states(
        lambda: records(names, 2),
        [b"cc", b"cc", b"aa", b"aa"],
        logs=[[(names[2],), (names[0],), None]],
        streams={"": 0},
    )


@pytest.mark.parametrize("missing", [1, 2, 5])
def test_a_file_that_is_cut_short_is_named_behind_its_whole_records(
    check_states, tmp_path, missing
):
    data = content(4, 3, 1, 2)
    (tmp_path / "a").write_bytes(data[:-missing])
    (tmp_path / "b").write_bytes(content(1, 3, 1, 2))
    files = [tmp_path / "a", tmp_path / "b"]

    whole = check_states(lambda: records(files, 3, 1, 2))

    errors = [outcome for outcome in whole if not isinstance(outcome, bytes)]
    assert whole[-1] == b"\0\0\0"
    assert len(errors) == 1
    assert "the file ends" in errors[0].text
    assert str(tmp_path / "a") in errors[0].text
    assert f"record {len(whole) - 2}, at byte" in errors[0].text


def test_a_compressed_file_that_is_cut_short_is_an_error(check_states, tmp_path):
    for name, pack in (("GZIP", gzip.compress), ("ZLIB", zlib.compress)):
        file = tmp_path / name
        file.write_bytes(pack(bytes(range(256)) * 8)[:-9])

        with pytest.raises(TransformError, match="EOFError"):
            list(records([file], 16, compression=name))


def test_a_file_that_is_not_compressed_is_an_error(tmp_path):
    (tmp_path / "a").write_bytes(b"plain")

    for compression in ("GZIP", "ZLIB"):
        with pytest.raises(TransformError, match=str(tmp_path / "a")):
            list(records([tmp_path / "a"], 1, compression=compression))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(MissingFile, match="gone"):
        list(records([tmp_path / "gone"], 1))


def test_bad_arguments_are_named(tmp_path):
    for wrong in (0, -1, 1.5, None):
        with pytest.raises(DatasetError, match="record_bytes"):
            records(["a"], wrong)
    with pytest.raises(DatasetError, match="header_bytes"):
        records(["a"], 1, -1)
    with pytest.raises(DatasetError, match="footer_bytes"):
        records(["a"], 1, 0, -1)
    with pytest.raises(DatasetError, match="compression_type"):
        records(["a"], 1, 0, 0, "BZIP2")


def test_how_many_there_are_is_not_known():
    assert records(["a"], 1).cardinality() == UNKNOWN


def test_a_file_is_closed_with_its_iterator(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(b"abcd"))
    run = open_root(records([tmp_path / "a"], 1, compression="GZIP").node, Context.local(0), None)
    run.block(1)

    run.close()

    assert run._reader is None


def test_the_files_of_a_pattern_are_read_in_the_order_of_their_names(check_states, tmp_path):
    for name in ("b.bin", "a.bin"):
        (tmp_path / name).write_bytes(name.encode()[:1] * 4)

    check_states(lambda: records(tmp_path / "*.bin", 2), [b"aa", b"aa", b"bb", b"bb"])

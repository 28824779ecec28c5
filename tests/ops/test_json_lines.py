import gzip
import json
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, TransformError
from penstock.file_parts import FilePart
from penstock.frames.compression import zstd_module

VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.dictionaries(st.text(min_size=1), inner, min_size=1, max_size=3),
    max_leaves=6,
)


def plainly(element):
    if isinstance(element, dict):
        return {key: plainly(value) for key, value in element.items()}
    return element if isinstance(element, str) else element.item()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUES, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_each_line_is_the_value_that_the_standard_library_reads(tmp_path, values, end, ended):
    text = end.join(map(json.dumps, values)) + end * (ended and bool(values))
    (tmp_path / "f").write_bytes(text.encode())

    assert list(map(plainly, Dataset.json_lines(tmp_path / "f"))) == values


def test_lists_are_arrays_and_numbers_are_scalars(tmp_path):
    (tmp_path / "f").write_text('{"tokens": [1, 2, 3], "score": 0.5, "texts": ["a", "b"]}\n')

    (element,) = Dataset.json_lines(tmp_path / "f")

    assert element["tokens"].dtype == np.int64
    assert type(element["score"]) is np.float64
    assert element["texts"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"n": 1', "line 2, at byte 9 of .*f"),
        ('{"n": null}', "key 'n' has no value: give one, as in nulls={'n': ...}"),
        ('{"n": {"m": null}}', "cannot hold None"),
        ("", "line 2"),
        ("\xff", "line 2"),
    ],
)
def test_a_line_that_is_no_element_is_named_and_can_be_left_out(tmp_path, line, words):
    (tmp_path / "f").write_text(f'{{"n": 0}}\n{line}\n{{"n": 2}}\n', encoding="latin-1")
    dataset = Dataset.json_lines(tmp_path / "f")

    with pytest.raises(TransformError, match=words) as caught:
        list(dataset)

    assert line[:7] in str(caught.value) or line == "\xff"
    assert [int(each["n"]) for each in dataset.ignore_errors()] == [0, 2]


def test_nulls_of_a_dict_are_replaced_by_key(tmp_path):
    (tmp_path / "f").write_text('{"n": null, "t": "a"}\n{"n": 1, "t": null}\n{"t": "b"}\n[2]\n')

    got = list(Dataset.json_lines(tmp_path / "f", nulls={"n": -1, "t": "", "k": 0}))

    assert [*got[:3], got[3].tolist()] == [{"n": -1, "t": "a"}, {"n": 1, "t": ""}, {"t": "b"}, [2]]
    with pytest.raises(DatasetError, match="json_lines: nulls must be a dict by key, not 0"):
        Dataset.json_lines(tmp_path / "f", nulls=0)


@pytest.mark.parametrize("packed", [gzip.compress, lambda data: zstd_module().compress(data)])
def test_the_first_part_of_a_compressed_file_has_all_of_it(tmp_path, packed):
    data = "".join(f'{{"n": {n}}}\n' for n in range(1000)).encode()
    (tmp_path / "f").write_bytes(packed(data))
    size = (tmp_path / "f").stat().st_size
    node = Dataset.json_lines(tmp_path / "f").node

    first = node.open_part(FilePart(str(tmp_path / "f"), 0, size // 2), (0, 0))
    second = node.open_part(FilePart(str(tmp_path / "f"), size // 2, size), (0, 0))

    assert len(first.rows(5000)) == 1000
    assert second.rows(5000) == []
    first.close()
    second.close()


def test_a_byte_order_mark_is_no_part_of_the_first_value(tmp_path):
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbf[1]\n[2]\n")

    assert [element.tolist() for element in Dataset.json_lines(tmp_path / "f")] == [[1], [2]]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (r'{"x": "\ud800"}', "half of a surrogate pair, as .ud800 without the other half, is no"),
        ("[1e999]", "Number out of range"),
        ("123456789012345678901234567890", "123456789012345678901234567890 does not fit int64"),
    ],
)
def test_a_value_that_no_element_can_have_says_so(tmp_path, value, why):
    (tmp_path / "f").write_text(f"1\n{value}\n3\n")

    with pytest.raises(TransformError, match=why):
        list(Dataset.json_lines(tmp_path / "f"))
    assert [int(n) for n in Dataset.json_lines(tmp_path / "f").ignore_errors(log=None)] == [1, 3]


@pytest.mark.parametrize("program", ["gzip", "bzip2", "xz", "zstd"])
def test_files_that_the_usual_programs_pack_are_read(tmp_path, program):
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program} here")
    plain = "".join(f"{n}\n" for n in range(5000)).encode()
    packed = [
        subprocess.run([program, "-c"], input=half, stdout=subprocess.PIPE, check=True).stdout
        for half in (plain[:9000], plain[9000:])
    ]
    (tmp_path / "f").write_bytes(b"".join(packed))  # as tools make it that pack in parallel

    assert [int(n) for n in Dataset.json_lines(tmp_path / "f")] == list(range(5000))

import gzip
import json
import random
import subprocess
import sys
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, MissingFile, PenstockError, TransformError
from penstock.graph.node import UNKNOWN
from penstock.ops.internal import csv_columns

PACK = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}
PEOPLE = b"name,age,weight,left\nAnna,31,60.5,true\nBo,4,17,false\n"


@pytest.fixture
def write(tmp_path):
    """Write files, and return the name of the first."""

    def write(*texts, pack=bytes):
        for i, text in enumerate(texts):
            data = text if isinstance(text, bytes) else text.encode()
            (tmp_path / f"{i}.csv").write_bytes(pack(data))
        return tmp_path / "0.csv"

    return write


@pytest.fixture(params=[5, csv_columns.ROWS_CHUNK])
def chunk(request, monkeypatch):
    """Read files in small pieces, too; types are then guessed from the first row."""
    monkeypatch.setattr(csv_columns, "ROWS_CHUNK", request.param)
    return request.param


def person(name, age, weight, left):
    return {
        "name": name,
        "age": np.int64(age),
        "weight": np.float64(weight),
        "left": np.bool_(left),
    }


@pytest.mark.parametrize("compression", PACK)
def test_rows_are_dicts_of_columns(check_states, write, compression, chunk):
    file = write(PEOPLE, pack=PACK[compression])

    check_states(
        lambda: Dataset.csv(file, compression_type=compression or None),
        [person("Anna", 31, 60.5, True), person("Bo", 4, 17, False)],
    )


def test_files_follow_each_other(check_states, write, tmp_path):
    write(PEOPLE, b"name,age,weight,left\n", PEOPLE.replace(b"Anna", b"Ute"))
    files = sorted(tmp_path.iterdir())

    names = [row["name"] for row in Dataset.csv(files)]
    assert names == ["Anna", "Bo", "Ute", "Bo"]
    check_states(lambda: Dataset.csv(files))


def test_files_are_split_among_tasks(check_states, write, tmp_path):
    write(b"a\n1\n2\n", b"a\n3\n", b"a\n4.5\n")
    files = [str(tmp_path / f"{i}.csv") for i in range(3)]

    outcomes = check_states(
        lambda: Dataset.csv(files),
        logs=[[(files[1],), (files[0],), None]],
        streams={"": 0},
    )

    assert [outcome[1][1][1] for outcome in outcomes] == ["3", "1", "2"]


def test_types_are_those_of_the_first_file_whoever_reads_which(splits, write, tmp_path):
    write(b"a\n1.5\n", b"a\n2\n")

    assert [row["a"].dtype for row in Dataset.csv(sorted(tmp_path.iterdir()))] == [np.float64] * 2


def test_columns_are_selected_and_named(check_states, write):
    file = write(PEOPLE)
    names = ["who", "old", "heavy", "hand"]

    assert list(Dataset.csv(file, select_columns=["age", "name"])) == [
        {"age": 31, "name": "Anna"},
        {"age": 4, "name": "Bo"},
    ]
    assert next(iter(Dataset.csv(file, names, select_columns=["heavy"]))) == {"heavy": 60.5}
    bare = write(PEOPLE.partition(b"\n")[2])
    check_states(
        lambda: Dataset.csv(bare, names, select_columns=["who"], header=False),
        [{"who": "Anna"}, {"who": "Bo"}],
    )


def test_types_and_defaults_can_be_given(check_states, write, chunk):
    file = write("a;b;c;d\n1;;x;\n;2.5;;7\n")
    defaults = {"a": np.int32(-1), "b": 0.5, "c": "none", "d": bytes}

    check_states(
        lambda: Dataset.csv(file, column_defaults=defaults | {"d": b"?"}, field_delim=";"),
        [
            {"a": np.int32(1), "b": 0.5, "c": "x", "d": b"?"},
            {"a": np.int32(-1), "b": 2.5, "c": "none", "d": b"7"},
        ],
    )
    (first, _) = outcomes(Dataset.csv(file, column_defaults=defaults, field_delim=";"))
    assert "column 'd' has no value, and its type is bytes" in first


def outcomes(dataset):
    out, it = [], iter(dataset)
    while True:
        try:
            out.append(next(it))
        except StopIteration:
            return out
        except TransformError as exc:
            out.append(str(exc))


def test_what_has_no_value_is_nan_or_empty_or_an_error(write):
    file = write("i,f,s\n1,2.5,x\nNA,NA,NA\n3,,\n4,nan,NA\n")

    first, second, third, fourth = outcomes(Dataset.csv(file, na_value="NA"))

    assert first == {"i": 1, "f": 2.5, "s": "x"}
    assert "column 'i' has no value, and its type is int64: give column_defaults" in second
    assert f"record 1, at byte {len('i,f,s') + 1 + len('1,2.5,x') + 1} of {file}" in second
    assert (third["i"], third["s"], fourth["s"]) == (3, "", "")
    assert np.isnan(third["f"])
    assert np.isnan(fourth["f"])


@pytest.mark.slow
def test_a_bad_row_is_an_error_in_its_place(check_states, write, chunk):
    rows = [f"{i},{i / 2}" for i in range(40)]
    rows[7], rows[20], rows[21] = "7,seven", "20", "21,1,2"
    file = write("a,b\n" + "\n".join(rows) + "\n")

    whole = check_states(lambda: Dataset.csv(file, column_defaults={"b": float}))

    bad = {i: outcome.text for i, outcome in enumerate(whole) if not isinstance(outcome, tuple)}
    assert list(bad) == [7, 20, 21]
    assert "seven" in bad[7]
    assert f"record 7, at byte {4 + sum(len(row) + 1 for row in rows[:7])} of {file}" in bad[7]
    assert "Expected 2 columns, got 1" in bad[20]
    assert "Expected 2 columns, got 3" in bad[21]


def test_a_value_that_does_not_fit_the_guess_is_named(write, monkeypatch):
    monkeypatch.setattr(csv_columns, "ROWS_CHUNK", 8)
    file = write("a\n1\n2\n3\n4.5\n5\n")

    first, *_, bad, last = outcomes(Dataset.csv(file))

    assert first == {"a": 1}
    assert "int64" in bad
    assert "4.5" in bad
    assert last == {"a": 5}


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_quotes_hold_delimiters_quotes_and_line_breaks(check_states, write, newline, chunk):
    text = newline.join(["a,b", '"x, y",1', f'"he said ""no{newline}{newline}""",2', '"",3', ""])

    file = write(text)

    check_states(
        lambda: Dataset.csv(file),
        [
            {"a": "x, y", "b": 1},
            {"a": f'he said "no{newline}{newline}"', "b": 2},
            {"a": "", "b": 3},
        ],
    )


def test_quotes_may_mean_nothing(write):
    file = write('size,n\n5",1\n"6,2\n')

    assert list(Dataset.csv(file, use_quote_delim=False)) == [
        {"size": '5"', "n": 1},
        {"size": '"6', "n": 2},
    ]


def test_a_quote_inside_a_field_is_text(write):
    file = write('size,n\n5" x "y,1\n"6"" z",2\n')

    assert [row["size"] for row in Dataset.csv(file)] == ['5" x "y', '6" z']


def test_a_quote_that_is_not_closed_costs_the_rest_of_the_file(write, tmp_path, chunk):
    write('a,b\n1,2\n"3,4\n5,6\n', "a,b\n7,8\n")

    first, bad, last = outcomes(Dataset.csv(sorted(tmp_path.iterdir()), column_defaults={"a": int}))

    assert (first["a"], last["a"]) == (1, 7)
    assert "is a quote not closed?" in bad
    assert "record 1, at byte 8" in bad


def test_a_row_of_absurd_length_is_given_up(write, monkeypatch):
    monkeypatch.setattr(csv_columns, "LONGEST_ROW", 1 << 16)
    monkeypatch.setattr(csv_columns, "ROWS_CHUNK", 1 << 10)
    file = write('a\nx\n"' + "y\n" * (1 << 18))

    assert "is a quote not closed" in outcomes(Dataset.csv(file))[1]


def test_blank_rows_a_byte_order_mark_and_a_missing_last_break_do_no_harm(
    check_states, write, chunk
):
    file = write("\ufeff\na,b\n\n1,x\n\r\n\n2,y")
    check_states(lambda: Dataset.csv(file), [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    write("\ufeff1\n\n2\n\n")
    check_states(lambda: Dataset.csv(file, ["a"], header=False), [{"a": 1}, {"a": 2}])
    write("a\n")
    check_states(lambda: Dataset.csv(file), [])
    write("")
    check_states(lambda: Dataset.csv(file, ["a"], header=False), [])


def test_types_come_from_the_first_file_that_has_rows(write, tmp_path):
    write("a\n", "a\n1.5\n", "a\n2\n")

    assert list(Dataset.csv(sorted(tmp_path.iterdir()))) == [{"a": 1.5}, {"a": 2.0}]


def test_a_file_with_other_columns_is_named_and_given_up(write, tmp_path):
    write("a,b\n1,2\n", "b,a\n3,4\n", "", "a,b\n5,6\n")

    first, other, last = outcomes(Dataset.csv(sorted(tmp_path.iterdir())))

    assert (first["a"], last["a"]) == (1, 5)
    assert f"csv({tmp_path / '1.csv'})" in other
    assert "the columns are b, a, and those of" in other


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2], [1, 2, 0]])
def test_a_part_without_a_byte_has_no_row(write, tmp_path, order):
    write("", "a,b\n1,2\n", "a,b\n3,4\n")
    parts = sorted(tmp_path.iterdir())

    rows = Dataset.csv([parts[i] for i in order])

    assert [int(row["a"]) for row in rows] == [1, 3]


@pytest.mark.parametrize(
    ("text", "why"), [("a,a\n1,2\n", "'a' twice"), ("", "should have a header")]
)
def test_a_header_that_is_no_use_is_named(write, text, why):
    file = write(text)

    with pytest.raises(TransformError, match=why) as caught:
        list(Dataset.csv(file, select_columns=["a"]))

    assert str(file) in str(caught.value)


def test_a_column_that_there_is_not_is_no_fault_of_an_element(write):
    file = write("b\n1\n")

    for wrong in ({"select_columns": ["a"]}, {"column_defaults": {"a": 1}}):
        with pytest.raises(DatasetError, match="names 'a', and the columns are b"):
            list(Dataset.csv(file, **wrong).ignore_errors())


@pytest.mark.slow
def test_wrong_rows_do_not_hold_up_those_before_them(write):
    file = write("a,b\n1,2\n" + "1\n" * 20_000)

    with iter(Dataset.csv(file)) as rows:
        assert next(rows) == {"a": 1, "b": 2}


def test_an_array_is_no_default(write):
    with pytest.raises(DatasetError, match="column_defaults must hold types"):
        Dataset.csv(write("a\n1\n"), column_defaults={"a": np.array([1, 2])})


@pytest.mark.slow
def test_a_compressed_file_that_is_cut_short_is_an_error_behind_what_was_read(write):
    text = "a\n" + "".join(f"{i}\n" for i in range(200_000))
    file = write(gzip.compress(text.encode())[:-20])

    *rows, bad = outcomes(Dataset.csv(file, compression_type="GZIP"))

    assert rows == [{"a": i} for i in range(len(rows))]
    assert "EOFError" in bad
    assert str(file) in bad


def test_what_is_wrong_is_told_shortly_however_long_the_name_of_a_column_is(write):
    file = write(b"a" * 100_000 + b"\nx\n\xff\n")

    _, bad = outcomes(Dataset.csv(file))

    assert "is not UTF-8: convert the file" in bad
    assert len(bad) < 5000


def test_text_that_is_no_utf8_is_an_error_unless_it_is_bytes(write):
    file = write(b"a\nx\n\xff\ny\n")

    first, bad, last = outcomes(Dataset.csv(file))
    assert (first["a"], last["a"]) == ("x", "y")
    assert "column 'a' is not UTF-8: convert the file" in bad
    assert "column_defaults={'a': bytes}" in bad
    assert f"record 1, at byte 4 of {file}" in bad
    assert [row["a"] for row in Dataset.csv(file, column_defaults={"a": bytes})] == [
        b"x",
        b"\xff",
        b"y",
    ]


FIELD = st.text(st.sampled_from('ab1,;" \n\rü'), max_size=5)


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(FIELD, FIELD), max_size=8), st.sampled_from([3, 7, 1 << 16]))
def test_any_text_that_is_quoted_comes_back(tmp_path, monkeypatch, rows, chunk):
    monkeypatch.setattr(csv_columns, "ROWS_CHUNK", chunk)
    quoted = [",".join('"' + field.replace('"', '""') + '"' for field in row) for row in rows]
    file = tmp_path / "quoted.csv"
    file.write_bytes("\n".join(["a,b", *quoted, ""]).encode())

    read = list(Dataset.csv(file, column_defaults={"a": str, "b": ""}))

    assert [(row["a"], row["b"]) for row in read] == rows


def test_many_rows_are_all_there_in_order(write):
    text = "n,text\n" + "".join(f"{i},row {i}\n" for i in range(60_000))

    rows = list(Dataset.csv(write(text)))

    assert [int(row["n"]) for row in rows] == list(range(60_000))
    assert rows[-1]["text"] == "row 59999"


def test_bad_arguments_are_named(tmp_path):
    csv = lambda **kwargs: Dataset.csv("a.csv", **kwargs)
    for match, arguments in (
        ("column_names", {"column_names": "abc"}),
        ("column_names names 'a' twice", {"column_names": ["a", "a"]}),
        ("column_names", {"header": False}),
        ("select_columns", {"select_columns": []}),
        ("select_columns names 'c'", {"column_names": ["a"], "select_columns": ["c"]}),
        ("column_defaults names 'c'", {"column_names": ["a"], "column_defaults": {"c": 1}}),
        ("column_defaults must be a dict", {"column_defaults": [1, 2]}),
        ("column_defaults must hold types", {"column_defaults": {"a": None}}),
        ("column_defaults must hold types", {"column_defaults": {"a": np.float16}}),
        ("column_defaults must hold types", {"column_defaults": {"a": list}}),
        ("field_delim", {"field_delim": "::"}),
        ("field_delim", {"field_delim": '"'}),
        ("na_value", {"na_value": None}),
        ("compression_type", {"compression_type": "BZIP2"}),
    ):
        with pytest.raises(DatasetError, match=match):
            csv(**arguments)
    with pytest.raises(DatasetError, match="filenames"):
        Dataset.csv([])
    with pytest.raises(MissingFile, match="gone"):
        list(Dataset.csv(tmp_path / "gone"))


def test_how_many_there_are_is_not_known():
    assert Dataset.csv("a.csv").cardinality() == UNKNOWN


def test_pyarrow_is_loaded_when_a_file_is_read_and_else_named_with_the_remedy(write):
    script = """
import sys, json
from penstock import Dataset
from penstock.errors import DatasetError
dataset = Dataset.csv(sys.argv[1]).batch(2)
loaded = [name for name in sys.modules if name.startswith("pyarrow")]
sys.modules["pyarrow"] = None
try:
    iter(dataset)
except DatasetError as exc:
    print(json.dumps([loaded, str(exc)]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(write(PEOPLE))], capture_output=True, timeout=60
    )

    loaded, said = json.loads(done.stdout)
    assert loaded == []
    assert 'pip install "penstock[csv]"' in said


def test_a_header_that_is_no_utf8_is_named_with_file_and_remedy_unless_names_are_given(write):
    file = write("größe,b\n1,x\n".encode("latin-1"))

    (said,) = outcomes(Dataset.csv(file))
    assert f"the header of {file} is not UTF-8: the name of column 0 is b'gr\\xf6\\xdfe'" in said
    assert "convert the file to UTF-8, or give column_names" in said
    assert list(Dataset.csv(file, ["a", "b"])) == [{"a": 1, "b": "x"}]


def test_what_no_line_of_a_header_ends_with_is_part_of_a_name(write):
    (row,) = Dataset.csv(write("a\x1cb\u2028c,d\n1,2\n".encode()))

    assert row == {"a\x1cb\u2028c": 1, "d": 2}


def test_a_header_that_cannot_be_read_is_named(write):
    file = write(b"a" * 200_000 + b",b\n1,2\n")

    (said,) = outcomes(Dataset.csv(file))

    assert f"the header of {file} cannot be read: field larger" in said


def test_a_missing_truth_is_an_error_of_its_row_alone(write):
    missing, there = outcomes(Dataset.csv(write(b"a,b\n,x\n1,y\n"), column_defaults={"a": bool}))

    assert "column 'a' has no value" in missing
    assert there == {"a": True, "b": "y"}


def test_a_byte_order_mark_in_a_row_stays_there_whatever_stands_before_it(write):
    rows = "a\n\ufeff\n\ufeffx\ny\n".encode()

    assert [row["a"] for row in Dataset.csv(write(rows))] == ["\ufeff", "\ufeffx", "y"]


@pytest.mark.parametrize(
    ("parameter", "kwargs"),
    [
        ("column_names", {"column_names": ["a", "\udcff"]}),
        ("select_columns", {"select_columns": ["\udcff"]}),
        ("na_value", {"na_value": "\udcff"}),
        ("column_defaults", {"column_defaults": {"a": "\udcff"}}),
    ],
)
def test_what_no_file_can_hold_is_refused_where_it_is_given(parameter, kwargs):
    with pytest.raises(DatasetError, match=rf"csv: {parameter} holds '\\udcff'"):
        Dataset.csv("gone.csv", **kwargs)


PIECES = [
    *(b"a", b"1", b"2.5", b",", b",", b"\n", b"\n", b'"', b"\r", b"\xff", b"\xe4", b"\0", b" "),
    *(b"\xef\xbb\xbf", b"nan", b"true", b"99999999999999999999", b"2020-01-01", b"12:00:00"),
]
TYPES = [int, float, str, bytes, bool, 0, "x", False]


@pytest.mark.quick(3)
@pytest.mark.parametrize("seed", range(4))
def test_whatever_bytes_a_file_holds_its_errors_are_ours_and_can_be_printed(write, seed):
    chance = random.Random(seed)
    for _ in range(40):
        data = chance.choice([b"", b"a,b\n"]) + b"".join(chance.choices(PIECES, k=40))
        file = write(chance.choice([data, chance.randbytes(200)]))
        names = chance.choice([None, ["a", "b"]])
        types = chance.choice([{}, {"a": chance.choice(TYPES)}])
        quotes = chance.random() < 0.7
        rows = iter(Dataset.csv(file, names, types, use_quote_delim=quotes))
        for _ in range(1 + data.count(b"\n") + data.count(b"\r") + 200):
            try:
                if next(rows, None) is None:
                    break
            except PenstockError as exc:
                str(exc).encode()
                assert isinstance(exc, DatasetError) or not isinstance(
                    exc.__cause__, (UnicodeError, pa.ArrowException)
                )
        else:
            pytest.fail(f"no end: {data!r}")


def test_an_error_about_a_long_value_is_short(tmp_path):
    file = tmp_path / "table.csv"
    file.write_bytes(b"a\n1\n" + b"x" * 100_000 + b"\n")

    with pytest.raises(TransformError) as raised:
        list(Dataset.csv(file, column_defaults={"a": int}))
    assert "column 'a' is no int64" in str(raised.value)
    assert len(str(raised.value)) < 3000


def test_the_first_file_of_a_pattern_has_the_columns_of_all(check_states, write, tmp_path):
    write(PEOPLE, PEOPLE)

    wanted = [person("Anna", 31, 60.5, True), person("Bo", 4, 17, False)] * 2
    check_states(lambda: Dataset.csv(tmp_path / "*.csv"), wanted)

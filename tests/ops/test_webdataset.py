import io
import json
import lzma
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, TransformError


def write(path, files, **how):
    with tarfile.open(path, "w", **how) as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def samples(path, **how):
    return [
        {field: data for field, data in each.items() if field != "__url__"}
        for each in Dataset.webdataset(path, **how)
    ]


def test_neighbours_of_one_key_are_a_sample(tmp_path):
    files = [
        ("a/b.seg.PNG", b"1"), ("a/b.cls", b"2"),
        ("a/c.cls", b"3"),
        ("a.d/c.cls", b"4"),
    ]  # fmt: skip
    write(tmp_path / "f.tar", files)

    assert samples(tmp_path / "f.tar") == [
        {"__key__": "a/b", "seg.png": b"1", "cls": b"2"},
        {"__key__": "a/c", "cls": b"3"},
        {"__key__": "a.d/c", "cls": b"4"},
    ]
    (first, *_) = Dataset.webdataset(tmp_path / "f.tar")
    assert first["__url__"] == str(tmp_path / "f.tar")


def test_files_that_are_no_part_of_a_sample_are_left_out(tmp_path):
    names = ["nodot", ".hidden.cls", "__meta__/x.cls", "dir/.x", "7.cls"]
    write(tmp_path / "f.tar", [(name, b"x") for name in names])

    assert samples(tmp_path / "f.tar") == [{"__key__": "7", "cls": b"x"}]


def test_a_sample_with_one_field_twice_is_an_error_that_names_it(tmp_path):
    write(tmp_path / "f.tar", [("1.cls", b"1"), ("2.cls", b"1"), ("2.CLS", b"2"), ("3.cls", b"3")])

    with pytest.raises(TransformError, match=r"sample '2' has two files 'cls': '2.CLS'"):
        samples(tmp_path / "f.tar")
    left = Dataset.webdataset(tmp_path / "f.tar").ignore_errors(log=None)
    assert [sample["__key__"] for sample in left] == ["1", "3"]


def test_only_selected_fields_are_read(tmp_path):
    write(tmp_path / "f.tar", [("1.jpg", b"j"), ("1.json", b"{}"), ("2.jpg", b"k")])

    assert samples(tmp_path / "f.tar", select="json;cls") == [
        {"__key__": "1", "json": b"{}"},
        {"__key__": "2"},
    ]
    assert samples(tmp_path / "f.tar", select=["JPG"])[1] == {"__key__": "2", "jpg": b"k"}


def test_fields_are_decoded_by_name_and_by_functions(tmp_path):
    image, array = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (4, 3), (7, 8, 9)).save(image, "PNG")
    np.save(array, np.arange(3))
    write(
        tmp_path / "f.tar",
        [
            ("1.png", image.getvalue()), ("1.npy", array.getvalue()), ("1.txt", "ä".encode()),
            ("1.json", json.dumps({"x": 1}).encode()), ("1.cls", b"3"), ("1.mine", b"abc"),
        ],
    )  # fmt: skip

    (each,) = Dataset.webdataset(tmp_path / "f.tar", decode="pil")
    (mine,) = Dataset.webdataset(tmp_path / "f.tar", decode={"mine": len, "json": "json"})

    assert each["png"].shape == (3, 4, 3)
    assert each["png"][0, 0].tolist() == [7, 8, 9]
    assert (each["npy"].tolist(), each["txt"], each["json"], each["cls"]) == (
        [0, 1, 2], "ä", {"x": 1}, 3,
    )  # fmt: skip
    assert each["mine"] == b"abc"
    assert (mine["mine"], mine["json"], mine["cls"]) == (3, {"x": 1}, b"3")


def test_a_field_that_cannot_be_decoded_is_named_with_its_sample(tmp_path):
    write(tmp_path / "f.tar", [("1.json", b"{}"), ("2.json", b"{")])

    with pytest.raises(TransformError) as caught:
        samples(tmp_path / "f.tar", decode="json")

    assert "in field 'json' of sample '2' of" in "".join(caught.value.__cause__.__notes__)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"select": 3}, "select must be names of fields"),
        ({"select": []}, "select must be names of fields"),
        ({"select": "cls;.jpg"}, "select names fields without their dot: 'jpg', not '.jpg'"),
        ({"decode": "jpeg"}, "decode must be 'pil', 'json', or a dict by field, not 'jpeg'"),
        ({"decode": {"jpg": "cv"}}, r"decode\['jpg'\] must be a function of bytes or one of"),
    ],
)
def test_malformed_arguments_are_refused_at_once(arguments, words):
    with pytest.raises(DatasetError, match=f"webdataset: {words}"):
        Dataset.webdataset("f.tar", **arguments)


NAMES = st.text("ab/.é_", min_size=1, max_size=300).filter(
    lambda name: name.strip("/.") and not name.startswith("/") and "//" not in name
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(NAMES, st.binary(max_size=1100)), max_size=6),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    st.sampled_from(["w", "w:gz"]),
)
def test_archives_of_the_standard_library_are_read_as_it_reads_them(tmp_path, files, form, mode):
    with tarfile.open(tmp_path / "f.tar", mode, format=form) as tar:
        for number, (name, data) in enumerate(files):
            info = tarfile.TarInfo(f"{number}x/{name}/f.bin")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
            tar.addfile(tarfile.TarInfo(f"{number}-link"))
    with tarfile.open(tmp_path / "f.tar") as tar:
        wanted = [
            (member.name.removesuffix(".bin"), tar.extractfile(member).read())
            for member in tar
            if member.isfile() and member.name.endswith(".bin")
        ]

    got = [(each["__key__"], each["bin"]) for each in Dataset.webdataset(tmp_path / "f.tar")]

    assert got == wanted


@pytest.mark.parametrize("block", [1, 150])
def test_samples_before_a_damage_are_kept_in_a_compressed_archive(tmp_path, block):
    write(tmp_path / "f.tar", [(f"{n}.bin", bytes(5000)) for n in range(100)])
    (tmp_path / "f").write_bytes(lzma.compress((tmp_path / "f.tar").read_bytes()[:400_000]))

    got = Dataset.webdataset(tmp_path / "f").ignore_errors()

    assert sum(len(batch["__key__"]) for batch in got.batch(block)) == 70


def test_a_sample_behind_a_large_file_of_no_sample_is_in_one_part(tmp_path):
    write(tmp_path / "f", [("README", bytes(9000)), *((f"{n}.bin", bytes(500)) for n in range(9))])
    node = Dataset.webdataset(tmp_path / "f").node

    parted = Dataset(replace(node, pattern=replace(node.pattern, part_bytes=4000)))

    assert [sample["__key__"] for sample in parted] == [f"{n}" for n in range(9)]


def test_references_go_through_shuffle_and_batch_from_every_state(check_states, tmp_path):
    parts = [b"one", b"", b"three" * 9000, b"four", b"5"]
    write(tmp_path / "f.tar", [(f"{i}.jpg", data) for i, data in enumerate(parts)])
    dataset = Dataset.webdataset(tmp_path / "f.tar", lazy=True).shuffle(4, seed=1).batch(3)

    assert len(check_states(dataset.resolve)) == 2
    assert sorted(data for batch in dataset.resolve() for data in batch["jpg"]) == sorted(parts)


def test_states_count_no_samples_that_are_only_read_ahead(check_states, tmp_path):
    write(tmp_path / "f.tar", [(f"{i}.txt", b"x" * i) for i in range(30)])

    def lengths():
        return Dataset.webdataset(tmp_path / "f.tar").map(lambda sample: len(sample["txt"]))

    assert len(check_states(lengths)) == 30


def test_a_bad_sample_that_is_read_ahead_fails_in_its_place(tmp_path):
    names = ["1.cls", "2.cls", "3.cls", "3.CLS", "4.cls"]
    write(tmp_path / "f.tar", [(name, b"x") for name in names])
    keys = Dataset.webdataset(tmp_path / "f.tar").map(lambda sample: sample["__key__"])

    iterator = iter(keys)

    assert [next(iterator), next(iterator)] == ["1", "2"]
    with pytest.raises(TransformError, match="sample '3' has two files"):
        next(iterator)
    assert next(iterator) == "4"

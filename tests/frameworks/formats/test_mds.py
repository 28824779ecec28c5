"""Shards that Mosaic Streaming's own writer made."""

import io
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from penstock.dataset.dataset import Dataset
from tests.frameworks.formats.mosaic import MDSWriter, get_mds_encodings


def write(folder, columns, samples, **options):
    with MDSWriter(out=str(folder), columns=columns, **options) as writer:
        for sample in samples:
            writer.write(sample)


def picture(mode, seed=0):
    channels = {"L": (), "RGB": (3,), "RGBA": (4,)}[mode]
    pixels = np.random.default_rng(seed).integers(0, 256, (5, 7, *channels), np.uint8)
    return Image.fromarray(pixels, mode)


def packed(image, form):
    out = io.BytesIO()
    image.save(out, form)
    return out.getvalue()


RGB = picture("RGB")
VALUES = {
    "bytes": (b"\0\xff", b"\0\xff"),
    "str": ("ä", "ä"),
    "int": (-3, -3),
    **{
        name: (np.dtype(name).type(3), 3)
        for name in (
            "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
            "float16", "float32", "float64",
        )
    },
    "ndarray": (np.arange(6, dtype=np.int16).reshape(2, 3), [[0, 1, 2], [3, 4, 5]]),
    "ndarray:float32": (np.ones((300, 1), np.float32), [[1.0]] * 300),
    "ndarray:uint8:2,2": (np.ones((2, 2), np.uint8), [[1, 1], [1, 1]]),
    "str_int": (12345, 12345),
    "str_float": (0.5, 0.5),
    "str_decimal": (Decimal("1.10"), "1.10"),
    "pil": (RGB, np.asarray(RGB).tolist()),
    "jpeg": (RGB, packed(RGB, "JPEG")),
    "png": (RGB, packed(RGB, "PNG")),
    "jpeg_array": ([b"one", b"three"], (b"one", b"three")),
    "jpegarray": ([b"one"], (b"one",)),
    "list[pil]": ([picture("L")], (np.asarray(picture("L")).tolist(),)),
    "list[jpeg]": ([RGB, RGB], (packed(RGB, "JPEG"),) * 2),
    "list[png]": ([RGB], (packed(RGB, "PNG"),)),
    "json": ({"x": "y"}, {"x": "y"}),
    "pkl": ({"x": "y"}, {"x": "y"}),
}  # fmt: skip


def plain(value):
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


@pytest.mark.parametrize("encoding", VALUES)
def test_values_of_an_encoding_are_those_that_were_written(tmp_path, encoding):
    value, wanted = VALUES[encoding]
    write(tmp_path / "d", {"x": encoding}, [{"x": value}] * 3, hashes=["sha1", "xxh64"])

    got = [plain(sample["x"]) for sample in Dataset.mds(tmp_path / "d", pickled=True)]

    assert got == [wanted] * 3


def test_no_encoding_is_left_out():
    assert get_mds_encodings() <= VALUES.keys()


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_raw_images_of_a_mode_are_arrays(tmp_path, mode):
    write(tmp_path / "d", {"x": "pil"}, [{"x": picture(mode)}])

    (sample,) = Dataset.mds(tmp_path / "d")

    assert sample["x"].tolist() == np.asarray(picture(mode)).tolist()


@given(
    numbers=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=60),
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5),
    compression=st.sampled_from([None, "zstd", "zstd:7", "gz", "bz2", "br:3", "snappy"]),
    hashes=st.sampled_from([[], ["sha1"], ["sha256", "xxh3_64"]]),
    size=st.sampled_from([400, 1 << 20]),
)
@settings(max_examples=30, deadline=None)
def test_any_samples_are_those_that_were_written(
    tmp_path_factory, numbers, texts, compression, hashes, size
):
    folder = tmp_path_factory.mktemp("mds") / "d"
    samples = [{"n": n, "t": texts[i % len(texts)] * 3} for i, n in enumerate(numbers)]
    columns = {"n": "int", "t": "str"}
    size += max(8 + 3 * 4 * max(map(len, texts)), 0)
    write(folder, columns, samples, compression=compression, hashes=hashes, size_limit=size)

    got = [{"n": int(each["n"]), "t": each["t"]} for each in Dataset.mds(folder)]

    assert got == samples

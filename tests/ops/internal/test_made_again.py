import time

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import TransformError
from penstock.options import Options
from penstock.saved.formats import OFFERED
from penstock.storage.counts import counted

pytest.importorskip("pyarrow")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "saved"


@pytest.fixture
def rows():
    return Dataset.range(400).map(lambda x: {"x": x, "name": str(x)})


def numbers(dataset):
    return [int(x) for x in dataset]


def flip(file, at=250):
    """Damage a bit of *file* that belongs to an element."""
    text = bytearray(file.read_bytes())
    text[at] ^= 1
    file.write_bytes(text)


@pytest.mark.parametrize("chunk_format", OFFERED)
def test_a_damaged_chunk_is_made_again(path, rows, chunk_format):
    rows.save(path, chunk_format, chunk_bytes=2000)
    chunks = sorted((path / "data").iterdir())
    flip(chunks[1], -20 if chunk_format == "mds" else 250)
    chunks[2].write_bytes(b"short")
    before = counted()

    repaired = Dataset.load(path, repair=rows)
    assert numbers(repaired.map(lambda row: row["x"])) == list(range(400))
    assert sorted(numbers(repaired.global_shuffle(1).map(lambda row: row["x"]))) == list(range(400))
    by_chunks = Dataset.load(
        path, None, None, lambda found: found.flat_map(lambda x: x), repair=rows
    )
    assert numbers(by_chunks.map(lambda row: row["x"])) == list(range(400))
    new = counted().minus(before)
    assert new.damaged == new.remade >= 6
    assert chunks[2].read_bytes() == b"short"


def test_only_the_elements_of_the_damaged_chunk_are_made_again(path, tmp_path):
    calls = tmp_path / "calls"

    def noted(x):
        with calls.open("a") as file:
            file.write(f"{x} ")
        return x

    numbered = Dataset.range(100).map(noted)
    numbered.save(path, chunk_bytes=80)
    flip(sorted((path / "data").iterdir())[7])
    calls.unlink()

    assert numbers(Dataset.load(path, repair=numbered)) == list(range(100))
    assert calls.read_text().split() == list(map(str, range(70, 80)))


def test_a_shuffle_with_a_seed_repairs_what_it_made(path):
    shuffled = Dataset.range(500).shuffle(50).with_options(Options(seed=3))
    shuffled.save(path, chunk_bytes=800)
    elements = numbers(Dataset.load(path))
    flip(sorted((path / "data").iterdir())[2])

    assert numbers(Dataset.load(path, repair=shuffled)) == elements != list(range(500))


def test_damage_is_counted_and_said_also_if_nothing_makes_the_chunk_again(path, rows):
    rows.save(path)
    flip(next((path / "data").iterdir()))
    before = counted()

    with pytest.raises(TransformError, match="is not that of the manifest; give load repair="):
        list(Dataset.load(path))
    assert counted().minus(before).damaged == 1


def test_a_pipeline_that_makes_other_elements_now_repairs_nothing(path):
    rows = Dataset.range(9).map(lambda x: x + time.monotonic_ns())
    rows.save(path)
    flip(next((path / "data").iterdir()))

    with pytest.raises(TransformError, match="makes other elements 0 to 9 than it made for"):
        list(Dataset.load(path, repair=rows))


def test_a_pipeline_that_fails_now_repairs_nothing(path, tmp_path):
    flag = tmp_path / "works"
    flag.touch()
    rows = Dataset.range(9).map(lambda x: x if flag.exists() else 1 // 0)
    rows.save(path)
    flip(next((path / "data").iterdir()))
    flag.unlink()

    with pytest.raises(TransformError, match=r"cannot make elements 0 to 9 again: .*ZeroDivision"):
        list(Dataset.load(path, repair=rows))

import glob

import fsspec
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, MissingFile, StateError
from penstock.graph.node import UNKNOWN
from penstock.protocol.splits import FilePattern


@pytest.fixture
def many(tmp_path):
    for name in ["b.txt", "a.txt", "c.csv", "d.txt", "e.txt", "f.txt"]:
        (tmp_path / name).write_text(name)
    (tmp_path / "g.txt").mkdir()
    return tmp_path


def names(folder, letters):
    return [str(folder / f"{letter}.txt") for letter in letters]


def test_files_are_listed_sorted(check_states, many):
    check_states(lambda: Dataset.list_files(f"{many}/*.txt", shuffle=False), names(many, "abdef"))


def test_files_come_in_random_order_by_default(check_states, many):
    for i in range(60):
        (many / f"{i}.txt").touch()
    dataset = Dataset.list_files(f"{many}/*.txt")

    first, second = list(dataset), list(dataset)

    assert first != second
    assert sorted(first) == sorted(second) == list(Dataset.list_files(f"{many}/*.txt", False))
    check_states(lambda: Dataset.list_files(f"{many}/[a-f].txt"))


def test_a_seed_gives_the_same_order_in_each_iterator_and_another_in_each_pass(many):
    dataset = Dataset.list_files(f"{many}/*.txt", seed=4).repeat(4)

    listed = list(dataset)

    assert listed == list(dataset)
    assert listed != list(Dataset.list_files(f"{many}/*.txt", seed=5).repeat(4))
    passes = {tuple(listed[i : i + 5]) for i in range(0, 20, 5)}
    assert len(passes) > 1
    assert {frozenset(one) for one in passes} == {frozenset(names(many, "abdef"))}


def test_states_are_exact_over_passes(check_states, many):
    check_states(lambda: Dataset.list_files(f"{many}/*.txt", seed=4).repeat(3))
    check_states(lambda: Dataset.list_files(f"{many}/*.txt").repeat(3))


def test_several_patterns_are_one_listing(many):
    listed = list(Dataset.list_files([many / "d.*", f"{many}/[ab].txt", f"{many}/*.txt"], False))

    assert listed == names(many, "abdef")


def test_a_relative_pattern_means_where_the_dataset_was_built(many, monkeypatch):
    monkeypatch.chdir(many)
    dataset = Dataset.list_files("*.txt", shuffle=False)
    monkeypatch.chdir("/")

    assert list(dataset) == names(many, "abdef")


@pytest.mark.parametrize("name", ["run[1]", "a*b", "q?", "[!x]"])
def test_a_relative_pattern_means_its_own_folder_whatever_that_is_called(
    tmp_path, monkeypatch, name
):
    for folder in (name, "run1", "aXb", "qq", "y"):
        (tmp_path / folder / "in").mkdir(parents=True)
        (tmp_path / folder / "in" / "x.txt").touch()
    monkeypatch.chdir(tmp_path / name)
    monkeypatch.setenv("HOME", str(tmp_path / name))

    for pattern in ("in/*.txt", "./in/../in/x.t?t", "~/in/*"):
        assert list(Dataset.list_files(pattern)) == [str(tmp_path / name / "in" / "x.txt")]


def test_a_name_that_is_no_pattern_of_itself_is_told_how_to_be_written(tmp_path):
    file = tmp_path / "a[1].txt"
    file.touch()

    with pytest.raises(MissingFile, match="glob.escape"):
        list(Dataset.list_files(file))
    assert list(Dataset.list_files(glob.escape(str(file)))) == [str(file)]


def test_remote_files_are_listed_by_their_urls():
    fs = fsspec.filesystem("memory")
    for name in "ba":
        fs.pipe(f"/list_files/{name}.txt", b"x")

    listed = list(Dataset.list_files("memory://list_files/*.txt", shuffle=False))

    assert listed == ["memory:///list_files/a.txt", "memory:///list_files/b.txt"]
    assert list(Dataset.text_lines(listed)) == ["x", "x"]


def test_a_changed_listing_is_noticed(many):
    dataset = Dataset.list_files(f"{many}/*.txt", seed=1)
    it = iter(dataset)
    next(it)
    state = it.state()
    (many / "new.txt").touch()

    with pytest.raises(StateError, match="some have come or gone since"):
        dataset.iterator(state)


def test_a_pattern_that_matches_nothing_is_named_when_reading_begins(many):
    dataset = Dataset.list_files([f"{many}/*.txt", f"{many}/*.none"])

    with pytest.raises(MissingFile, match=r"no file matches '.*/\*\.none'") as caught:
        iter(dataset)

    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, DatasetError)


def test_an_unknown_protocol_is_named():
    with pytest.raises(DatasetError, match="list_files: cannot read 'nosuch://x/\\*'"):
        iter(Dataset.list_files("nosuch://x/*"))


def test_what_it_can_be_split_into(many):
    node = Dataset.list_files(f"{many}/*.txt", seed=3).node

    assert node.units() == FilePattern((f"{many}/*.txt",), shuffle=True, seed=3)
    assert node.cardinality == UNKNOWN


@pytest.mark.parametrize("pattern", [[], 3, "", [""], ["a", 3], b"a", None])
def test_a_bad_pattern_is_named(pattern):
    with pytest.raises(DatasetError, match="list_files: file_pattern must be a path, or a list of"):
        Dataset.list_files(pattern)


def test_a_bad_seed_is_named():
    with pytest.raises(DatasetError, match="list_files: seed must be an integer"):
        Dataset.list_files("*", seed="x")

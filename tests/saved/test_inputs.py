import msgspec
import pytest

from penstock.dataset.dataset import Dataset
from penstock.saved.folder import folder_of
from penstock.saved.manifest import SavedVersions

pytest.importorskip("pyarrow")


@pytest.fixture
def texts(tmp_path):
    """A folder of files with lines."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(200):
        (folder / f"{number:03}.txt").write_text(f"{number}\n")
    return folder


def inputs(dataset, path):
    dataset.save(path)
    return SavedVersions("test", folder_of("test", str(path))).latest().manifest.inputs


def test_a_manifest_says_which_files_were_read(texts, tmp_path):
    lines = Dataset.text_lines(str(texts / "*.txt"))
    one, none = inputs(Dataset.zip((lines, Dataset.range(200))), tmp_path / "one"), Dataset.range(3)

    (found,) = one
    assert (found.source, found.count, found.nbytes) == (
        "text_lines",
        200,
        10 * 2 + 90 * 3 + 100 * 4,
    )
    assert found.first == tuple(str(texts / f"{number:03}.txt") for number in range(3))
    assert inputs(none, tmp_path / "none") == ()


def test_other_files_and_other_contents_have_other_digests(texts, tmp_path):
    lines = Dataset.text_lines(str(texts / "*.txt"))
    found = [inputs(lines, tmp_path / "first"), inputs(lines, tmp_path / "same")]
    (texts / "005.txt").write_text("another text")
    found.append(inputs(lines, tmp_path / "changed"))
    (texts / "006.txt").unlink()
    found.append(inputs(lines, tmp_path / "fewer"))
    digests = [one.digest for (one,) in found]

    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_many_files_take_as_much_room_as_few(texts, tmp_path):
    sizes = [
        len(msgspec.json.encode(inputs(Dataset.text_lines(str(texts / pattern)), tmp_path / name)))
        for name, pattern in (("few", "00[0-4].txt"), ("many", "*.txt"))
    ]

    assert abs(sizes[0] - sizes[1]) < 10


def test_files_that_this_process_cannot_list_are_left_out():
    from penstock.saved.inputs import inputs_of

    assert inputs_of([("text_lines", Dataset.text_lines("/nowhere/*.txt").node.units())]) == ()

"""Members of tar archives by the indexes that DALI's tool writes."""

import io
import os
import tarfile

import pytest

from penstock.dataset.dataset import Dataset
from penstock.file_parts import FilePart, local_version
from penstock.ops import webdataset
from penstock.ops.internal.tar_index import listed
from penstock.storage.tar import members
from tests.ops.internal.test_file_parts import parted

FILES = [
    (f"{folder}{n:03}.{field}", os.urandom(size))
    for n, folder in enumerate(["a/", "a/", "b/c/", ""] * 10)
    for field, size in (("seg.PNG", 37 * n), ("cls", 1), ("jpg", 512))
]

KEYS = list(dict.fromkeys(name.split(".")[0] for name, _ in FILES))


@pytest.fixture(autouse=True)
def kept_here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(path, files=FILES, *, pax=False):
    made = tarfile.PAX_FORMAT if pax else tarfile.USTAR_FORMAT
    with tarfile.open(path, "w", format=made) as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1234.5 if pax else 1234
            tar.addfile(info, io.BytesIO(data))


def wds2idx(path, version="v1.2"):
    """Write the index of *path* as nvidia.dali's tools/wds2idx.py does, by Python's tarfile."""
    samples, before = [], None
    with tarfile.open(path) as tar:
        for member in tar:
            if member.type != tarfile.REGTYPE:
                continue
            dot = member.name.find(".", member.name.rfind("/") + 1)
            base, extension = member.name[:dot], member.name[dot + 1 :]
            if not base or base.endswith("/"):
                continue
            if base != before:
                samples.append([])
                before = base
            samples[-1].append(f"{extension} {member.offset_data} {member.size} {member.name}")
    lines = [f"{version} {len(samples)}", *(" ".join(sample) for sample in samples)]
    path.with_suffix(".idx").write_text("".join(f"{line}\n" for line in lines))


def part_of(path):
    return FilePart(str(path), version=local_version(path.stat()))


def scanned(path):
    with path.open("rb") as file:
        return list(members(file, 0))


@pytest.mark.parametrize("pax", [False, True])
def test_an_index_gives_the_members_that_the_headers_give(tmp_path, pax):
    write(tmp_path / "f.tar", pax=pax)
    wds2idx(tmp_path / "f.tar")

    assert listed(part_of(tmp_path / "f.tar")) == scanned(tmp_path / "f.tar")


def test_an_archive_without_an_index_says_nothing(tmp_path, caplog):
    write(tmp_path / "f.tar")
    write(tmp_path / "g.tgz")

    assert listed(part_of(tmp_path / "f.tar")) is None
    assert listed(part_of(tmp_path / "g.tgz")) is None
    assert not caplog.records


def unfit_old(path):
    wds2idx(path)
    os.utime(path.with_suffix(".idx"), ns=(1, 1))


def unfit_version(path):
    wds2idx(path, "v1.1")


def unfit_cut(path):
    wds2idx(path)
    lines = path.with_suffix(".idx").read_text().splitlines(keepends=True)
    path.with_suffix(".idx").write_text("".join(lines[:-1]))


def unfit_other(path):
    wds2idx(path)
    write(path, [(f"{name}x", data) for name, data in FILES])
    os.utime(path, ns=(1, 1))


def unfit_grown(path):
    wds2idx(path)
    write(path, [*FILES, ("z.bin", bytes(100_000))])
    os.utime(path, ns=(1, 1))


def unfit_folder(path):
    with tarfile.open(path, "a") as tar:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        tar.addfile(tarfile.TarInfo("folder/1.cls"))
    wds2idx(path)


def unfit_space(path):
    write(path, [("a b.cls", b"1")])
    wds2idx(path)


def unfit_nonsense(path):
    path.with_suffix(".idx").write_bytes(b"v1.2 1\na b c d\n")


def unfit_empty(path):
    path.with_suffix(".idx").write_bytes(b"")


@pytest.mark.parametrize(
    "spoil",
    [
        unfit_old, unfit_version, unfit_cut, unfit_other, unfit_grown, unfit_folder, unfit_space,
        unfit_nonsense, unfit_empty,
    ],
)  # fmt: skip
def test_an_index_that_does_not_describe_its_archive_is_not_used_and_this_is_logged(
    tmp_path, caplog, spoil
):
    write(tmp_path / "f.tar")
    spoil(tmp_path / "f.tar")
    expected = [e["__key__"] for e in Dataset.webdataset(tmp_path / "f.tar")]

    assert listed(part_of(tmp_path / "f.tar")) is None
    assert f"{tmp_path}/f.idx is not used" in caplog.text
    shuffled = Dataset.webdataset(tmp_path / "f.tar").global_shuffle(seed=1)
    assert sorted(e["__key__"] for e in shuffled) == sorted(expected)


@pytest.fixture
def no_scan(monkeypatch):
    webdataset._samples.cache_clear()
    original = webdataset._starts

    def starts(found):
        assert isinstance(found, list), "the headers are scanned"
        return original(found)

    monkeypatch.setattr(webdataset, "_starts", starts)


@pytest.mark.usefixtures("no_scan")
@pytest.mark.parametrize("lazy", [False, True])
def test_a_shuffle_reads_the_index_of_a_remote_archive_and_not_its_headers(bucket, tmp_path, lazy):
    write(tmp_path / "f.tar")
    wds2idx(tmp_path / "f.tar")
    for name in ("f.tar", "f.idx"):
        bucket.objects[f"data/{name}"] = (tmp_path / name).read_bytes()

    dataset = Dataset.webdataset("s3://data/f.tar", lazy=lazy).global_shuffle(seed=1)

    assert sorted(e["__key__"] for e in dataset) == sorted(
        {name.split(".")[0] for name, _ in FILES}
    )


@pytest.mark.usefixtures("no_scan")
def test_parts_of_a_local_archive_begin_where_its_index_says(tmp_path):
    write(tmp_path / "f.tar")
    wds2idx(tmp_path / "f.tar")
    dataset = parted(Dataset.webdataset(tmp_path / "f.tar"), 9000)

    keys = [e["__key__"] for e in dataset]

    assert keys == KEYS

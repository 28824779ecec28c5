import io
import tarfile

import pytest

from penstock.storage.tar import BadTarError, members


def archive(*files, form=tarfile.GNU_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_begin_at_any_header(form):
    data = archive(("a" * 90, b"x" * 700), ("b", b""), ("c", b"z"), form=form)
    found = list(members(io.BytesIO(data), 0))

    for i, member in enumerate(found):
        file = io.BytesIO(data)
        file.seek(member.header)
        assert list(members(file, member.header)) == found[i:]
    assert [(m.name, data[m.data : m.data + m.size]) for m in found] == [
        ("a" * 90, b"x" * 700), ("b", b""), ("c", b"z"),
    ]  # fmt: skip


def test_a_long_name_belongs_to_the_member_behind_it():
    data = archive(("d/" * 200 + "x", b"1"), ("y", b"2"))

    first, second = members(io.BytesIO(data), 0)

    assert (first.name, first.header, second.name) == ("d/" * 200 + "x", 0, "y")
    assert second.header == first.end


@pytest.mark.parametrize("kept", [1, 511, 512, 513, 1000, 1300])
def test_an_archive_that_is_cut_is_an_error_and_no_end(kept):
    data = archive(("a", b"x" * 700), ("b", b"y"))[:kept]

    with pytest.raises(BadTarError, match="the archive ends"):
        list(members(io.BytesIO(data), 0))


def test_a_damaged_header_is_named_by_its_place():
    data = bytearray(archive(("a", b"x" * 700), ("b", b"y")))
    data[1536 + 3] ^= 1

    with pytest.raises(BadTarError, match="the checksum of the header at byte 1536 is wrong"):
        list(members(io.BytesIO(data), 0))


def test_a_name_that_claims_to_be_endless_is_refused():
    data = bytearray(archive(("d/" * 200 + "x", b"1")))
    data[124:136] = b"77777777777\0"
    data[148:156] = b"%06o\0 " % (sum(data[:148]) + 8 * 32 + sum(data[156:512]))

    with pytest.raises(BadTarError, match="claims a name of 8589934591 bytes"):
        list(members(io.BytesIO(data), 0))


@pytest.mark.parametrize(("kind", "size"), [(tarfile.LNKTYPE, 700), (tarfile.DIRTYPE, 4096)])
def test_a_link_or_folder_has_no_data_whatever_size_it_tells(kind, size):
    data = bytearray(archive(("link", b""), ("b", b"y")))
    data[156:157] = kind
    data[124:136] = b"%011o\0" % size
    sealed(data)

    assert [member.name for member in members(io.BytesIO(data), 0)] == ["b"]
    assert tarfile.open(fileobj=io.BytesIO(data)).getnames() == ["link", "b"]


def test_a_sparse_file_is_refused_with_its_name():
    old = bytearray(archive(("a", b"x")))
    old[156:157] = b"S"
    with pytest.raises(BadTarError, match="'a' is a sparse file"):
        list(members(io.BytesIO(sealed(old)), 0))

    info = tarfile.TarInfo("GNUSparseFile.0/b")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "b"}
    with pytest.raises(BadTarError, match="'b' is a sparse file"):
        list(members(io.BytesIO(info.tobuf(tarfile.PAX_FORMAT)), 0))


@pytest.mark.parametrize("size", [b"-0000001000", b"1_0        "])
def test_a_size_that_is_no_number_is_refused(size):
    data = bytearray(archive(("a", b"x")))
    data[124:136] = size + b"\0"

    with pytest.raises(BadTarError, match="malformed"):
        list(members(io.BytesIO(sealed(data)), 0))


def sealed(data):
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return data

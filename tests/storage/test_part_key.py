from penstock.storage.part_key import PartKey


def test_a_version_that_tells_only_a_size_is_not_lasting():
    assert PartKey("s3://b/f", "7.etag", 0, 7).is_lasting
    assert not PartKey("s3://b/f", "7.", 0, 7).is_lasting
    assert not PartKey("s3://b/f", "", 0, 7).is_lasting

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.object_md5 import Md5Verdict, ObjectMd5
from penstock.storage.part_key import PartKey

DATA = b"0123456789"
MD5 = hashlib.md5(DATA).hexdigest()


def test_an_object_of_s3_that_is_read_whole_is_checked():
    md5 = ObjectMd5.of(PartKey("s3://b/k", f"10.{MD5}", 0, 10))

    assert md5.verdict(DATA) is Md5Verdict.RIGHT


@pytest.mark.parametrize(
    "key",
    [
        PartKey("s3://b/k", f"10.{MD5}", 0, 9),
        PartKey("s3://b/k", f"10.{MD5}", 1, 10),
        PartKey("s3://b/k", f"10.{MD5}-3", 0, 10),
        PartKey("s3://b/k", "10.2026-01-02T03:04:05", 0, 10),
        PartKey("s3://b/k", "10", 0, 10),
        PartKey("s3://b/k", "", 0, 10),
        PartKey("gs://b/k", f"10.{MD5}", 0, 10),
        PartKey("https://h/k", f"10.{MD5}", 0, 10),
    ],
)
def test_a_range_whose_md5_no_store_tells_is_not_checked(key):
    assert ObjectMd5.of(key) is None


def test_two_answers_that_agree_show_that_the_tag_is_no_md5():
    md5 = ObjectMd5("0" * 32)

    assert [md5.verdict(DATA), md5.verdict(DATA)] == [Md5Verdict.AGAIN, Md5Verdict.NO_MD5]


@given(st.lists(st.sampled_from([DATA, b"a", b"b"]), min_size=1, max_size=20))
def test_bytes_pass_only_if_the_tag_or_the_answer_before_agrees(answers):
    md5, before = ObjectMd5(MD5), None
    for data in answers:
        verdict = md5.verdict(data)
        assert (verdict is Md5Verdict.RIGHT) == (data == DATA)
        if verdict is Md5Verdict.NO_MD5:
            assert data == before
        before = data if data != DATA else before

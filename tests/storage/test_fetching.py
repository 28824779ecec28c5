import hashlib
import os
import time
from dataclasses import replace

import pytest

from penstock.errors import FileChanged
from penstock.storage import fetching, retries
from penstock.storage.cache_folder import CacheFolder
from penstock.storage.counts import counted
from penstock.storage.disk_cache import DiskCache
from penstock.storage.fetching import file_info, hint, read_range, read_soon
from penstock.storage.part_key import PartKey
from penstock.storage.range_cache import use_cache
from penstock.storage.retries import RetryBudget
from penstock.storage.window import FIRST
from tests.storage.stand_in import Handler, tag

DATA = bytes(range(256)) * 40


@pytest.fixture
def key(bucket):
    bucket.objects["data/k"] = DATA
    return PartKey("s3://data/k", f"{len(DATA)}.{tag(DATA).strip(chr(34))}", 100, 5000)


@pytest.mark.parametrize("faults", [[], ["503"], ["cut", "500"], ["short"], ["404", "404"]])
def test_a_range_is_right_after_failures(bucket, key, faults):
    before, bucket.faults = counted(), list(faults)

    assert read_range(key, RetryBudget()) == DATA[100:5000]

    assert bucket.seen["GET"] == len(faults) + 1
    assert counted().retries - before.retries == len(faults)
    assert counted().slow_downs - before.slow_downs == faults.count("503")
    assert counted().nbytes - before.nbytes == 4900


def test_an_error_names_the_range_the_attempt_and_what_the_store_said(bucket, key):
    bucket.fault = lambda _: "500"

    with pytest.raises(
        OSError,
        match=r"s3://data/k, bytes 100 to 5,000, attempt 4: the server answered 500 .*it is so.*"
        r"Penstock does not try again: all retries of this part are used",
    ):
        read_range(key, RetryBudget(left=3))


@pytest.fixture
def whole(bucket, key):
    return replace(key, start=0, stop=len(DATA))


def test_wrong_bytes_of_the_right_length_are_read_again(bucket, whole):
    bucket.faults = ["wrong"]

    assert read_range(whole, RetryBudget()) == DATA
    assert bucket.seen["GET"] == 2


def test_wrong_bytes_never_reach_the_cache(bucket, whole, tmp_path):
    bucket.faults = ["wrong"]
    use_cache(DiskCache(CacheFolder(str(tmp_path), os.geteuid()).prepare(), 1 << 30))
    try:
        assert read_range(whole, RetryBudget()) == DATA
        assert read_range(whole, RetryBudget()) == DATA
    finally:
        use_cache(None)
    assert bucket.seen["GET"] == 2


def test_bytes_that_are_wrong_in_another_way_each_time_are_an_error(bucket, whole, monkeypatch):
    monkeypatch.setattr(Handler, "wrong", lambda _, body: os.urandom(8) + body[8:])
    bucket.fault = lambda _: "wrong"

    with pytest.raises(OSError, match=r"s3://data/k, .*attempt 3: .*bytes .* have another MD5"):
        read_range(whole, RetryBudget(left=2))


def test_a_tag_that_is_no_md5_costs_one_request_for_each_bucket(bucket, whole, caplog):
    bucket.tag = lambda data: f'"{hashlib.md5(data + b"encrypted").hexdigest()}"'
    key = replace(whole, version=f"{len(DATA)}.{bucket.tag(DATA).strip(chr(34))}")

    assert [read_range(key, RetryBudget()) for _ in range(3)] == [DATA] * 3

    assert bucket.seen["GET"] == 4
    assert "The ETag of s3://data/k is not the MD5 of its bytes" in caplog.text


def test_a_store_that_slows_one_prefix_down_slows_no_other(bucket):
    data = DATA[:100]
    bucket.objects |= {"data/a/k": data, "data/b/k": data}
    version = f"100.{tag(data).strip(chr(34))}"
    bucket.faults = ["503"]

    for name in ("a", "b"):
        read_range(PartKey(f"s3://data/{name}/k", version, 0, 100), RetryBudget())

    (there,) = fetching._buckets.values()
    assert there.window("a").limit < FIRST <= there.window("b").limit


def test_a_bucket_with_many_prefixes_keeps_the_windows_in_use():
    bucket = fetching._Bucket()
    used = bucket.window("used")
    used.start()

    for i in range(3 * fetching._MOST_WINDOWS):
        bucket.window(str(i))

    assert bucket.window("used") is used
    assert len(bucket._windows) <= fetching._MOST_WINDOWS


def test_no_permission_is_told_at_once(bucket, key):
    bucket.faults = ["403"]

    with pytest.raises(PermissionError, match=r"^no permission: s3://data/k, .*AccessDenied") as it:
        read_range(key, RetryBudget())

    assert it.value.__cause__ is None
    assert it.value.__context__ is None, "its text may have signed URLs"


def test_an_object_that_was_replaced_is_an_error_and_never_mixed_bytes(bucket, key):
    bucket.objects["data/k"] = DATA[::-1]

    with pytest.raises(FileChanged, match="s3://data/k was changed since it was listed"):
        read_range(key, RetryBudget())


def test_a_listed_object_that_never_appears_is_missing(bucket, key):
    bucket.hidden = {"data/k"}

    with pytest.raises(FileNotFoundError, match=r"s3://data/k, .* attempt 3"):
        read_range(key, RetryBudget(left=2))


def test_a_listed_object_that_appears_late_is_read(bucket, key):
    bucket.hidden = {"data/k"}
    reading = read_soon(key, RetryBudget())
    while bucket.seen["GET"] < 3:
        time.sleep(0.001)
    bucket.hidden = set()

    assert reading.result(20) == DATA[100:5000]


def test_a_late_request_has_a_second_one_whose_answer_is_taken(bucket, key):
    before, bucket.lateness, bucket.faults = counted(), 30.0, ["late"]

    began = time.monotonic()
    assert read_range(key, RetryBudget()) == DATA[100:5000]

    assert time.monotonic() - began < 15
    assert bucket.seen["GET"] == 2
    assert (counted().hedges - before.hedges, counted().hedges_won - before.hedges_won) == (1, 1)


def test_a_range_that_was_hinted_at_is_read_once(bucket, key):
    hint(key)
    hint(key)

    assert read_soon(key, RetryBudget()).result(20) == DATA[100:5000]
    assert bucket.seen["GET"] == 1


def test_a_file_is_asked_about_again_if_the_store_fails(bucket, key):
    assert file_info(key.url)["size"] == len(DATA)
    assert file_info("s3://data/none") is None


def test_a_store_that_stays_silent_about_a_file_is_told(bucket, monkeypatch):
    from penstock.storage import stores

    monkeypatch.setattr(retries, "INFO_PATIENCE", 0.01)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    stores.opened.cache_clear()

    with pytest.raises(OSError, match=r"s3://data/k, attempt \d+: the server cannot be reached"):
        file_info("s3://data/k")

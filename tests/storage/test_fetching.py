import time

import pytest

from penstock.errors import FileChanged
from penstock.storage import retries
from penstock.storage.counts import counted
from penstock.storage.fetching import file_info, hint, read_range, read_soon
from penstock.storage.part_key import PartKey
from penstock.storage.retries import RetryBudget
from tests.storage.stand_in import tag

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
        match=r"s3://data/k, bytes 100 to 5,000, attempt 4: the server answered 500 .*it is so",
    ):
        read_range(key, RetryBudget(left=3))


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

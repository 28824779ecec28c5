import pytest
from fsspec.config import conf

from penstock.dataset.dataset import Dataset
from penstock.errors import FileChanged
from penstock.file_parts import remote_version
from penstock.storage.retries import ReadTrouble
from penstock.storage.stores import StoreError, has_same_version, pins, store_of, trouble_of_status
from tests.storage.stand_in import tag

DATA = bytes(range(256)) * 8


@pytest.fixture
def version(bucket):
    bucket.objects["data/a b.bin"] = DATA
    return f"{len(DATA)}.{tag(DATA).strip(chr(34))}"


URL = "s3://data/a b.bin"


def test_an_object_is_described_and_its_ranges_are_read(bucket, version):
    store = store_of(URL)

    assert remote_version(store.info()) == version
    assert store.get(10, 300, version).read() == DATA[10:300]
    assert store_of("s3://data/none").info() is None


@pytest.mark.parametrize(
    ("fault", "trouble"),
    [
        ("403", ReadTrouble.DENIED), ("401", ReadTrouble.DENIED), ("503", ReadTrouble.SLOW_DOWN),
        ("429", ReadTrouble.SLOW_DOWN), ("500", ReadTrouble.BROKEN), ("404", ReadTrouble.MISSING),
        ("400", ReadTrouble.REFUSED), ("cut", ReadTrouble.BROKEN), ("short", ReadTrouble.BROKEN),
    ],
)  # fmt: skip
def test_a_failure_has_its_kind_and_no_request_is_repeated(bucket, version, fault, trouble):
    bucket.faults = [fault]

    with pytest.raises(StoreError) as caught:
        store_of(URL).get(0, 100, version).read()

    assert caught.value.trouble is trouble
    assert bucket.seen["GET"] == 1
    assert "very-secret-key" not in str(caught.value)


def test_what_the_store_said_is_told(bucket, version):
    bucket.faults = ["403"]

    with pytest.raises(StoreError, match=r"answered 403 Forbidden \(AccessDenied: it is so\)$"):
        store_of(URL).get(0, 100, version)


def test_another_version_of_an_object_is_not_read(bucket, version):
    bucket.objects["data/a b.bin"] = DATA + b"more"

    with pytest.raises(StoreError) as caught:
        store_of(URL).get(0, 100, version)

    assert caught.value.trouble is ReadTrouble.CHANGED


def test_a_server_that_cannot_be_reached_is_told_as_that(bucket, version, monkeypatch):
    from penstock.storage import stores

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    stores.opened.cache_clear()

    with pytest.raises(StoreError, match="the server cannot be reached") as caught:
        store_of(URL).get(0, 100, version)
    assert caught.value.trouble is ReadTrouble.BROKEN


def test_settings_of_fsspec_are_the_users_choice_of_fsspec(bucket, version, monkeypatch):
    monkeypatch.setitem(conf, "http", {"simple_links": True})
    url = f"{bucket.url}/data/a%20b.bin"

    assert type(store_of(url)).__name__ == "_FsspecStore"
    assert store_of(url).get(10, 300, version).read() == DATA[10:300]
    assert remote_version(store_of(url).info()) == version


@pytest.fixture
def by_fsspec(monkeypatch):
    """HTTP URLs that fsspec reads, which compares no versions."""
    monkeypatch.setitem(conf, "http", {"simple_links": True})


def test_of_a_store_that_compares_no_versions_the_version_is_checked_before_and_after(
    bucket, by_fsspec
):
    bucket.objects["data/a.jsonl"] = b'{"n": 1}\n' * 50_000
    url = f"{bucket.url}/data/a.jsonl"
    assert not pins(url)
    lines = Dataset.json_lines(url)
    assert len(list(lines)) == 50_000

    iterator = iter(lines)
    next(iterator)
    bucket.objects["data/a.jsonl"] = b'{"n": 2}\n' * 50_000

    with pytest.raises(FileChanged, match="was changed since it was listed"):
        list(iterator)


def test_a_listing_that_tells_a_size_only_has_the_size_compared():
    assert has_same_version("77.", "77.abc")
    assert not has_same_version("77.", "78.abc")
    assert not has_same_version("77.abc", "77.abcd")
    assert has_same_version("", "77.abc")


def test_a_status_says_whether_to_try_again():
    assert trouble_of_status(504) is ReadTrouble.BROKEN
    assert trouble_of_status(416) is ReadTrouble.REFUSED

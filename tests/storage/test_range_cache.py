from penstock.storage import PartKey, use_cache
from penstock.storage.range_cache import cached


class Kept(dict):
    def get(self, key, fetch):
        if key not in self:
            self[key] = fetch()
        return self[key]


def test_a_process_reads_through_its_cache():
    key, cache = PartKey("s3://b/k", "3.x", 0, 3), Kept()
    use_cache(cache)
    try:
        assert [cached(key, fetch) for fetch in (lambda: b"one", lambda: b"two")] == [b"one"] * 2
    finally:
        use_cache(None)
    assert cached(key, lambda: b"two") == b"two"

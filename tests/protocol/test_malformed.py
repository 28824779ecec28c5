import msgspec
import pytest

from penstock.protocol.malformed import MALFORMED, glimpse


@pytest.mark.parametrize("data", [b"", b"\xc1", b"{", b"[1", b'"\xff"', b"[" * 10_000])
def test_whatever_reading_raises_over_malformed_data_is_one_of_these(data):
    with pytest.raises(MALFORMED):
        msgspec.json.decode(data)


def test_a_glimpse_of_something_large_is_short():
    assert len(glimpse("x" * 100_000)) < 200
    assert len(glimpse(list(range(100_000)))) < 200
    assert glimpse("short") == "'short'"

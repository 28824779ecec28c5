import io
import time
from random import Random

import pytest

from penstock.storage import ranged_file
from penstock.storage.ranged_file import RangedFile, expect, has_ranges, piece
from penstock.storage.read_ahead import FIRST, LEAST, MOST
from tests.storage.stand_in import tag

DATA = Random(3).randbytes(100_000)
VERSION = f"{len(DATA)}.{tag(DATA).strip(chr(34))}"


@pytest.fixture(autouse=True)
def small(bucket, monkeypatch):
    monkeypatch.setattr(ranged_file, "PIECE", 8192)
    monkeypatch.setattr(ranged_file, "BLOCK", 512)
    bucket.objects["data/k"] = DATA


def opened(start=0, stop=0, buffer=1000):
    return io.BufferedReader(RangedFile("s3://data/k", VERSION, len(DATA), start, stop), buffer)


def test_a_file_is_its_bytes_in_pieces_that_are_asked_for_once(bucket):
    with opened(0, len(DATA)) as file:
        assert file.read() == DATA

    assert bucket.seen["GET"] == -(-len(DATA) // 8192)
    assert bucket.sent == len(DATA)


def test_a_fast_reader_of_a_slow_store_has_more_pieces_in_flight(bucket):
    bucket.latency = 0.2
    with opened(0, len(DATA)) as file:
        assert file.read() == DATA

    assert FIRST < bucket.most <= MOST


def test_a_slow_reader_has_few_pieces_in_flight(monkeypatch):
    now = 0.0
    monkeypatch.setattr(ranged_file, "monotonic", lambda: now)
    with opened(0, len(DATA), buffer=8192) as file:
        for n in range(10):
            now += 100.0
            assert file.read(8192) == DATA[8192 * n : 8192 * (n + 1)]
            while not all(piece.came for piece in file.raw._pieces):
                time.sleep(0.001)

        assert len(file.raw._pieces) == LEAST - 1


def test_a_part_and_the_rest_of_its_last_record_take_few_bytes_more(bucket):
    with opened(20_000, 60_000) as file:
        file.seek(20_000)
        assert file.read(40_100) == DATA[20_000:60_100]

    assert bucket.sent <= 40_000 + 1024


def test_parts_of_a_file_share_no_bytes(bucket):
    for start in range(0, 100_000, 25_000):
        with opened(start, start + 25_000) as file:
            file.seek(start)
            assert file.read(25_000) == DATA[start : start + 25_000]

    assert bucket.sent == len(DATA)


@pytest.mark.parametrize("ahead", [(0, 0), (0, 100_000), (30_000, 50_000)])
def test_any_place_can_be_read_in_any_order(ahead):
    random = Random(5)
    with opened(*ahead) as file:
        for _ in range(80):
            at, size = random.randrange(100_001), random.choice([1, 10, 3000, 30_000])
            file.seek(at)
            assert file.read(size) == DATA[at : at + size]
        file.seek(-5, io.SEEK_END)
        assert file.read() == DATA[-5:]
        assert file.read() == b""


def test_a_footer_takes_one_small_request(bucket):
    with opened() as file:
        file.seek(-8, io.SEEK_END)
        file.read(8)

    assert bucket.seen["GET"] == 1
    assert bucket.sent <= 1024


def test_a_large_read_of_any_place_asks_for_its_pieces_at_once(bucket):
    bucket.latency = 0.3
    with opened(buffer=16) as file:
        file.seek(1000)
        assert file.read(30_000) == DATA[1000:31_000]

    assert bucket.most >= 3
    assert bucket.sent <= 32_000


def test_the_first_piece_of_a_part_that_comes_next_is_read_before_it_is_opened(bucket):
    expect("s3://data/k", VERSION, 20_000, 60_000)
    with opened(20_000, 60_000) as file:
        file.seek(20_000)
        assert file.read(10) == DATA[20_000:20_010]

    asked = [numbers for _, numbers in bucket.ranges]
    assert asked.count("20000-24575") == 1


def test_pieces_lie_at_multiples_of_their_size():
    assert piece("u", "", 0, 9, 0).stop == 9
    assert piece("u", "", 20_000, 60_000, 20_000).start == 20_000
    assert piece("u", "", 20_000, 60_000, 30_000).start == 24_576


def test_archives_and_memory_are_not_read_in_ranges():
    assert has_ranges("s3://b/k")
    assert has_ranges("https://h/a?sign=1")
    assert not has_ranges("zip://a::s3://b/k")
    assert not has_ranges("memory://a")
    assert not has_ranges("nosuch://a")

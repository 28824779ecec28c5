"""Datasets of an object store: right in spite of its faults, and with few requests."""

import json
import struct
import time

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import FileChanged, TransformError
from penstock.storage import fetching, hedging, ranged_file

COUNT = 4000


@pytest.fixture
def lines(bucket, monkeypatch):
    """Four files of 250 kB in pieces of 16 kB."""
    monkeypatch.setattr(ranged_file, "PIECE", 16 << 10)
    monkeypatch.setattr(ranged_file, "BLOCK", 1 << 10)
    for part in range(4):
        numbers = range(part * COUNT // 4, (part + 1) * COUNT // 4)
        text = "".join(json.dumps({"n": n, "text": "x" * 230}) + "\n" for n in numbers)
        bucket.objects[f"data/part-{part}.jsonl"] = text.encode()
    return Dataset.json_lines("s3://data/part-*.jsonl")


def total(bucket):
    return sum(map(len, bucket.objects.values()))


def test_an_epoch_takes_at_most_a_tenth_more_bytes_and_requests_than_the_files(bucket, lines):
    assert [int(e["n"]) for e in lines] == list(range(COUNT))

    assert bucket.sent <= 1.1 * total(bucket)
    assert bucket.seen["GET"] <= 1.1 * total(bucket) / (16 << 10) + 4
    assert bucket.seen["LIST"] == 1


def test_errors_cut_bodies_and_late_answers_change_no_element(bucket, lines):
    faults = {3: "503", 17: "cut", 18: "cut", 29: "short", 31: "500", 40: "late"}
    bucket.fault = lambda number: faults.get(number, "")

    assert [int(e["n"]) for e in lines] == list(range(COUNT))


def test_an_object_that_is_replaced_in_mid_run_is_an_error_that_names_it(bucket, lines):
    iterator = iter(lines)
    next(iterator)
    name = "data/part-2.jsonl"
    bucket.objects[name] = bucket.objects[name].replace(b"x", b"y")

    with pytest.raises(FileChanged, match="s3://data/part-2.jsonl was changed since it was listed"):
        for element in iterator:
            assert "y" not in element["text"]


def test_an_error_names_object_range_attempt_and_answer_and_no_credential(bucket, lines):
    bucket.fault = lambda _: "403"

    with pytest.raises(TransformError) as caught:
        list(lines)

    text = str(caught.value)
    assert "s3://data/part-0.jsonl, bytes 0 to 16,384, attempt 1: the server answered 403" in text
    assert "no permission" in text
    assert "AccessDenied" in text
    assert "very-secret-key" not in text
    assert "AKIDAKIDAKID" not in text


def test_a_state_continues_in_the_middle_of_an_object(bucket, lines):
    iterator = lines.iterator()
    taken = [int(next(iterator)["n"]) for _ in range(1234)]
    state = iterator.state()
    iterator.close()
    before = bucket.sent

    taken += [int(e["n"]) for e in lines.iterator(state)]

    assert taken == list(range(COUNT))
    assert bucket.sent - before < 0.9 * total(bucket)  # 0.69, and pieces that were on their way


def times(bucket, lines):
    """Return how long each wait for a piece took."""
    waits = []
    original = ranged_file._waited

    def waited(future):
        began = time.monotonic()
        data = original(future)
        waits.append(time.monotonic() - began)
        return data

    ranged_file._waited = waited
    try:
        assert len(list(lines)) == COUNT
    finally:
        ranged_file._waited = original
    return sorted(waits)


@pytest.mark.slow  # 30 ms for each of hundreds of requests, and four seconds for a few
def test_second_requests_remove_the_slow_1_percent(bucket, lines, monkeypatch):
    bucket.latency, bucket.lateness = 0.03, 4.0
    bucket.fault = lambda number: "late" if number % 80 == 25 else ""
    monkeypatch.setattr(hedging, "_ENOUGH", 8)
    monkeypatch.setattr(hedging, "_BURST", 50.0)
    hedged = times(bucket, lines)

    fetching._forget()
    monkeypatch.setattr(hedging.HedgePolicy, "delay", lambda *_: None)
    bare = times(bucket, lines)

    assert bare[-1] > 3.0
    assert hedged[-1] < 2.5


def test_a_shard_of_mds_is_read_piece_by_piece_and_each_byte_about_once(bucket, monkeypatch):
    monkeypatch.setattr(ranged_file, "PIECE", 16 << 10)
    samples = [struct.pack("<q", n) * 8 for n in range(COUNT)]
    begin = 8 + 4 * COUNT
    ends = b"".join(struct.pack("<I", begin + 64 * n) for n in range(COUNT + 1))
    data = struct.pack("<I", COUNT) + ends + b"".join(samples)
    shard = {
        "column_names": ["n"],
        "column_encodings": ["ndarray:int64:8"],
        "column_sizes": [64],
        "format": "mds",
        "raw_data": {"basename": "0.mds", "bytes": len(data), "hashes": {}},
        "samples": COUNT,
        "version": 2,
        "zip_data": None,
    }
    bucket.objects |= {
        "data/0.mds": data,
        "data/index.json": json.dumps({"version": 2, "shards": [shard]}).encode(),
    }

    found = [element["n"].tolist() for element in Dataset.mds("s3://data")]

    assert found == [[n] * 8 for n in range(COUNT)]
    longest = max(int(b) - int(a) for _, r in bucket.ranges for a, b in [r.split("-")])
    assert longest < len(data) // 4
    assert bucket.sent <= 1.1 * total(bucket)

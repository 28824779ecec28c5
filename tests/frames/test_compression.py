import threading
import tracemalloc

import lz4.block
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import VersionMismatch
from penstock.frames.compression import CodecTrial, Sampler, compress, decompress
from penstock.protocol.types import Codec

SMOOTH = memoryview(np.arange(1 << 18, dtype=np.int32) // 1000).cast("B")
NOISE = memoryview(np.random.default_rng(0).bytes(1 << 20))


class Clock:
    """A clock on which everything between two looks takes *step* seconds."""

    def __init__(self, step):
        self.step = step
        self.looks = 0

    def __call__(self):
        self.looks += 1
        return self.looks * self.step


@given(st.binary(max_size=4000).map(lambda data: data * 3))
def test_what_was_compressed_comes_back(data):
    stored = compress(memoryview(data), Codec.LZ4, Sampler())

    assert stored is None or (len(stored) < len(data) and decompress(stored, len(data)) == data)


def test_none_is_none():
    assert compress(SMOOTH, Codec.NONE, Sampler()) is None


def test_lz4_leaves_alone_what_would_not_shrink():
    assert compress(SMOOTH, Codec.LZ4, Sampler()) is not None
    assert compress(NOISE, Codec.LZ4, Sampler()) is None


def test_small_payloads_are_not_worth_it():
    assert compress(SMOOTH[:1000], Codec.LZ4, Sampler()) is None


def test_auto_compresses_what_shrinks_fast():
    assert compress(SMOOTH, Codec.AUTO, Sampler(), clock=Clock(1e-6)) is not None


def test_auto_leaves_noise_alone_and_looks_again_every_32nd_frame():
    clock, sampler = Clock(1e-6), Sampler()

    for _ in range(65):
        assert compress(NOISE, Codec.AUTO, sampler, clock=clock) is None

    assert clock.looks == 2 * 3


def test_auto_leaves_alone_what_shrinks_too_slowly():
    assert compress(SMOOTH, Codec.AUTO, Sampler(), clock=Clock(1e-3)) is None


def test_auto_notices_that_the_data_changed():
    clock, sampler = Clock(1e-6), Sampler(every=2)
    payloads = [SMOOTH, SMOOTH, NOISE, SMOOTH, SMOOTH]

    stored = [compress(payload, Codec.AUTO, sampler, clock=clock) for payload in payloads]

    assert [each is not None for each in stored] == [True, True, False, False, True]


def test_a_sample_has_something_of_every_part():
    half = len(SMOOTH) // 2
    mixed = memoryview(bytes(SMOOTH[:half]) + bytes(NOISE[:half]))
    sampler = Sampler()
    trials = []
    sampler.learn = trials.append

    compress(mixed, Codec.AUTO, sampler, clock=Clock(1e-6))

    assert 0.4 < trials[0].stored_nbytes / trials[0].nbytes < 0.7


@pytest.mark.parametrize(
    ("trial", "pays"),
    [
        (CodecTrial(1000, 100, 800e-9), True),
        (CodecTrial(1000, 100, 1000e-9), False),
        (CodecTrial(1000, 1000, 1e-9), False),
        (CodecTrial(1000, 1004, 0.0), False),
    ],
)
def test_compression_pays_when_it_saves_more_time_than_it_takes(trial, pays):
    assert trial.pays(link=1e9) is pays


def test_decompressed_memory_is_fresh_and_writable():
    stored = compress(SMOOTH, Codec.LZ4, Sampler())

    raw = decompress(memoryview(stored), len(SMOOTH))
    raw[0] = 1

    assert not raw.readonly
    assert type(raw.obj) is bytearray


@pytest.mark.parametrize("raw_nbytes", [0, 10, len(SMOOTH) - 1, len(SMOOTH) + 1])
def test_a_wrong_length_is_refused(raw_nbytes):
    stored = compress(SMOOTH, Codec.LZ4, Sampler())

    with pytest.raises(VersionMismatch, match="no LZ4 block"):
        decompress(stored, raw_nbytes)


@given(st.binary(min_size=1, max_size=100), st.integers(0, 10_000))
def test_garbage_is_refused(garbage, raw_nbytes):
    try:
        raw = decompress(garbage, raw_nbytes)
    except VersionMismatch:
        return
    assert len(raw) == raw_nbytes


def test_other_threads_run_during_decompression():
    stored = lz4.block.compress(bytes(200 << 20), store_size=False)
    started, progress = threading.Event(), [0]
    over = threading.Event()

    def count():
        started.set()
        while not over.is_set():
            progress[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    started.wait(5)
    before = progress[0]
    decompress(stored, 200 << 20)
    counted = progress[0] - before
    over.set()
    thread.join(5)

    assert counted > 1000


@pytest.mark.parametrize("raw_nbytes", [-1, 1 << 24, (1 << 31) - 1, 1 << 31, 1 << 70])
def test_a_length_that_the_stored_bytes_cannot_have_is_refused_before_memory_is_taken(raw_nbytes):
    tracemalloc.start()
    try:
        with pytest.raises(VersionMismatch, match="do not come of them"):
            decompress(b"\x00" * 100, raw_nbytes)
        assert tracemalloc.get_traced_memory()[1] < 1 << 16
    finally:
        tracemalloc.stop()


def test_what_shrinks_most_comes_back():
    stored = compress(memoryview(bytes(1 << 24)), Codec.LZ4, Sampler())

    assert bytes(decompress(stored, 1 << 24)) == bytes(1 << 24)

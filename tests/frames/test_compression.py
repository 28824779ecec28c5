import subprocess
import sys
import threading
import tracemalloc

import lz4.block
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import VersionMismatch
from penstock.frames.compression import compress, decompress
from penstock.protocol.types import Codec

CODECS = [Codec.LZ4, Codec.ZSTD]
SMOOTH = memoryview(np.arange(1 << 18, dtype=np.int32) // 1000).cast("B")
NOISE = memoryview(np.random.default_rng(0).bytes(1 << 20))

codecs = pytest.mark.parametrize("codec", CODECS)


@given(st.binary(max_size=4000).map(lambda data: data * 3), st.sampled_from(CODECS))
def test_what_was_compressed_comes_back(data, codec):
    stored = compress(memoryview(data), codec)

    assert stored is None or (
        len(stored) < len(data) and decompress(stored, codec, len(data)) == data
    )


def test_none_is_none():
    assert compress(SMOOTH, Codec.NONE) is None


@codecs
def test_what_would_not_shrink_is_left_alone(codec):
    assert compress(SMOOTH, codec) is not None
    assert compress(NOISE, codec) is None


@codecs
def test_small_payloads_are_not_worth_it(codec):
    assert compress(SMOOTH[:1000], codec) is None


def test_auto_is_no_codec_of_a_frame():
    with pytest.raises(ValueError, match="AUTO"):
        compress(SMOOTH, Codec.AUTO)
    for codec in (Codec.AUTO, Codec.NONE):
        with pytest.raises(VersionMismatch, match="not how bytes are stored"):
            decompress(b"\x00" * 100, codec, 100)


@codecs
def test_decompressed_memory_is_fresh(codec):
    stored = compress(SMOOTH, codec)

    raw = decompress(memoryview(stored), codec, len(SMOOTH))

    assert type(raw.obj) is (bytearray if codec is Codec.LZ4 else bytes)
    assert raw == SMOOTH


@codecs
@pytest.mark.parametrize("raw_nbytes", [0, 10, len(SMOOTH) - 1, len(SMOOTH) + 1])
def test_a_wrong_length_is_refused(raw_nbytes, codec):
    stored = compress(SMOOTH, codec)

    with pytest.raises(VersionMismatch, match=f"no {codec.name} block"):
        decompress(stored, codec, raw_nbytes)


@given(
    st.binary(min_size=1, max_size=100),
    st.integers(0, 10_000),
    st.sampled_from(CODECS),
    st.booleans(),
)
def test_garbage_is_refused(garbage, raw_nbytes, codec, begins_well):
    if begins_well:
        garbage = b"\x28\xb5\x2f\xfd" + garbage
    try:
        raw = decompress(garbage, codec, raw_nbytes)
    except VersionMismatch:
        return
    assert len(raw) == raw_nbytes


@given(st.data(), st.sampled_from(CODECS))
def test_damaged_data_is_refused_or_as_long_as_it_was(data, codec):
    stored = bytearray(compress(SMOOTH, codec))
    for _ in range(data.draw(st.integers(1, 5))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, 20))

    try:
        raw = decompress(bytes(stored[: len(stored) - cut]), codec, len(SMOOTH))
    except VersionMismatch:
        return
    assert len(raw) == len(SMOOTH)


@pytest.mark.parametrize("more", [b"x", None])
def test_what_follows_the_end_is_refused(more):
    stored = compress(SMOOTH, Codec.ZSTD)

    with pytest.raises(VersionMismatch, match="does not end there"):
        decompress(stored + (stored if more is None else more), Codec.ZSTD, len(SMOOTH))


@pytest.mark.quick(1)
@codecs
def test_other_threads_run_during_decompression(codec):
    stored = compress(memoryview(bytes(200 << 20)), codec)
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
    decompress(stored, codec, 200 << 20)
    counted = progress[0] - before
    over.set()
    thread.join(5)

    assert counted > 1000


@codecs
@pytest.mark.parametrize("raw_nbytes", [-1, 1 << 24, (1 << 31) - 1, 1 << 31, 1 << 70])
def test_a_length_that_the_stored_bytes_cannot_have_is_refused_before_memory_is_taken(
    raw_nbytes, codec
):
    tracemalloc.start()
    try:
        with pytest.raises(VersionMismatch, match="does not fit the stored"):
            decompress(b"\x00" * 100, codec, raw_nbytes)
        assert tracemalloc.get_traced_memory()[1] < 1 << 16
    finally:
        tracemalloc.stop()


def a_bomb(nbytes, **parameters):
    """A ZSTD frame of *nbytes* zeros, made with other parameters than ours."""
    zstd = zstd_module()
    options = {zstd.CompressionParameter[name]: value for name, value in parameters.items()}
    return zstd.compress(bytes(nbytes), options=options)


def zstd_module():
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def test_a_frame_that_holds_more_than_was_said_is_refused_before_that_is_allocated():
    bomb = a_bomb(1 << 28)
    tracemalloc.start()
    try:
        with pytest.raises(VersionMismatch, match="its own header says 268435456"):
            decompress(bomb, Codec.ZSTD, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_frame_that_does_not_say_how_much_it_holds_is_refused():
    with pytest.raises(VersionMismatch, match="its own header says None"):
        decompress(a_bomb(1 << 20, content_size_flag=0), Codec.ZSTD, 1 << 20)


def test_a_frame_that_wants_a_large_window_is_refused():
    with pytest.raises(VersionMismatch, match="too much memory"):
        decompress(a_bomb(1 << 27, window_log=27), Codec.ZSTD, 1 << 27)


def test_a_length_that_both_headers_made_up_takes_no_more_memory_than_what_comes_out():
    honest = a_bomb(1 << 24)
    lying = bytearray(honest)
    at = lying.index((1 << 24).to_bytes(4, "little"))
    lying[at : at + 4] = (1 << 24 | 1 << 20).to_bytes(4, "little")
    cut = bytes(lying[: len(lying) - 300])  # of half of it there is nothing
    tracemalloc.start()
    try:
        with pytest.raises(VersionMismatch, match="no ZSTD block"):
            decompress(cut, Codec.ZSTD, 1 << 24 | 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


@codecs
def test_what_shrinks_most_comes_back(codec):
    stored = compress(memoryview(bytes(1 << 24)), codec)

    assert bytes(decompress(stored, codec, 1 << 24)) == bytes(1 << 24)


def test_threads_compress_side_by_side():
    wanted = compress(SMOOTH, Codec.ZSTD)
    made = []
    threads = [
        threading.Thread(target=lambda: made.extend(compress(SMOOTH, Codec.ZSTD) for _ in range(5)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert made == [wanted] * 20


def test_lz4_blocks_are_the_ones_that_others_read():
    stored = compress(SMOOTH, Codec.LZ4)

    assert lz4.block.decompress(stored, uncompressed_size=len(SMOOTH)) == SMOOTH


def test_zstd_is_not_loaded_before_a_frame_needs_it():
    code = "import sys, penstock, penstock.frames.frame; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not [name for name in loaded if "zstd" in name]

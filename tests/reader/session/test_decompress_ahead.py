"""Frames are decompressed by another thread, ahead of the loop; each is had once, by anyone."""

import gc
import threading

import pytest

from penstock.errors import VersionMismatch
from penstock.frames.compression import compress
from penstock.protocol.types import Codec
from penstock.reader.session import decompress_ahead
from penstock.reader.session.decompress_ahead import FRAMES, WORTH, DecompressAhead

PAYLOAD = bytes(range(256)) * (WORTH // 256)


@pytest.fixture
def ahead():
    ahead = DecompressAhead()
    yield ahead
    ahead.close()
    assert not any(one.name.startswith("penstock-decompress") for one in threading.enumerate())


@pytest.fixture
def by_thread(monkeypatch):
    """Who decompressed what, by thread; and a gate that other threads wait at."""
    done, gate, real = [], threading.Event(), decompress_ahead.decompress
    loop = threading.get_ident()
    begun = threading.Semaphore(0)

    def noted(stored, codec, nbytes):
        if threading.get_ident() != loop:
            begun.release()
            assert gate.wait(20)
        done.append(threading.get_ident() == loop)
        return real(stored, codec, nbytes)

    monkeypatch.setattr(decompress_ahead, "decompress", noted)
    yield done, gate, begun
    gate.set()


def held(ahead, payload=PAYLOAD):
    stored = compress(memoryview(payload), Codec.LZ4)
    return ahead.hold(memoryview(stored), Codec.LZ4, len(payload))


def test_what_is_there_in_time_is_decompressed_by_another_thread(ahead, by_thread):
    done, gate, _ = by_thread
    gate.set()
    frames = [held(ahead) for _ in range(3)]
    while len(done) < 3:
        threading.Event().wait(0.001)
    assert [bytes(frame.take()) for frame in frames] == [PAYLOAD] * 3
    assert done == [False] * 3


def test_a_loop_that_is_sooner_decompresses_what_has_not_begun(ahead, by_thread):
    done, gate, begun = by_thread
    first, second = held(ahead), held(ahead)
    assert begun.acquire(timeout=20)
    assert bytes(second.take()) == PAYLOAD
    assert done == [True], "the first still waits at the gate"
    gate.set()
    assert bytes(first.take()) == PAYLOAD
    assert done == [True, False]


def test_only_so_many_frames_are_ahead_and_one_that_is_taken_makes_room(ahead, by_thread):
    done, gate, begun = by_thread
    gate.set()
    frames = [held(ahead) for _ in range(FRAMES + 3)]
    for _ in range(FRAMES):
        assert begun.acquire(timeout=20)
    assert not begun.acquire(blocking=False)
    frames[0].take()
    assert begun.acquire(timeout=20)
    assert bytes(frames[-1].take()) == PAYLOAD
    assert done.count(True) == 1, "the last one's turn had not come"


def test_bytes_bound_them_too_but_one_is_always_ahead(ahead, by_thread, monkeypatch):
    _, gate, begun = by_thread
    gate.set()
    monkeypatch.setattr(decompress_ahead, "NBYTES", WORTH - 1)
    frames = [held(ahead), held(ahead)]
    assert begun.acquire(timeout=20)
    assert not begun.acquire(blocking=False)
    frames[0].take()
    assert begun.acquire(timeout=20)


def test_frames_that_are_gone_take_no_room(ahead, by_thread):
    _, gate, begun = by_thread
    gate.set()
    gone = [held(ahead) for _ in range(FRAMES)]
    for _ in gone:
        assert begun.acquire(timeout=20)
    gone.clear()
    gc.collect()
    last = held(ahead)
    while not begun.acquire(blocking=False):  # until the thread lets go of what it had
        last = held(ahead)
    assert bytes(last.take()) == PAYLOAD


def test_small_frames_are_left_to_the_loop(ahead, by_thread):
    done, _, begun = by_thread
    small = held(ahead, PAYLOAD[: WORTH - 1])
    assert bytes(small.take()) == PAYLOAD[: WORTH - 1]
    assert done == [True]
    assert not begun.acquire(blocking=False)


def test_where_there_is_no_thread_for_it_the_loop_decompresses(ahead, monkeypatch):
    def start(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    frames = [held(ahead) for _ in range(3)]
    assert [bytes(frame.take()) for frame in frames] == [PAYLOAD] * 3


def test_a_signal_handler_may_close_it_in_the_middle_of_anything(monkeypatch):
    ahead, frames = DecompressAhead(), []
    submit = decompress_ahead.ThreadPoolExecutor.submit

    def interrupted(pool, *args):
        with pool._shutdown_lock:  # as `submit` has it
            ahead.close()
        return submit(pool, *args)

    monkeypatch.setattr(decompress_ahead.ThreadPoolExecutor, "submit", interrupted)
    opening = threading.Thread(
        target=lambda: frames.extend(held(ahead) for _ in range(3)), daemon=True
    )
    opening.start()
    opening.join(20)
    assert [bytes(frame.take()) for frame in frames] == [PAYLOAD] * 3
    for one in threading.enumerate():
        if one.name in ("penstock-close", "penstock-decompress_0"):
            one.join(20)


def test_a_damaged_frame_says_so_each_time_it_is_taken(ahead):
    stored = compress(memoryview(PAYLOAD), Codec.LZ4)
    frame = ahead.hold(memoryview(stored)[:-9], Codec.LZ4, len(PAYLOAD))
    for _ in range(2):
        with pytest.raises(VersionMismatch, match="no LZ4 block"):
            frame.take()


def test_after_its_end_the_loop_decompresses_what_is_left(by_thread):
    done, gate, begun = by_thread
    ahead = DecompressAhead()
    frames = [held(ahead) for _ in range(3)]
    assert begun.acquire(timeout=20)
    closing = threading.Thread(target=ahead.close)
    closing.start()
    gate.set()
    closing.join(20)
    ahead.close()
    later = held(ahead)
    assert [bytes(frame.take()) for frame in (*frames, later)] == [PAYLOAD] * 4
    assert done == [False, True, True, True]

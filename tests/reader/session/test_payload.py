"""Blocks before a training loop: counted and cut short by another thread."""

import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import VersionMismatch
from penstock.frames.compression import Sampler, compress
from penstock.frames.frame import FrameBuilder
from penstock.protocol.data import FrameHeader
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import Codec
from penstock.reader.session.payload import Block, FramePayload, permitted
from penstock.runtime import clock


class Lease:
    def __init__(self, seconds=60.0):
        self.permitted_until = clock.now() + seconds


@pytest.fixture
def frame():
    def make(elements, first=0, codec=Codec.NONE):
        builder = FrameBuilder(1 << 40)
        assert builder.add(elements) == len(elements)
        layout, columns = builder.take()
        payload = bytearray(layout.nbytes)
        layout.write(columns, memoryview(payload))
        stored = compress(memoryview(payload), codec, Sampler())
        how = Codec.NONE if stored is None else Codec.LZ4
        count = len(elements)
        part = RangeSet.of((first, first + count))
        header = FrameHeader(1, 1, 1, first, count, 0, part, layout.to_bytes(), how, layout.nbytes)
        return header, memoryview(bytes(payload) if stored is None else stored)

    return make


def test_a_block_counts_what_the_loop_has():
    block = Block(["a", "b", "c"])
    assert block.returned() == 1

    assert next(block.rest) == "b"

    assert block.returned() == 2
    assert block.withdraw() == 2
    assert list(block.rest) == []
    assert block.withdraw() == block.returned() == 2


def test_nothing_of_a_block_is_given_after_the_lease():
    block, lease = Block(list(range(10))), Lease()
    rest = permitted(block.rest, lease)
    got = [next(rest), next(rest)]

    lease.permitted_until = clock.now()

    assert list(rest) == []
    assert got == [1, 2]
    assert block.withdraw() == 3


def test_each_element_is_given_or_withdrawn_and_never_both():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for turn in range(150):
            block, got, began = Block(list(range(3000))), [0], threading.Event()

            def read(block=block, got=got, began=began):
                rest = permitted(block.rest, Lease())
                began.set()
                got.extend(rest)

            reading = threading.Thread(target=read)
            reading.start()
            began.wait()
            time.sleep(turn * 1e-6)
            seen = block.returned()
            kept = block.withdraw()
            reading.join()

            assert got == list(range(kept))
            assert seen <= kept
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_load_gives_any_run_of_its_elements(frame, codec):
    elements = [np.full(500, i) for i in range(8)]
    header, payload = frame(elements, first=100, codec=codec)
    load = FramePayload(header, payload, writable=False)

    assert [x[0] for x in load.elements(103, 105)] == [3, 4]
    assert [x[0] for x in load.elements(100, 108)] == list(range(8))


def test_a_damaged_load_says_so_each_time(frame):
    header, payload = frame([np.zeros(10)] * 3)
    load = FramePayload(header, payload[:50], writable=False)

    for _ in range(2):
        with pytest.raises(VersionMismatch):
            load.elements(0, 3)


@pytest.mark.parametrize("more", [-1, 1, 1 << 40])
def test_a_frame_that_holds_other_numbers_than_its_header_says_is_refused(frame, more):
    header, payload = frame([np.zeros(10)] * 3)
    load = FramePayload(replace(header, count=3 + more), payload, writable=False)

    for _ in range(2):
        with pytest.raises(
            VersionMismatch, match=f"holds 3 elements, and its header says {3 + more}"
        ):
            load.elements(3, 3 + more)


def test_a_block_of_nothing_is_no_end():
    with pytest.raises(ValueError):
        Block([])

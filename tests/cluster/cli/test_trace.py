"""What `penstock trace` writes of the frames of a mesh."""

import json
import threading
from itertools import pairwise

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ConfigError, Unavailable
from penstock_cluster.cli.client import screen
from penstock_cluster.cli.trace import trace

STAGES = (
    "make",
    "wait for room",
    "encode",
    "buffered at the worker",
    "on its way",
    "buffered at the reader",
    "decode",
    "hand out",
)
TICK = 1000.0
"""Microseconds by which a clock may have been corrected meanwhile."""


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_each_frame_is_followed_through_all_of_its_stages(cluster, tmp_path, transport):
    output, begun, over = tmp_path / "trace.json", threading.Event(), threading.Event()
    far = (
        Dataset.range(1000)
        .repeat()
        .map(lambda x: bytes(2000 + x))
        .distribute(
            "distributed_epoch",
            cluster.target,
            data_transfer_protocol=transport,
            max_outstanding_requests=8,  # a frame is with its loop soon, also on a busy machine
        )
    )

    def read():
        with iter(far) as elements:
            while not over.is_set():
                next(elements)
                if len(elements.transport) == 2:
                    begun.set()

    reading = threading.Thread(target=read)
    reading.start()
    try:
        assert begun.wait(30)
        for _ in range(20):  # where others use the machine, a worker may make nothing for a while
            with screen.capture() as capture:
                trace(cluster.target, 0.5, output)
            events = json.loads(output.read_bytes())["traceEvents"]
            frames = whole_frames(events)
            if " frames of 2 worker(s)" in capture.get() and len(frames) > 10:
                break
    finally:
        over.set()
        reading.join()

    assert " frames of 2 worker(s)" in capture.get()
    assert len(frames) > 10
    for spans in frames:
        assert tuple(spans) == STAGES
        assert all(a <= b + TICK for a, b in pairwise(spans.values()))
    tracks = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert {f"worker {one.address}" for one in cluster.workers} <= tracks
    assert any(name.startswith("reader ") for name in tracks)
    threads = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"runner 1", "worker", "loop"} <= threads


def whole_frames(events):
    """Return of each frame that came to its loop when each stage began."""
    frames = {}
    for event in events:
        if event["ph"] in "Xb":
            about = event["args"]
            key = about["task"], about["attempt"], about["first"]
            frames.setdefault(key, {})[event["name"]] = event["ts"]
    return [spans for spans in frames.values() if "hand out" in spans]


def test_without_frames_it_says_so(cluster, tmp_path):
    output = tmp_path / "trace.json"
    with screen.capture() as capture:
        trace(cluster.target, 0.1, output)

    assert "0 frames" in capture.get()
    assert json.loads(output.read_bytes())["traceEvents"] == []


def test_a_file_that_cannot_be_written_is_named_before_anything_is_asked(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        trace("127.0.0.1:1", 1.0, tmp_path / "nowhere" / "trace.json")


def test_a_trace_that_fails_leaves_no_new_file_and_an_old_one_as_it_was(tmp_path):
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("[]")

    for output in (new, old):
        with pytest.raises(Unavailable):
            trace("127.0.0.1:1", 1.0, output)

    assert not new.exists()
    assert old.read_text() == "[]"

"""Frames on their way, as a trace: each stage a span, in order."""

import json

from msgspec.structs import replace

from penstock.explanation.trace import journeys, trace_json
from penstock.protocol.data import FrameSent, FrameTaken, FrameTimes

SENT = FrameSent(4, 1, 7, 3, 10, 5, 999, "lz4", 1.0, 2.0, 2.25, 2.5, 3.0, 4.0)
TIMES = FrameTimes(10, 15, 5.0, 6.0, 6.5, 7.0)


def events(found):
    return json.loads(trace_json(found, {3: "reader 3 (pid 9)"}))["traceEvents"]


def test_a_frame_is_followed_from_its_runner_to_the_loop():
    told = {"w:1": [SENT, FrameTaken(4, 1, 3, TIMES)], "w:2": []}

    seen = events(journeys(told))

    work = [(e["name"], e["ts"], e["dur"]) for e in seen if e["ph"] == "X"]
    assert work == [
        ("make", 1e6, 1e6),
        ("wait for room", 2e6, 0.25e6),
        ("encode", 2.25e6, 0.25e6),
        ("decode", 6e6, 0.5e6),
        ("hand out", 6.5e6, 0.5e6),
    ]
    waits = {(e["name"], e["ph"]): e["ts"] for e in seen if e["ph"] in "be"}
    assert waits == {
        ("buffered at the worker", "b"): 3e6,
        ("buffered at the worker", "e"): 4e6,
        ("on its way", "b"): 4e6,
        ("on its way", "e"): 5e6,
        ("buffered at the reader", "b"): 5e6,
        ("buffered at the reader", "e"): 6e6,
    }
    names = [e["args"]["name"] for e in seen if e["ph"] == "M"]
    worker, reader = "worker w:1", "reader 3 (pid 9)"
    assert names == [worker, "runner 1", worker, "worker", reader, "loop"]


def test_both_ends_of_a_wait_have_an_id_that_no_other_wait_has():
    told = {"w:1": [SENT, FrameTaken(4, 1, 3, TIMES)]}

    ends = [e for e in events(journeys(told)) if e["ph"] in "be"]

    pairs = {(e["id"], e["name"], e["pid"]) for e in ends}
    assert len({e["id"] for e in ends}) == len(pairs) == 3


def test_one_that_has_not_arrived_is_shown_as_far_as_it_came():
    (journey,) = journeys({"w:1": [SENT]})

    names = {e["name"] for e in events([journey]) if e["ph"] in "Xb"}

    assert journey.times is None
    assert names == {"make", "wait for room", "encode", "buffered at the worker"}


def test_what_others_say_of_other_parts_is_not_mixed_up():
    other = FrameTimes(11, 15, 5.0, 6.0, 6.5, 7.0)

    (journey,) = journeys({"w:1": [SENT, FrameTaken(4, 1, 3, other)]})

    assert journey.times is None


def test_clocks_that_disagree_give_no_negative_time():
    early = FrameTimes(10, 15, 0.5, 0.5, 0.5, 0.5)

    seen = events(journeys({"w:1": [SENT, FrameTaken(4, 1, 3, early)]}))

    assert all(e.get("dur", 0) >= 0 for e in seen)


def test_a_frame_that_two_readers_share_is_made_once():
    other = replace(SENT, reader=4, start=12)

    seen = events(journeys({"w:1": [SENT, other]}))

    assert [e["name"] for e in seen if e["ph"] == "X"] == ["make", "wait for room", "encode"]
    assert sum(e["name"] == "buffered at the worker" and e["ph"] == "b" for e in seen) == 2


def test_a_runner_stays_on_its_track_when_it_goes_on_with_another_task():
    after = replace(SENT, task=5, run=8, began=2.5, full=3.0, placed=3.0, written=3.5)
    beside = replace(SENT, task=6, run=9)

    seen = events(journeys({"w:1": [SENT, after, beside]}))

    tracks = {e["args"]["task"]: e["tid"] for e in seen if e["name"] == "make"}
    assert tracks[4] == tracks[5] != tracks[6]


def test_frames_that_a_loop_takes_in_turns_are_on_tracks_of_their_own():
    other = replace(SENT, task=5, run=8, began=2.5)
    meanwhile = FrameTimes(10, 15, 5.0, 6.2, 6.8, 7.5)
    told = [SENT, other, FrameTaken(4, 1, 3, TIMES), FrameTaken(5, 1, 3, meanwhile)]

    seen = events(journeys({"w:1": told}))

    tracks = {e["args"]["task"]: e["tid"] for e in seen if e["name"] == "hand out"}
    assert tracks[4] != tracks[5]
    assert [e["args"]["name"] for e in seen if e["ph"] == "M"][-1] == "loop 2"

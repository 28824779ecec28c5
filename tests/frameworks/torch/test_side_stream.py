"""The order of what is queued on a GPU's streams, on streams that only write it down.

There is no GPU where these tests run: this is the documented interface of `torch.cuda`.
"""

from contextlib import contextmanager

import torch

from penstock.torch.loader import SideStream


class FakeStream:
    def __init__(self, name, log):
        self.name, self._log = name, log

    def wait_event(self, event):
        self._log.append(f"{self.name} waits for {event.name}")


class FakeEvent:
    def __init__(self, name, log):
        self.name, self._log = name, log

    def record(self, stream):
        self._log.append(f"{self.name} recorded on {stream.name}")


class FakeCuda:
    """What `SideStream` uses of `torch.cuda`."""

    def __init__(self):
        self.log, self._events = [], 0
        self._loop = FakeStream("loop", self.log)
        self._now = self._loop

    def Stream(self, device):
        self.log.append(f"side made for {device}")
        return FakeStream("side", self.log)

    def Event(self):
        self._events += 1
        return FakeEvent(f"event {self._events}", self.log)

    @contextmanager
    def stream(self, stream):
        before, self._now = self._now, stream
        yield
        self._now = before

    def current_stream(self, device):
        return self._now


class FakeTensor:
    def __init__(self, name, cuda):
        self.name, self._cuda = name, cuda

    def to(self, device, *, non_blocking):
        now = self._cuda._now.name
        self._cuda.log.append(f"{self.name} copied on {now}, non-blocking {non_blocking}")
        return FakeTensor(f"{self.name}'", self._cuda)

    def record_stream(self, stream):
        self._cuda.log.append(f"{self.name} used on {stream.name}")


def test_copies_are_queued_aside_and_the_loop_waits_for_them_on_the_device():
    cuda = FakeCuda()
    side = SideStream(torch.device("cuda:0"), cuda)

    first = side.copy({"x": FakeTensor("x", cuda), "key": "text"})
    second = side.copy({"x": FakeTensor("y", cuda)})
    tensors = side.handed_out(first)

    assert tensors["x"].name == "x'"
    assert tensors["key"] == "text"
    assert cuda.log == [
        "side made for cuda:0",
        "x copied on side, non-blocking True",
        "event 1 recorded on side",
        "y copied on side, non-blocking True",
        "event 2 recorded on side",
        "loop waits for event 1",
        "x' used on loop",
    ]
    assert second.sources["x"].name == "y"

"""A service as an object in this process."""

import asyncio
import os
import threading

import pytest

from penstock.errors import Closed, ConfigError
from penstock.runtime.background import BackgroundDeparture, BackgroundServer


class Served(BackgroundServer):
    """Serves until it is cancelled, or fails when told to."""

    noun = "test service"

    def __init__(self, *, failure=None, in_order=False):
        self.seen = []
        self.fail = threading.Event()
        self._failure, self._in_order = failure, in_order
        self._leave = asyncio.Event()
        super().__init__(start=False)

    def _serving(self):
        seen, failure, leave = self.seen, self._failure, self._leave

        async def serve(ready):
            if failure is not None:
                raise failure
            ready("host:1")
            try:
                await leave.wait()
                seen.append("left")
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        return serve

    def _departure(self):
        return BackgroundDeparture(self._leave.set, 10.0) if self._in_order else None


def test_a_service_has_an_address_while_it_runs_and_leaves_nothing():
    before = threading.active_count()
    service = Served()
    with pytest.raises(Closed, match="not been started"):
        _ = service.address

    with service:
        service.start()
        assert service.address == "host:1"

    assert service.seen == ["cancelled"]
    assert threading.active_count() <= before


def test_a_service_leaves_in_order_unless_it_is_to_stop_at_once():
    for at_once, end in ((False, ["left"]), (True, ["cancelled"])):
        service = Served(in_order=True)
        service.start()
        service.stop(at_once=at_once)
        service.stop()
        assert service.seen == end


def test_a_service_that_was_stopped_cannot_be_started():
    service = Served()
    service.start()
    service.stop()

    with pytest.raises(Closed, match="make another one"):
        service.start()


def test_what_keeps_a_service_from_starting_is_raised_and_leaves_nothing():
    before = threading.active_count()

    with pytest.raises(ConfigError, match="no such port"):
        Served(failure=ConfigError("no such port")).start()

    assert threading.active_count() <= before


def test_a_forked_child_may_stop_its_copy_though_a_thread_of_the_parent_had_the_lock():
    with Served() as service:
        with service._lock:
            child = os.fork()
            if child == 0:
                service.stop()
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert service.address == "host:1"

"""Drivers that tests of operators with threads share: functions that fail, threads, and waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from penstock.dataset.iterator import DatasetIterator
from penstock.errors import Closed


def failing_at(*bad: int) -> Callable[[Any], Any]:
    """Return a function that returns its argument, and raises for those in *bad*."""

    def check(x: Any) -> Any:
        if x in bad:
            raise ValueError(f"{x} is bad")
        return x

    return check


def threads() -> list[threading.Thread]:
    """Return Penstock's threads in this process."""
    return [t for t in threading.enumerate() if t.name.startswith("penstock")]


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until *condition* holds, for ten seconds at the most."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in ten seconds"
        time.sleep(0.001)


def seconds_to_close(elements: DatasetIterator, inside: threading.Event) -> float:
    """Ask for an element in a thread and close *elements* once *inside* is set.

    The thread must end with `Closed`. Return how long that took.
    """
    raised: list[Closed] = []

    def read() -> None:
        try:
            next(elements)
        except Closed as exc:
            raised.append(exc)

    reader = threading.Thread(target=read)
    reader.start()
    assert inside.wait(10)
    began = time.monotonic()
    elements.close()
    reader.join(10)
    assert not reader.is_alive()
    assert raised
    return time.monotonic() - began

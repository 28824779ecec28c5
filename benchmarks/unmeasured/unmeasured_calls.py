"""What measures all the time, and how to leave it out: for the benchmark of what it costs."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable

OUT, BACK = signal.SIGUSR1, signal.SIGUSR2
"""Has a process that listens leave it out, and put it back."""


def _nothing(*_args: object, **_options: object) -> None:
    """Measure nothing."""


def _no_times(*_: object) -> tuple[float, float, float, float]:
    return (0.0, 0.0, 0.0, 0.0)


def leave_out() -> Callable[[], None]:
    """Leave it out from now on, and the times of frames; return what puts it back.

    Operators that run already are timed no more: what times them lies over their methods.
    """
    from penstock.engine.iterator import OpIterator
    from penstock.engine.loop_time import LoopClock
    from penstock.engine.op_times import OpTimes
    from penstock.reader.session.link_traffic import LinkMeter
    from penstock_worker.runner.frame_writer import FrameWriter

    measures = [
        (OpTimes, "watch", _nothing),
        (LoopClock, "ask", _nothing),
        (LoopClock, "got", _nothing),
        (LinkMeter, "note", _nothing),
        (FrameWriter, "_times", _no_times),
    ]
    kept = [(kind, name, getattr(kind, name)) for kind, name, _ in measures]
    for kind, name, instead in measures:
        setattr(kind, name, instead)
    for one in gc.get_objects():
        if issubclass(type(one), OpIterator):
            timed = {"block", "rows"} & vars(one).keys()
            kept += [(one, name, vars(one).pop(name)) for name in timed]

    def put_back() -> None:
        for owner, name, method in kept:
            setattr(owner, name, method)
        kept.clear()

    return put_back


def listen() -> None:
    """Leave it out and put it back in this process, and those that it forks, as signals say."""
    left_out: list[Callable[[], None]] = []

    def on_signal(number: int, _frame: object) -> None:
        if number == OUT and not left_out:
            left_out.append(leave_out())
        elif number == BACK and left_out:
            left_out.pop()()

    for number in (OUT, BACK):
        signal.signal(number, on_signal)

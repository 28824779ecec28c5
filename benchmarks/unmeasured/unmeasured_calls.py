"""What measures all the time, and how to leave it out: for the benchmark of what it costs."""

from collections.abc import Callable


def _nothing(*_args: object, **_options: object) -> None:
    """Measure nothing."""


def _measuring() -> list[tuple[type, str]]:
    from penstock.engine.loop_time import LoopClock
    from penstock.engine.op_times import OpTimes
    from penstock.reader.session.link_traffic import LinkMeter

    return [
        (OpTimes, "watch"),
        (LoopClock, "got"),
        (LinkMeter, "note"),
    ]


def leave_out() -> Callable[[], None]:
    """Leave it out from now on, and the times of frames; return what puts it back."""
    from penstock_worker.runner.frame_writer import FrameWriter

    kept = [(kind, name, getattr(kind, name)) for kind, name in _measuring()]
    for kind, name, _ in kept:
        setattr(kind, name, _nothing)
    times = FrameWriter._times
    FrameWriter._times = lambda *_: (0.0, 0.0, 0.0, 0.0)  # type: ignore[method-assign]

    def put_back() -> None:
        for kind, name, method in kept:
            setattr(kind, name, method)
        FrameWriter._times = times  # type: ignore[method-assign]

    return put_back

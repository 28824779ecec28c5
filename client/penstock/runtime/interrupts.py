"""Exceptions that are no errors in Python's sense: whether a user's function raised one itself.

`sys.exit` in a library that a function calls is an error of the element that the function got.
Ctrl-C, or `sys.exit` in a handler of SIGTERM, is not: it only strikes while the function runs.
"""

from __future__ import annotations

import signal
import threading
from types import CodeType


def is_interrupt(exc: BaseException) -> bool:
    """Return whether *exc*, which came out of a user's function, is for the whole process.

    Python runs signal handlers in the main thread only. Penstock's own processes ignore SIGINT, and
    nothing interrupts functions there.
    """
    if isinstance(exc, Exception) or threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return False
    return not isinstance(exc, SystemExit) or _is_from_handler(exc)


def _is_from_handler(exc: BaseException) -> bool:
    """Return whether the handler of a signal is among the frames that *exc* came through."""
    handlers = _codes_of_handlers()
    step = exc.__traceback__
    while step is not None:
        if step.tb_frame.f_code in handlers:
            return True
        step = step.tb_next
    return False


def _codes_of_handlers() -> set[CodeType]:
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    made = [getattr(handler, "func", handler) for handler in handlers if callable(handler)]
    calls = [call if hasattr(call, "__code__") else type(call).__call__ for call in made]
    bound = [getattr(call, "__func__", call) for call in [*made, *calls]]
    return {call.__code__ for call in bound if hasattr(call, "__code__")}

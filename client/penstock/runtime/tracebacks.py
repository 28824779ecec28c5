"""Tracebacks of users' errors as text, with the frames of users' code but not of Penstock's."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import FunctionType, TracebackType

from penstock.errors import InternalError, PenstockError

LONGEST = 8192
"""Most characters of a traceback; the middle of a longer one is left out."""

_OURS = str(Path(__file__).parents[1]) + "/"


def told(error: BaseException) -> str:
    """Return the traceback of *error* and of its causes, as Python shows them.

    It leaves out Penstock's own frames, and the middle of a text that is still too long.
    """
    try:
        made = traceback.TracebackException.from_exception(error)
        _leave_out(made)
        text = "".join(made.format())
    except Exception:  # noqa: BLE001  a user's error that raises when it is shown
        text = "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
    return shortened(text, LONGEST)


def without_ours(error: BaseException) -> None:
    """Remove Penstock's frames from the traceback of *error*; keep those of users' code."""
    theirs = []
    step = error.__traceback__
    while step is not None:
        if not _is_ours(step.tb_frame.f_code.co_filename):
            theirs.append(step)
        step = step.tb_next
    made: TracebackType | None = None
    for step in reversed(theirs):
        made = TracebackType(made, step.tb_frame, step.tb_lasti, step.tb_lineno)
    error.__traceback__ = made


def keep_users_frames(error: PenstockError) -> None:
    """Remove Penstock's frames from *error* and its causes; keep those of users' code.

    An `InternalError` keeps all frames.
    """
    if isinstance(error, InternalError):
        return
    chain: list[BaseException] = [error]
    for each in chain:
        without_ours(each)
        behind = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        if behind is not None and not any(behind is known for known in chain):
            chain.append(behind)
    for each in chain:
        if each.__cause__ is None and each.__context__ and not each.__context__.__traceback__:
            each.__suppress_context__ = True


def shortened(text: str, most: int) -> str:
    """Return *text*; if it is longer than *most*, only its start and end, which matter most."""
    less = len(text) - most
    if less <= 0:
        return text
    return f"{text[: most // 2]}\n[... {less} characters ...]\n{text[-most // 2 :]}"


def _leave_out(made: traceback.TracebackException) -> None:
    todo = [made]
    for each in todo:
        theirs = [frame for frame in each.stack if not _is_ours(frame.filename)]
        each.stack = traceback.StackSummary.from_list(theirs)
        todo += [error for error in (each.__cause__, each.__context__) if error is not None]
        todo += each.exceptions or []


def _is_ours(filename: str) -> bool:
    return filename.startswith(_OURS) or "/penstock_worker/" in filename


def named_by(public: type) -> None:
    """Give the methods that *public* inherits from classes of Penstock its name.

    Python's errors name a function by the class that defines it. With this, `batch() missing 1
    argument` names `Dataset`, and not a class that users cannot find.
    """
    for base in public.__mro__[1:]:
        if not base.__module__.startswith("penstock."):
            continue
        for name, value in vars(base).items():
            method = getattr(value, "__func__", value)
            if isinstance(method, FunctionType) and method.__name__ == name:
                method.__qualname__ = f"{public.__qualname__}.{name}"
                method.__module__ = public.__module__

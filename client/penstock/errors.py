"""Every exception that Penstock raises.

PenstockError                    .retryable says whether trying again may help
├── ConfigError                  settings contradict themselves              ValueError
├── DatasetError                 the pipeline or an argument is malformed    ValueError
│   ├── DefinitionError          it cannot be sent to a worker, or not loaded there
│   │   ├── DefinitionTooLarge   it takes more bytes than a dispatcher accepts
│   │   └── TamperedDefinition   it is not what a trainer registered
│   ├── ElementError             an element is not what a dataset may yield
│   │   └── ElementTooLarge      one element exceeds the message budget
│   ├── StateError               a saved state does not fit this dataset
│   └── MissingFile              a file or pattern names nothing             FileNotFoundError
├── TransformError               a user's function raised, or took its process along   RuntimeError
├── SaveFailed                   a job was not saved, for no reader of it    RuntimeError
├── JournalError                 what the dispatcher wrote cannot be read    RuntimeError
├── Refused                      a service answered, and said no
│   ├── JobMismatch              the job exists with other parameters        ValueError
│   ├── JobUsed                  others read it, or a part of it, before     RuntimeError
│   ├── UnknownDataset           it is not registered                        LookupError
│   ├── UnknownIteration         it is over or was never opened              LookupError
│   ├── JobForgotten             a pass ended early, and cannot go on        LookupError
│   ├── Superseded               another reader took this one's place        RuntimeError
│   ├── VersionMismatch          the two sides cannot talk                   RuntimeError
│   ├── StoreFull                nothing more can be written down            RuntimeError
│   ├── Unauthenticated          who calls did not say so that it counts     PermissionError
│   ├── WrongRole                who calls may not do this                   PermissionError
│   └── Overloaded               it is full: wait, then try again            RuntimeError
├── Unavailable                  no answer came                              ConnectionError
│   ├── Untrusted                the far end is not who it should be         ConnectionError
│   ├── WaitedTooLong            a deadline passed; says for whom            TimeoutError
│   └── ConsumerLost             one that all wait for is gone; says which   ConnectionError
├── InternalError                Penstock has a fault; the message says where RuntimeError
├── Closed                       the object was closed or stopped before     RuntimeError
├── MissingExtra                 a package that an extra installs is not here ImportError
└── Reentered                    a signal handler came amid another call     RuntimeError

An error crosses the wire by its class name and `fields()`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

DOCS = "PENSTOCK_DOCS"
"""The variable that says where the documentation is published, as ``https://docs.example``."""

COMMAND = "penstock errors"
"""The command that prints the page on errors, or its section on one of them."""


class PenstockError(Exception):
    """Base of all the errors below; catch it to catch them all.

    Attributes:
        retryable: whether trying the same again may help.

    >>> from penstock.errors import Overloaded, PenstockError
    >>> try:
    ...     raise Overloaded("the worker is full")
    ... except PenstockError as error:
    ...     print(error.retryable)
    True
    """

    retryable = False

    @property
    def address(self) -> str:
        """Where to read what this error means, and what to do.

        A command that prints it, without a network: ``penstock errors Closed``. If
        ``PENSTOCK_DOCS`` is set, a page below that address; if that is empty, nothing.
        """
        base, name = os.environ.get(DOCS), type(self).__name__
        if base is None:
            return f"`{COMMAND} {name}`"
        return f"{base.rstrip('/')}/reference/errors/#{name.lower()}" if base else ""

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]  # it is an attribute, as all can be
        """What a traceback shows below the message: at its end, where the error is explained.

        Not in the message itself: that goes into messages of others, which then had it twice.
        """
        address = self.address
        return [*self.__dict__.get("_added", ()), *([f"see {address}"] if address else [])]

    def add_note(self, note: str, /) -> None:
        """Add a line below the message, as all exceptions can; the address stays the last.

        Args:
            note: the line.

        >>> from penstock.errors import Closed
        >>> error = Closed("it was closed")
        >>> error.add_note("by a signal handler")
        >>> error.__notes__[0]
        'by a signal handler'
        """
        if not isinstance(note, str):
            raise TypeError(f"note must be a str, not '{type(note).__name__}'")
        self.__dict__.setdefault("_added", []).append(note)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes it again in another process, as `copy` and `pickle` ask for it."""
        return (type(self), self.fields(), self.__dict__)

    def fields(self) -> tuple[Any, ...]:
        """Return what `type(self)(*fields)` needs to make this error again elsewhere."""
        return (str(self),)


def explained_at(error: PenstockError) -> str:
    """Return the text of *error*, and where to read more on it: for readers who see no notes.

    >>> from penstock.errors import Closed
    >>> explained_at(Closed("it was closed"))
    'it was closed (see `penstock errors Closed`)'
    """
    address = error.address
    return f"{error} (see {address})" if address else str(error)


def describe(error: BaseException) -> str:
    """Return the class and the text of *error*, which may be a user's and need not work."""
    try:
        text = str(error)
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    except Exception as why:  # noqa: BLE001  as above
        return f"{type(error).__name__}: (its text cannot be had: {type(why).__name__})"


class ConfigError(PenstockError, ValueError):
    """The settings contradict themselves, or one is malformed; the message names it."""


class DatasetError(PenstockError, ValueError):
    """The pipeline, or an argument given to it, is malformed. The message names the operator.

    >>> Dataset.range(3).batch(0)
    Traceback (most recent call last):
    penstock.errors.DatasetError: batch: batch_size must be an integer of at least 1, not 0
    """


class DefinitionError(DatasetError):
    """A pipeline cannot be sent to a worker, or cannot be loaded there."""


class DefinitionTooLarge(DefinitionError):
    """A pipeline takes more bytes than the dispatcher accepts; the largest part is named."""


class TamperedDefinition(DefinitionError):
    """A definition was changed since a trainer registered it, and is not run."""


class ElementError(DatasetError):
    """An element is not what a dataset may yield, or not like those before it."""


class ElementTooLarge(ElementError):
    """One element exceeds the message budget."""


class StateError(DatasetError):
    """A saved state does not fit this dataset."""


class MissingFile(DatasetError, FileNotFoundError):
    """A file does not exist, or a pattern matches nothing."""


class TransformError(PenstockError, RuntimeError):
    """A user's function raised, or took its process along.

    What it raised is the error's ``__cause__`` where that was in this process. An iterator goes on
    behind the element; see also `Dataset.ignore_errors`.

    Attributes:
        operator: the operator and the function, as in ``map(decode)``.
        number: which call it was: the number of the operator's input element, from 0. On a worker
            it counts the elements of one task.
        detail: what was raised, or the signal that ended the process.
        worker: the worker's address, or None when the pipeline ran in this process.
        remote_traceback: the traceback where it was raised, as text; without Penstock's frames.
        given: what the function was called with, as text that is cut short; nothing if it was
            called with nothing.

    >>> from penstock.errors import TransformError
    >>> def inverse(x):
    ...     return 6 // int(x)
    >>> try:
    ...     next(iter(Dataset.range(3).map(inverse)))
    ... except TransformError as error:
    ...     print(error.operator, error.number, repr(error.__cause__))
    map(inverse) 0 ZeroDivisionError(...)
    """

    def __init__(
        self,
        operator: str,
        number: int,
        detail: str,
        worker: str | None = None,
        remote_traceback: str = "",
        given: str = "",
    ) -> None:
        place = f" in a task on worker {worker}" if worker else ""
        text = f"{operator} failed at element {number}{place}: {detail}"
        text += f" (its input was {given})" if given else ""
        super().__init__(f"{text}\n\n{remote_traceback}" if worker and remote_traceback else text)
        self.operator = operator
        self.number = number
        self.detail = detail
        self.worker = worker
        self.remote_traceback = remote_traceback
        self.given = given

    def fields(self) -> tuple[Any, ...]:
        """Return the six attributes, in the order of the constructor."""
        told = self.worker, self.remote_traceback, self.given
        return (self.operator, self.number, self.detail, *told)

    def but(
        self,
        *,
        number: int | None = None,
        detail: str | None = None,
        worker: str | None = None,
        remote_traceback: str | None = None,
    ) -> TransformError:
        """Return the same error, from the same cause, with other attributes.

        None leaves an attribute as it is.

        Args:
            number: in the place of `number`.
            detail: in the place of `detail`.
            worker: in the place of `worker`.
            remote_traceback: in the place of `remote_traceback`.

        >>> from penstock.errors import TransformError
        >>> print(TransformError("map(f)", 0, "ValueError: no").but(number=7))
        map(f) failed at element 7: ValueError: no
        """
        made = TransformError(
            self.operator,
            self.number if number is None else number,
            self.detail if detail is None else detail,
            self.worker if worker is None else worker,
            self.remote_traceback if remote_traceback is None else remote_traceback,
            self.given,
        )
        made.__cause__ = self.__cause__
        return made


class SaveFailed(PenstockError, RuntimeError):
    """A job was not saved, for none of its readers."""


class JournalError(PenstockError, RuntimeError):
    """What a dispatcher wrote down cannot be read; the message names file, place and remedy."""


class Refused(PenstockError):
    """A service answered, and said no."""


class JobMismatch(Refused, ValueError):
    """A job of this name exists with other parameters.

    Args:
        message: which, and what to do.
        dataset: the id of the job's dataset, where that differs.
    """

    def __init__(self, message: str, dataset: str = "") -> None:
        super().__init__(message)
        self.dataset = dataset

    def fields(self) -> tuple[Any, ...]:
        """Return the message and `dataset`."""
        return (str(self), self.dataset)


class JobUsed(Refused, RuntimeError):
    """Readers that are gone read all, or a part, of what was to be read from its beginning."""


class UnknownDataset(Refused, LookupError):
    """No dataset is registered under this id."""


class UnknownIteration(Refused, LookupError):
    """This iteration is over, or was never opened."""


class JobForgotten(Refused, LookupError):
    """Part of this pass was acked, and the rest of it is forgotten: it cannot go on."""


class Superseded(Refused, RuntimeError):
    """A state of its job was restored since; or another process reads as this consumer."""


class VersionMismatch(Refused, RuntimeError):
    """The two sides speak different versions."""


class StoreFull(Refused, RuntimeError):
    """The dispatcher can write nothing more down, and so accepts nothing new."""


class Unauthenticated(Refused, PermissionError):
    """Who calls showed no credential, or one that does not count; the message says why."""


class WrongRole(Refused, PermissionError):
    """Who calls is known, and may not do this; the message names the roles that may."""


class Overloaded(Refused, RuntimeError):
    """The service is full.

    Attributes:
        retry_after: the seconds after which trying again is worth it, if the service knows.
    """

    retryable = True

    def __init__(self, message: str, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = 0.0 if retry_after_ms is None else retry_after_ms / 1000

    def fields(self) -> tuple[Any, ...]:
        """See `PenstockError.fields`."""
        after = round(1000 * self.retry_after)
        return (str(self), after) if after else (str(self),)


class Unavailable(PenstockError, ConnectionError):
    """No answer came: the far end is gone, or cannot be reached."""

    retryable = True


class Untrusted(Unavailable):
    """The far end did not prove who it is, or speaks no TLS; certificates may be replaced."""


class WaitedTooLong(Unavailable, TimeoutError):
    """A deadline passed; the message says for what, since when, until when."""


class ConsumerLost(Unavailable):
    """A round cannot be released: a consumer of coordinated reads is gone, or never came.

    It ends a wait, not the iteration: when that consumer is back, the next call goes on with the
    same round.
    """


class InternalError(PenstockError, RuntimeError):
    """Penstock has a fault, and stopped before it could do harm; the message says where."""


class Closed(PenstockError, RuntimeError):
    """The object was closed or stopped before."""


class MissingExtra(PenstockError, ImportError):
    """A package is not installed here that an extra of Penstock installs; the message names it."""


class Reentered(PenstockError, RuntimeError):
    """A signal handler, or who brings elements, called where that could not be answered."""


def by_name(name: str, fields: tuple[Any, ...]) -> PenstockError:
    """Make the error that crossed the wire as *name* and *fields*."""
    kind = _KINDS.get(name)
    if kind is not None:
        with suppress(Exception):  # another version knows other fields: keep the words
            return kind(*fields)
    words = ", ".join(map(str, fields))
    return PenstockError(f"{name[:80]!r}, an error of another version of Penstock: {words}")


def _tree(kind: type[PenstockError]) -> list[type[PenstockError]]:
    return [kind, *(leaf for child in kind.__subclasses__() for leaf in _tree(child))]


_KINDS = {kind.__name__: kind for kind in _tree(PenstockError)}

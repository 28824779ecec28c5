"""Every exception that Penstock raises.

PenstockError                    .retryable says whether trying again may help
├── ConfigError                  a setting is malformed or contradicts another ValueError
├── DatasetError                 a pipeline or an argument is malformed      ValueError
│   ├── DefinitionError          it cannot be sent to a worker or loaded there
│   │   ├── DefinitionTooLarge   it is larger than a dispatcher accepts
│   │   └── TamperedDefinition   it differs from the registered one
│   ├── ElementError             a dataset may not yield this element
│   │   └── ElementTooLarge      one element exceeds the message budget
│   ├── StateError               a saved state does not fit this dataset
│   ├── MissingFile              a file does not exist                     FileNotFoundError
│   └── FileChanged              a file changed since it was listed
├── TransformError               a user's function raised, or its process died RuntimeError
├── SaveFailed                   a job was not saved, for any reader         RuntimeError
├── SaveIncomplete               a saved dataset lacks elements              RuntimeError
├── JournalError                 the dispatcher's journal is damaged or missing RuntimeError
├── Refused                      a service refused a request
│   ├── JobMismatch              the job exists with other parameters        ValueError
│   ├── JobUsed                  earlier readers read some or all of it      RuntimeError
│   ├── UnknownDataset           no dataset is registered by this id         LookupError
│   ├── UnknownIteration         the pass has ended or was never opened      LookupError
│   ├── JobForgotten             a partly read pass was deleted              LookupError
│   ├── Superseded               another reader took this one's place        RuntimeError
│   ├── VersionMismatch          the two sides have different versions       RuntimeError
│   ├── StoreFull                the dispatcher's disk is full               RuntimeError
│   ├── Unauthenticated          the caller has no valid credentials         PermissionError
│   ├── WrongRole                the caller's role may not do this           PermissionError
│   └── Overloaded               a limit is reached: try again later         RuntimeError
├── Unavailable                  no answer arrived                           ConnectionError
│   ├── Untrusted                the service did not prove its identity      ConnectionError
│   ├── WaitedTooLong            a deadline passed                           TimeoutError
│   └── ConsumerLost             a consumer that all wait for is lost        ConnectionError
├── InternalError                Penstock has a fault                        RuntimeError
├── Closed                       the object is closed                        RuntimeError
├── MissingExtra                 a package of an extra is not installed      ImportError
└── Reentered                    a signal handler called during another call RuntimeError

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

    >>> from penstock.errors import Overloaded
    >>> Overloaded("the worker is full").retryable
    True
    """

    retryable = False

    @property
    def address(self) -> str:
        """Where to read the meaning of this error and what to do.

        It is a command that works without a network: ``penstock errors Closed``. If
        ``PENSTOCK_DOCS`` is set, it is a page below that address; if that is empty, nothing.
        """
        base, name = os.environ.get(DOCS), type(self).__name__
        if base is None:
            return f"`{COMMAND} {name}`"
        return f"{base.rstrip('/')}/reference/errors/#{name.lower()}" if base else ""

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]  # it is an attribute, as all can be
        """The lines that a traceback shows below the message; the last says where to read more."""
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
    """A setting is malformed or contradicts another; the message names it."""


class DatasetError(PenstockError, ValueError):
    """A pipeline or an argument is malformed. The message names the operator.

    >>> Dataset.range(3).batch(0)
    Traceback (most recent call last):
    penstock.errors.DatasetError: batch: batch_size must be an integer of at least 1, not 0
    """


class DefinitionError(DatasetError):
    """A pipeline cannot be sent to a worker, or a worker cannot load it."""


class DefinitionTooLarge(DefinitionError):
    """A pipeline is larger than the dispatcher accepts; the message names its largest part."""


class TamperedDefinition(DefinitionError):
    """A definition was changed after a trainer registered it, and does not run."""


class ElementError(DatasetError):
    """A dataset may not yield this element, or it differs from earlier elements."""


class ElementTooLarge(ElementError):
    """An element is larger than a message may be."""


class StateError(DatasetError):
    """A saved state does not fit this dataset."""


class MissingFile(DatasetError, FileNotFoundError):
    """A file does not exist, or a pattern matches nothing."""


class FileChanged(DatasetError):
    """A file is not the version that the run listed: it was replaced."""


class TransformError(PenstockError, RuntimeError):
    """A user's function raised an exception, or its process died.

    If the function ran in this process, its exception is the error's ``__cause__``. In one process,
    iteration continues after the failing element. In a distributed job, the first error ends the
    pass. See also `Dataset.ignore_errors`.

    Attributes:
        operator: the operator and the function, as in ``map(decode)``.
        number: the number of the operator's input element, from 0. On a worker it counts the
            elements of one task; inside `flat_map` or `interleave`, those of one inner dataset.
        detail: the exception, or the signal that ended the process. For an inner dataset it also
            names the element that the dataset was made of.
        worker: the worker's address, or None if the pipeline ran in this process.
        remote_traceback: the traceback of the exception as text, without Penstock's frames.
        given: the arguments of the function as text, shortened; nothing if there were none.

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
    """A job was not saved, for any of its readers."""


class SaveIncomplete(PenstockError, RuntimeError):
    """A saved dataset lacks elements: its save still runs, failed, or was cancelled."""


class JournalError(PenstockError, RuntimeError):
    """A dispatcher's journal is damaged or missing; the message names file, place and remedy."""


class Refused(PenstockError):
    """A service refused a request."""


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
    """Earlier readers have read some or all of a job that was to be read from its beginning."""


class UnknownDataset(Refused, LookupError):
    """No dataset is registered by this id."""


class UnknownIteration(Refused, LookupError):
    """The pass has ended, or was never opened."""


class JobForgotten(Refused, LookupError):
    """Readers acknowledged a part of the pass, and the dispatcher deleted the rest."""


class Superseded(Refused, RuntimeError):
    """Another process restored a state of the job, or reads as the same consumer."""


class VersionMismatch(Refused, RuntimeError):
    """The two sides have different versions."""


class StoreFull(Refused, RuntimeError):
    """The dispatcher cannot write to its journal, and accepts nothing new."""


class Unauthenticated(Refused, PermissionError):
    """The caller has no valid credentials; the message says why."""


class WrongRole(Refused, PermissionError):
    """The caller's role may not do this; the message names the roles that may."""


class Overloaded(Refused, RuntimeError):
    """The service has reached a limit.

    Attributes:
        retry_after: the seconds to wait before a retry, if the service knows.
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
    """No answer arrived: nothing runs at the address, or it cannot be reached."""

    retryable = True


class Untrusted(Unavailable):
    """The service did not prove its identity, or speaks no TLS; certificates may be replaced."""


class WaitedTooLong(Unavailable, TimeoutError):
    """A deadline passed; the message says for what, since when and until when."""


class ConsumerLost(Unavailable):
    """A consumer that a round needs is lost or never started; the next call waits for it again."""


class InternalError(PenstockError, RuntimeError):
    """Penstock has a fault and stopped before it could do harm; the message says where."""


class Closed(PenstockError, RuntimeError):
    """The object is closed or stopped."""


class MissingExtra(PenstockError, ImportError):
    """A package of an extra of Penstock is not installed; the message names the extra."""


class Reentered(PenstockError, RuntimeError):
    """A signal handler, or a source of elements, called during another call."""


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

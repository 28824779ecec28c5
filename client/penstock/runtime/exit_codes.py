"""With which code a process of ours ends: one table, for commands and for services."""

from __future__ import annotations

from enum import IntEnum

from penstock.errors import ConfigError, DatasetError, PenstockError, Unavailable


class ExitCode(IntEnum):
    """What a caller may tell apart; `docs/reference/command.md` has the table."""

    DONE = 0
    FAILED = 1
    MISUSED = 2
    """It was called wrongly. The command line itself ends so for an unknown option."""
    NOBODY = 3
    """No service answers at the address."""


def exit_code(error: PenstockError) -> ExitCode:
    """Return the code of the family that *error* is of.

    >>> exit_code(ConfigError("port must be from 0 to 65535")).name
    'MISUSED'
    """
    match error:
        case ConfigError() | DatasetError():
            return ExitCode.MISUSED
        case Unavailable():
            return ExitCode.NOBODY
        case _:
            return ExitCode.FAILED

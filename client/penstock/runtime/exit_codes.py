"""The exit codes of Penstock's processes: one table for commands and services."""

from __future__ import annotations

from enum import IntEnum

from penstock.errors import ConfigError, DatasetError, PenstockError, Unavailable


class ExitCode(IntEnum):
    """The outcomes that a caller can tell apart; `docs/reference/command.md` has the table."""

    DONE = 0
    FAILED = 1
    MISUSED = 2
    """The call was wrong. An unknown option ends the command line with this code."""
    NOBODY = 3
    """No service answers at the address."""


def exit_code(error: PenstockError) -> ExitCode:
    """Return the exit code for the family of *error*.

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

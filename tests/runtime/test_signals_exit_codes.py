"""One table of exit codes, for commands and services."""

from penstock import errors
from penstock.runtime.signals import ExitCode, exit_code


def test_each_family_of_errors_has_its_code():
    assert exit_code(errors.ConfigError("no")) is ExitCode.MISUSED
    assert exit_code(errors.MissingFile("no")) is ExitCode.MISUSED
    assert exit_code(errors.WaitedTooLong("no")) is ExitCode.NOBODY
    assert exit_code(errors.Overloaded("no")) is ExitCode.FAILED

"""Whether this process has the files that every process counts on: stdin, stdout and stderr."""

from __future__ import annotations

import os


def fill_standard_files() -> None:
    """Open the null device as stdin, stdout and stderr where these are closed, as in a daemon.

    Otherwise the next file or socket gets such a number. Child processes would take it for their
    output, and write into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number: all below are open
            os.set_inheritable(opened, True)

"""TLS 1.3 and nothing older, in a process that is a service.

gRPC for Python has no setting for it. It reads from a variable, when it is loaded, which ciphers
TLS 1.2 may use; those of 1.3 are not in that list. One that needs a key which nobody has leaves 1.2
without any.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "GRPC_SSL_CIPHER_SUITES"

NONE_OF_1_2 = "ECDHE-PSK-AES128-CBC-SHA"
"""A cipher of TLS 1.2 by a key shared beforehand, which no service here has."""


def insist_on_1_3(credentials: str | None) -> None:
    """Begin this process again with the variable, if it speaks TLS and has it not.

    Its number, its files and its arguments stay; call it before anything is open. A list of ciphers
    that is set already stays as it is.
    """
    if credentials and VARIABLE not in os.environ:
        os.environ[VARIABLE] = NONE_OF_1_2
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  itself

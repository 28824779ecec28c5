"""Processes that speak TLS begin again, once, with what leaves TLS 1.2 no cipher."""

import os
import subprocess
import sys

import pytest

from penstock.runtime.signals import NONE_OF_1_2, VARIABLE

TELL = f"""
import os, sys
from penstock.runtime.signals import insist_on_1_3
print(os.getpid(), flush=True)
insist_on_1_3(sys.argv[1])
print(os.environ.get({VARIABLE!r}), *sys.argv[1:])
"""


def told(credentials, **env):
    env = {name: value for name, value in os.environ.items() if name != VARIABLE} | env
    ran = subprocess.run(
        [sys.executable, "-c", TELL, credentials, "b c"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ran.stdout.splitlines()


def test_a_process_with_credentials_begins_again_once_as_it_was():
    first, second, last = told("folder")

    assert first == second  # the number of the process
    assert last == f"{NONE_OF_1_2} folder b c"


@pytest.mark.parametrize("credentials, env", [("", {}), ("folder", {VARIABLE: "own"})])
def test_a_process_without_tls_or_with_ciphers_of_its_own_goes_on(credentials, env):
    _, last = told(credentials, **env)

    assert last.split(" ")[0] == env.get(VARIABLE, "None")

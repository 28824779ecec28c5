"""What ``ps`` shows of a process."""

import subprocess
import sys

import pytest

SHOW = """
import sys
from penstock.ipc.command_line import show_as
show_as(sys.argv[1:])
with open("/proc/self/cmdline", "rb") as file:
    print(file.read().rstrip(b"\\0"))
"""


def shown(*words):
    run = subprocess.run([sys.executable, "-c", SHOW, *words], capture_output=True, check=True)
    return eval(run.stdout)


def test_a_process_is_shown_with_the_words_that_it_asked_for():
    assert shown("python", "-m", "something") == b"python\0-m\0something"


@pytest.mark.parametrize("length", [10_000, 100_000])
def test_what_there_is_no_room_for_is_left_out_and_no_variable_is_shown(length):
    code = SHOW.replace("sys.argv[1:]", f"['x' * {length}]")
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, env={"SECRET": "value"}
    )

    words = eval(run.stdout)
    assert set(words) == {ord("x")}
    assert len(words) < length

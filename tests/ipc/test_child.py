"""What a process shares with the one that it works for, and what ``ps`` shows of it."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from penstock.ipc.child import ONE_THREAD, ProcessEnvironment

SETTLE = """
import os, sys
from penstock.ipc.child import ProcessEnvironment
os.environ["ONLY_HERE"] = "1"
directory, first, value = sys.argv[1:]
there = ProcessEnvironment.here()
environment = dict(there.environment)
environment.pop(b"ONLY_HERE")
environment[b"FROM_THERE"] = value.encode()
path = [first.encode(), *there.path]
ProcessEnvironment(directory.encode(), path, environment).settle()
print(os.getcwd(), sys.path[0], os.environ.get("FROM_THERE"), os.environ.get("ONLY_HERE"))
"""


def settled(directory, first="/first"):
    command = [sys.executable, "-c", SETTLE, str(directory), first, "value"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


def test_a_child_has_the_directory_the_modules_and_the_variables_of_its_parent(tmp_path):
    assert settled(tmp_path) == [str(tmp_path.resolve()), "/first", "value", "None"]


def test_a_child_stays_where_it_is_when_the_directory_is_gone(tmp_path):
    where, *_ = settled(tmp_path / "gone")

    assert where == os.getcwd()


def test_numeric_libraries_get_one_thread_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)

    here = ProcessEnvironment.here().environment

    assert here[b"OMP_NUM_THREADS"] == b"3"
    assert here[b"MKL_NUM_THREADS"] == ONE_THREAD[b"MKL_NUM_THREADS"] == b"1"


def test_an_empty_entry_of_the_module_path_is_the_current_directory():
    here = replace(ProcessEnvironment.here(), path=[b"", b"/a"])

    assert here.first_path == b".:/a"


SHOW = """
import sys
from penstock.ipc.child import show_as
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

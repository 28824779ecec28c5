"""A process that is killed at its n-th write: before it, behind it, or in the middle of it."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from chaos.writes.preload import Hit, How, Order, compiled

CHANGES = """
import os, sqlite3, sys, tempfile
top = sys.argv[1]
os.mkdir(top + "/sub")                                        # 1 mkdir
with open(top + "/sub/a", "wb", buffering=0) as out:          # 2 open
    out.write(b"0123456789")                                  # 3 write
    os.ftruncate(out.fileno(), 8)                             # 4 ftruncate
    os.pwrite(out.fileno(), b"AB", 0)                         # 5 pwrite
os.replace(top + "/sub/a", top + "/b")                        # 6 rename
with open(top + "/b", "rb") as unchanged:
    unchanged.read()
with open(top + "/b", "ab", buffering=0) as out:
    out.write(b"xy")                                          # 7 write
os.unlink(top + "/b")                                         # 8 unlink
os.write(1, b"this is below no folder")
"""

CALLS = [
    Hit("mkdir", "/sub"),
    Hit("open", "/sub/a"),
    Hit("write", "/sub/a"),
    Hit("ftruncate", "/sub/a"),
    Hit("pwrite", "/sub/a"),
    Hit("rename", "/b"),
    Hit("write", "/b"),
    Hit("unlink", "/b"),
]
WRITES = [call for call in CALLS if "write" in call.what]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    found = compiled(tmp_path_factory.mktemp("library"))
    if found is None:
        pytest.skip("there is no C compiler here (cc)")
    return found


@pytest.fixture
def order(library, tmp_path):
    (tmp_path / "top").mkdir()
    with Order(library, tmp_path / "order", tmp_path / "top") as order:
        yield order


def run(order, top, at, how, again=0, code=CHANGES):
    """Run it in an empty folder; return what is there then."""
    shutil.rmtree(top)
    top.mkdir()
    order.give(at, how, again)
    started = subprocess.run(
        [sys.executable, "-ISc", code, str(top)],
        env=os.environ | order.env,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    assert started.returncode == (-signal.SIGKILL if order.kills else 0)
    return {
        str(file.relative_to(top)): file.read_bytes() if file.is_file() else None
        for file in top.rglob("*")
    }


AFTER = [
    {},
    {"sub": None},
    {"sub": None, "sub/a": b""},
    {"sub": None, "sub/a": b"0123456789"},
    {"sub": None, "sub/a": b"01234567"},
    {"sub": None, "sub/a": b"AB234567"},
    {"sub": None, "b": b"AB234567"},
    {"sub": None, "b": b"AB234567xy"},
    {"sub": None},
]
"""What is there when so many calls were made."""


@pytest.mark.slow
def test_each_call_that_changes_something_below_the_folder_is_counted_and_no_other(order, tmp_path):
    found = run(order, tmp_path / "top", 0, How.BEFORE)

    assert found == AFTER[-1]
    assert (order.calls, order.writes, order.kills) == (len(CALLS), len(WRITES), 0)
    assert order.hit is None


@pytest.mark.quick(11)
@pytest.mark.parametrize("call", range(1, len(CALLS) + 1))
@pytest.mark.parametrize("how", [How.BEFORE, How.AFTER])
def test_it_is_killed_before_a_call_or_behind_it(order, tmp_path, call, how):
    found = run(order, tmp_path / "top", call, how)

    assert order.hit == CALLS[call - 1]
    assert found == AFTER[call if how is How.AFTER else call - 1]


def test_of_a_torn_write_half_of_the_bytes_are_there(order, tmp_path):
    found = [run(order, tmp_path / "top", at, How.TORN) for at in (1, 2, 3)]

    assert [each.get("sub/a", each.get("b")) for each in found] == [
        b"01234",
        b"A1234567",
        b"AB234567x",
    ]
    assert order.hit == WRITES[-1]


def test_it_is_killed_once_more_where_that_is_wanted(order, tmp_path):
    run(order, tmp_path / "top", 2, How.AFTER, again=3)
    top = tmp_path / "top" / "again"
    top.mkdir()
    command = [sys.executable, "-ISc", CHANGES, str(top)]
    for _ in range(2):
        subprocess.run(command, env=os.environ | order.env, stdout=-3, check=False)
        shutil.rmtree(top)
        top.mkdir()

    assert order.kills == 2
    assert order.hit == CALLS[1]
    assert order.calls == 5 + len(CALLS)


@pytest.mark.slow
def test_what_sqlite_writes_is_counted(order, tmp_path):
    code = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1] + '/db', isolation_level=None);"
        "db.execute('PRAGMA journal_mode = WAL'); db.execute('CREATE TABLE t (a)');"
        "db.execute('INSERT INTO t VALUES (1)'); db.close()"
    )
    run(order, tmp_path / "top", 0, How.BEFORE, code=code)
    whole = order.calls
    kinds = set()
    for at in range(1, whole + 1):
        run(order, tmp_path / "top", at, How.BEFORE, code=code)
        kinds.add(order.hit.where)

    assert {"/db", "/db-wal"} <= kinds

"""A covered folder keeps what Landlock has no right for, tried by functions in real runners."""

import ctypes
import os
import traceback
from pathlib import Path

import pytest

from penstock.dataset.dataset import Dataset
from penstock_worker.runner import cover, landlock
from penstock_worker.runner.confinement import Confinement
from penstock_worker.runner.landlock import FileRules

NOBODY = 65534

pytestmark = pytest.mark.skipif(
    landlock.version() < landlock.LEAST or not cover.possible(["/etc"]),
    reason="this host has no Landlock, or lets this user make no mount namespace",
)


@pytest.fixture
def keys(tmp_path):
    """Return a folder of keys, with a folder in it."""
    folder = tmp_path / "keys"
    (folder / "more").mkdir(parents=True)
    for name in ("tls.key", "more/token"):
        (folder / name).write_text("secret")
        (folder / name).chmod(0o600)
    return folder


def looks(folder):
    """Return what is known of each file of *folder* beside its access time."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        told = path.stat()
        found[path] = (told.st_mode, told.st_uid, told.st_gid, told.st_mtime_ns, told.st_ctime_ns)
    return found


async def outcomes(working, folder, tried):
    def one_by_one(number):
        try:
            return str(tried[int(number)]())
        except OSError as exc:
            return type(exc).__name__

    rules = FileRules((str(folder),), covered=True)
    async with working(confinement=Confinement(files=rules)) as workplace:
        run = await workplace.read(Dataset.range(len(tried)).map(one_by_one))
        return [str(text) for text in run.elements]


async def test_modes_owners_and_times_of_covered_files_stay_as_they_were(working, keys):
    key, before = keys / "tls.key", looks(keys)
    tried = [
        lambda: keys.chmod(0o777),
        lambda: key.chmod(0o644),
        lambda: os.chown(key, NOBODY, NOBODY),
        lambda: os.utime(key, (1, 1)),
        lambda: (keys / "more" / "token").chmod(0o666),
        lambda: os.chmod(f"/proc/self/root{key}", 0o644),
        lambda: os.chmod(f"/proc/{os.getppid()}/root{key}", 0o644),
    ]
    await outcomes(working, keys, tried)

    assert looks(keys) == before


async def test_a_cover_shows_the_names_and_to_open_a_file_is_not_allowed(working, keys):
    tried = [
        lambda: sorted(os.listdir(keys)),
        (keys / "tls.key").read_text,
        (keys / "more" / "token").read_text,
        (keys / "none").read_text,
    ]
    found = await outcomes(working, keys, tried)

    assert found == [
        "['more', 'tls.key']",
        "PermissionError",
        "PermissionError",
        "FileNotFoundError",
    ]


async def test_no_function_takes_a_cover_away(working, keys):
    before = looks(keys)

    def called(name, *arguments):
        if ctypes.CDLL(None, use_errno=True)[name](*arguments):
            raise OSError(ctypes.get_errno(), name)

    def in_another_namespace():
        called("unshare", 0x00020000)
        called("umount2", os.fsencode(keys), 2)

    def in_the_worker_s_namespace():
        called("setns", os.open(f"/proc/{os.getppid()}/ns/mnt", os.O_RDONLY), 0)

    tried = [
        lambda: called("umount2", os.fsencode(keys), 2),
        in_another_namespace,
        in_the_worker_s_namespace,
        lambda: (keys / "tls.key").chmod(0o644),
    ]
    found = await outcomes(working, keys, tried)

    assert set(found[:3]) <= {"PermissionError", "OSError"}
    assert looks(keys) == before


def in_a_child_of(uid, act):
    """Return the exit status of a fork of this process that becomes *uid* and calls *act*."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            code = act()
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_user_without_privileges_gets_a_cover_by_a_user_namespace_and_keeps_no_rights_of_it(
    tmp_path,
):
    if Path("/proc/sys/user/max_user_namespaces").read_text().strip() == "0":
        pytest.skip("this host lets no user make a user namespace")
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "token").write_text("secret")
    for path in (folder, folder / "token"):
        os.chown(path, NOBODY, NOBODY)
    for path in [folder, *folder.parents]:
        path.chmod(path.stat().st_mode | 0o111)
    before = looks(folder)

    def act():
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as after exec: /proc/self is its own again
        cover.put([str(folder)])
        (folder / "token").chmod(0o644)
        folder.chmod(0o755)
        empty = (folder / "token").read_bytes() == b""
        return 0 if empty and not cover._has_capabilities() and os.getuid() == NOBODY else 2

    assert in_a_child_of(NOBODY, act) == 0
    assert looks(folder) == before

"""What a machine may lack: descriptors, threads, room on a disk. Set for a process that runs."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

Restore = Callable[[], None]

GROUPS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
"""Where control groups of processes are: of version 1, and 2."""

DISK = "8m"
"""How large the disk of a work directory is, where one can be mounted."""


def limit_files(pid: int, more: int) -> Restore | None:
    """Let *pid* open at most so many *more* files; None if it has just ended."""
    with suppress(OSError):
        highest = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
        return _limit(pid, resource.RLIMIT_NOFILE, highest + 1 + more)
    return None


def limit_file_size(pid: int, folder: Path) -> Restore | None:
    """Let *pid* make no file longer than the longest in *folder*: as a quota does."""
    with suppress(OSError):
        sizes = (file.stat().st_size for file in folder.rglob("*") if file.is_file())
        return _limit(pid, resource.RLIMIT_FSIZE, max(sizes, default=0))
    return None


def limit_threads(pids: Sequence[int], more: int) -> Restore | None:
    """Let *pids*, and whom they fork, have so many *more* threads; None where that cannot be said.

    Root has no such limit of its own (``RLIMIT_NPROC``), so it is one of a control group.
    """
    if os.getuid():
        with suppress(OSError):
            most = _threads_of_user() + more
            return _all_of([_limit(pid, resource.RLIMIT_NPROC, most) for pid in pids])
        return None
    for top in GROUPS:
        with suppress(OSError):
            return _limit_group(top, pids, more)
    return None


def _limit(pid: int, which: int, value: int) -> Restore:
    soft, hard = resource.prlimit(pid, which)
    resource.prlimit(pid, which, (value, hard))

    def restore() -> None:
        with suppress(OSError):
            resource.prlimit(pid, which, (soft, hard))

    return restore


def _all_of(restores: Sequence[Restore]) -> Restore:
    def restore() -> None:
        for one in restores:
            one()

    return restore


def _limit_group(top: Path, pids: Sequence[int], more: int) -> Restore:
    before = _group_of(pids[0], top)
    group = top / f"penstock-chaos-{pids[0]}"
    if not (top / "cgroup.procs").exists():
        raise FileNotFoundError(top)
    group.mkdir(exist_ok=True)
    most = group / "pids.max"
    if not most.exists():
        group.rmdir()
        raise FileNotFoundError(most)
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid))
    threads = sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids)
    most.write_text(str(threads + more))

    def restore() -> None:
        with suppress(OSError):
            most.write_text("max")
        # It goes with its last process; those forked meanwhile are moved as well.
        with suppress(OSError):
            for one in (group / "cgroup.procs").read_text().split():
                with suppress(OSError):
                    (before / "cgroup.procs").write_text(one)
            group.rmdir()

    return restore


def _group_of(pid: int, top: Path) -> Path:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if "pids" in names.split(",") or not names:
            return top / path.lstrip("/")
    return top


def _threads_of_user() -> int:
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                count += len(os.listdir(folder / "task"))
    return count


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Have a small disk of its own at *folder*, if it may be mounted; say whether it was."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "penstock-chaos", str(folder)]
    mounted = not os.getuid() and not subprocess.run(mount, capture_output=True).returncode
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Restore:
    """Leave no byte of the disk at *folder*."""
    file = folder / "filler"
    with file.open("wb", buffering=0) as out, suppress(OSError):
        while True:
            out.write(bytes(1 << 16))
    with file.open("ab", buffering=0) as out, suppress(OSError):
        while True:
            out.write(bytes(256))
    return lambda: file.unlink(missing_ok=True)

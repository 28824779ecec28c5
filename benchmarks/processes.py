"""The processes that are there for another one, for what they use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def family(pid: int) -> Iterator[int]:
    """Yield a process and those that it started or had forked: a zygote says whose it is."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it may end meanwhile
            for child in task.read_text().split():
                yield from family(int(child))
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            forked = b"--worker" in words and words[words.index(b"--worker") + 1] == b"%d" % pid
            if forked and (entry / "stat").read_text().rpartition(")")[2].split()[1] != str(pid):
                yield from family(int(entry.name))

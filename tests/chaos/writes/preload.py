"""The library that kills a process at its n-th write, and the orders that it is given."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Self

SOURCE = Path(__file__).with_name("kill_at_write.c")

ORDER = struct.Struct("6Q32s216s")
"""As `struct order` in the source."""

FILE, FOLDER = "PENSTOCK_CHAOS_WRITES", "PENSTOCK_CHAOS_FOLDER"


class How(IntEnum):
    """When a process is killed: before a call, behind it, or when it wrote half of its bytes."""

    BEFORE = 1
    AFTER = 2
    TORN = 3


@dataclass(frozen=True, slots=True)
class Hit:
    """The call at which a process was killed, and the file, below the folder."""

    what: str
    where: str

    def __str__(self) -> str:
        return f"{self.what} {self.where}"

    @property
    def kind(self) -> str:
        """The call, and the file without what is drawn by lot, or a digest."""
        folder, _, name = self.where.rpartition("/")
        if folder:
            name = "(unfinished)" if name.startswith(".") else "(file)"
        elif name.startswith("."):
            name = "(unfinished)"
        return f"{self.what} {folder.lstrip('/')}{'/' if folder else ''}{name}"


def compiled(folder: Path) -> Path | None:
    """Compile the library into *folder*; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "kill_at_write.so"
    flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, "-o", library, SOURCE, "-ldl"], check=True)
    return library


class Order:
    """What processes are told by a *file* that they map, and have counted there.

    They are those that begin with `env`: what they change below *folder* counts.
    """

    def __init__(self, library: Path, file: Path, folder: Path) -> None:
        self._library, self._file, self._folder = library, file, folder
        file.write_bytes(bytes(ORDER.size))
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), ORDER.size)

    @property
    def env(self) -> dict[str, str]:
        """The variables that a process begins with."""
        return {
            "LD_PRELOAD": str(self._library),
            FILE: str(self._file),
            FOLDER: str(self._folder.resolve()),
        }

    def give(self, at: int, how: How, again: int = 0) -> None:
        """Count anew, and kill at the call *at*, the first of which is 1; 0 kills nobody.

        Once more at the call *again* behind it, unless that is 0. Of torn writes only calls that
        write bytes are counted.
        """
        ORDER.pack_into(self._shared, 0, 0, 0, at, how, again, 0, b"", b"")

    @property
    def calls(self) -> int:
        """How many calls changed something, since the order was given."""
        return int(self._read()[0])

    @property
    def writes(self) -> int:
        """How many of them wrote bytes."""
        return int(self._read()[1])

    @property
    def kills(self) -> int:
        """How often somebody was killed."""
        return int(self._read()[5])

    @property
    def hit(self) -> Hit | None:
        """The call at which somebody was killed first, if it came."""
        what, where = (os.fsdecode(part.rstrip(b"\0")) for part in self._read()[6:])
        return Hit(what, where) if what else None

    def close(self) -> None:
        """Let go of the file. Who maps it, goes on to."""
        self._shared.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> tuple[int, int, int, int, int, int, bytes, bytes]:
        return ORDER.unpack_from(self._shared)

"""Wall clocks of processes under test, which may be set while they run."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from chaos.clock.sitecustomize import FILE

FOLDER = Path(__file__).with_name("clock")


class Clock:
    """The wall clock of a process; how far it is off stands in *file*."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.write_bytes(struct.pack("d", 0.0))

    @property
    def env(self) -> dict[str, str]:
        """The variables that a process with this clock begins with."""
        paths = [str(FOLDER), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        return {FILE: str(self.file), "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def set(self, hours: float) -> None:
        """Have it be so many *hours* off from now on."""
        with self.file.open("r+b") as file:
            file.write(struct.pack("d", 3600.0 * hours))

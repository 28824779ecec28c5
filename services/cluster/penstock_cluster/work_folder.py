"""The folder of a dispatcher that a program or a command starts: given, or a temporary one."""

from __future__ import annotations

import tempfile
from pathlib import Path

from penstock.errors import ConfigError


def given_folder(path: str | Path) -> Path:
    """Return *path* as a folder that is there.

    Raises:
        ConfigError: when there is none, and it cannot be made.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigError(
            f"work_dir {str(path)!r} cannot be made ({exc}): give a folder that can be written to"
        ) from exc
    return folder


def temporary_folder() -> Path:
    """Return a new folder; who asks removes it.

    Raises:
        ConfigError: when no folder for temporary files can be written to.
    """
    try:
        return Path(tempfile.mkdtemp(prefix="penstock-"))
    except OSError as exc:
        raise ConfigError(
            f"there is no folder for the dispatcher's files ({exc}): give work_dir, a folder that "
            "can be written to, or name one in the variable TMPDIR"
        ) from exc

"""An authority in a folder, for tests."""

from datetime import UTC, datetime
from pathlib import Path

from penstock.credentials import authority

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def made(folder: Path, *hosts: str, now: datetime | None = None) -> Path:
    """Return *folder* with an authority and all roles in it."""
    authority.init(folder, hosts, now or datetime.now(UTC))
    return folder

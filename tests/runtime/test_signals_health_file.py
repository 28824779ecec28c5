"""The age of a file says whether a service works."""

import asyncio

import pytest

from penstock.errors import ConfigError
from penstock.runtime import signals
from penstock.runtime.signals import touching


async def test_the_file_is_touched_while_the_loop_runs_and_gone_behind_it(tmp_path, monkeypatch):
    monkeypatch.setattr(signals, "EVERY", 0.001)
    file = tmp_path / "health"

    async with touching(str(file)):
        first = file.stat().st_mtime_ns
        async with asyncio.timeout(20):
            while file.stat().st_mtime_ns == first:
                await asyncio.sleep(0.001)

    assert not file.exists()


async def test_without_a_file_nothing_is_done(tmp_path):
    async with touching(None):
        assert not list(tmp_path.iterdir())


async def test_a_file_that_cannot_be_made_is_named(tmp_path):
    with pytest.raises(ConfigError, match="health_file .* cannot be made"):
        async with touching(str(tmp_path / "no" / "health")):
            pass

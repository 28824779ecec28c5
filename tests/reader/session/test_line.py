"""One connection after the other to a dispatcher; what was fine is used again."""

import asyncio

import pytest

from penstock.reader.session.line import Line

NOBODY = "127.0.0.1:9"


async def _closed(channel):
    return channel.inner.get_state().name == "SHUTDOWN"


async def test_a_connection_that_was_fine_is_lent_again():
    line = Line(NOBODY)
    async with line.channel() as first:
        pass
    async with line.channel() as second:
        assert second is first
    await line.close()


async def test_a_connection_that_failed_is_closed_and_the_next_is_a_new_one():
    line = Line(NOBODY)
    with pytest.raises(OSError, match="gone"):
        async with line.channel() as first:
            raise OSError("gone")

    assert await _closed(first)
    async with line.channel() as second:
        assert second is not first
    await line.close()


async def test_a_connection_whose_borrower_is_told_to_stop_is_kept():
    line = Line(NOBODY)
    with pytest.raises(asyncio.CancelledError):
        async with line.channel() as first:
            raise asyncio.CancelledError
    async with line.channel() as second:
        assert second is first
    await line.close()


async def test_who_comes_while_it_is_lent_gets_another_and_one_is_kept():
    line = Line(NOBODY)
    async with line.channel() as first:
        async with line.channel() as second:
            assert second is not first

    assert await _closed(second)
    assert not await _closed(first)
    await line.close()


async def test_what_leads_nowhere_is_closed_in_the_end():
    line = Line(NOBODY)
    async with line.channel() as channel:
        pass
    await line.close()
    await line.close()

    assert await _closed(channel)

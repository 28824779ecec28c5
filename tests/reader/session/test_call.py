"""A call waits for a dispatcher that is away, for as long as it may."""

import pytest

from penstock import errors
from penstock.reader.session.call import call_dispatcher

NOBODY = "127.0.0.1:9"


async def test_a_call_is_made_again_until_it_is_answered():
    tried = []

    async def call(_dispatcher):
        tried.append(1)
        if len(tried) < 3:
            raise errors.Unavailable("not yet")
        return "there"

    assert await call_dispatcher(NOBODY, 10.0, call) == "there"
    assert len(tried) == 3


async def test_an_answer_that_is_an_error_is_final():
    async def call(_dispatcher):
        raise errors.UnknownDataset("nobody")

    with pytest.raises(errors.UnknownDataset, match="nobody"):
        await call_dispatcher(NOBODY, 10.0, call)


async def test_a_dispatcher_that_stays_away_is_named_within_the_timeout():
    with pytest.raises(errors.WaitedTooLong, match=NOBODY):
        await call_dispatcher(NOBODY, 0.2, lambda dispatcher: dispatcher.status())


async def test_who_is_refused_for_now_waits_as_long_as_it_is_told(monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr("penstock.reader.session.call.asyncio.sleep", sleep)

    async def call(_dispatcher):
        if len(waits) < 2:
            raise errors.Overloaded("full", 2000)
        return "there"

    assert await call_dispatcher(NOBODY, 10.0, call) == "there"
    assert all(2.0 <= seconds <= 3.0 for seconds in waits)

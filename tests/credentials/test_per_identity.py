"""What is counted of each identity: one that has all it may does not take from others."""

import asyncio

import pytest

from penstock.credentials.per_identity import NEAR, PerIdentity, answer_to, identity_answered
from penstock.errors import Overloaded


def test_one_that_has_all_it_may_is_refused_by_the_name_of_the_bound_and_others_are_not():
    jobs = PerIdentity(2, "jobs open", "max_jobs_per_identity")
    jobs.take("ann")
    jobs.take("ann")

    with pytest.raises(Overloaded, match="ann has 2 jobs open .* may have 2: .*max_jobs"):
        jobs.take("ann")
    jobs.take("bob")
    jobs.give_back("ann")
    jobs.take("ann")


def test_what_is_more_than_one_counts_as_that():
    kept = PerIdentity(100, "bytes", "max_bytes")
    kept.take("ann", 60)

    with pytest.raises(Overloaded, match="60 bytes here and asks for 41 more"):
        kept.take("ann", 41)
    kept.take("ann", 40)
    assert kept["ann"] == 100


def test_who_has_nothing_is_not_kept_in_mind():
    calls = PerIdentity(2, "calls", "max_calls")
    mine = ("ann", "ann", "bob")
    for name in mine:
        calls.take(name)
    assert len(calls) == 2
    with pytest.raises(Overloaded):
        calls.take("eve", 3)

    for name in mine:
        calls.give_back(name)
    assert len(calls) == 0


async def test_a_task_knows_whom_it_answers_and_so_do_those_that_it_starts():
    async def answers(name):
        answer_to(name)
        return await asyncio.create_task(inner())

    async def inner():
        return identity_answered()

    found = await asyncio.gather(*(asyncio.create_task(answers(n)) for n in ("ann", "bob")))

    assert found == ["ann", "bob"]
    assert identity_answered() == NEAR

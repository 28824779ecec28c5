"""How the number of threads is found, by measuring."""

from __future__ import annotations

from penstock.autotune.budget import Budget
from tests.autotune.machine import Machine


def test_a_reader_who_becomes_faster_gets_more():
    machine = Machine(lambda n: 1000.0 * n, 500.0, Budget(4, 1))
    machine.run(1000)
    before = machine.meter.threads
    machine.wanted = 1e9

    machine.run(5000)

    assert (before, machine.meter.threads) == (1, 4)


def test_operators_share_the_cores_and_give_them_back():
    budget = Budget(4, 1)
    first, second = (Machine(lambda n: 1000.0 * n, 1e9, budget) for _ in range(2))
    first.run(3000)
    second.run(3000)
    alone = first.meter.threads, second.meter.threads

    first.meter.close()
    first.meter.close()
    second.run(3000)

    assert alone == (4, 1)
    assert second.meter.threads == 4

"""What operators count in a run: by operator, in any thread, and no more than is reported."""

import threading

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.engine.tallies import LONGEST, Tallies
from penstock.graph.run import open_root
from penstock.protocol.measures import MADE, MOST, Measure


def test_each_operator_has_its_own_sums():
    tallies = Tallies()
    tallies.of("", "pack").add(MADE, "tokens", 5)
    tallies.of("", "pack").add(MADE, "tokens", 2)
    tallies.of(".0", "mixture").add(MADE, "tokens", 1, "web")

    assert tallies.measures() == (
        Measure("", "pack", MADE, "tokens", 7),
        Measure(".0", "mixture", MADE, "tokens", 1, "web"),
    )


def test_no_sum_is_lost_if_several_threads_add():
    tallies = Tallies()

    def count():
        for _ in range(2000):
            tallies.of("", "pack").add(MADE, "tokens", 1)
            tallies.skip()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert tallies.measures()[0].sum == tallies.skipped == 8000


def test_only_the_first_operators_are_reported_and_long_names_are_cut():
    tallies = Tallies()
    for i in range(2 * MOST):
        tallies.of(f".{i}", "x" * 2 * LONGEST).add(MADE, "tokens", 1)

    found = tallies.measures()

    assert [each.path for each in found] == [f".{i}" for i in range(MOST)]
    assert len(found[0].operator) == LONGEST


def test_inner_datasets_count_in_the_run_that_they_are_part_of():
    dataset = Dataset.range(3).flat_map(
        lambda _: Dataset.range(4).map(lambda i: i.repeat(i)).padded_batch(4)
    )
    context = Context.local(7)
    open_root(dataset.node, context).block(9)

    (positions, padding) = context.tallies.measures()
    assert (positions.operator, positions.sum, padding.sum) == ("padded_batch", 36, 18)

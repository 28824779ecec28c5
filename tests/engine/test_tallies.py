"""What operators count in a run: by operator, in any thread, and no more than is reported."""

import threading

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.engine.tallies import LONGEST, Tallies
from penstock.graph.run import open_root
from penstock.protocol.measures import MADE, MOST, Measure


def test_each_operator_has_its_own_sums():
    tallies = Tallies()
    tallies.of("", "pack", "tokens").made += 5
    tallies.of("", "pack", "tokens").made += 2
    tallies.of(".0", "mixture", "tokens").add_part("web", 1)
    tallies.of(".1", "balance")

    assert tallies.measures() == (
        Measure("", "pack", MADE, "tokens", 7),
        Measure(".0", "mixture", MADE, "tokens", 1, "web"),
    )


def test_each_element_that_any_thread_left_out_is_counted():
    tallies = Tallies()

    def count():
        for _ in range(2000):
            tallies.skip()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert tallies.skipped == 8000


def test_only_the_first_operators_are_reported_and_long_names_are_cut():
    tallies = Tallies()
    for i in range(2 * MOST):
        tallies.of(f".{i}", "x" * 2 * LONGEST).made += 1

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
